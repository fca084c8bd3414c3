//! What a segment tells in words and what it keeps of sockets that are gone.

use stats::{
    CLOSED_SOCKETS, Capacity, Identity, KERNEL_SOCKETS, NOTES, Reader, SectionKind, Segment,
};

struct Fixture {
    segment: Segment,
    reader: Reader,
    _directory: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity {
        library_version: "1".to_owned(),
        program: "p".to_owned(),
    };
    let capacity = Capacity {
        sockets: 2,
        connections: 2,
        rings: 0,
        pools: 0,
        reasons: 0,
        settings: 0,
        rules: 0,
    };
    let segment = Segment::create(directory.path(), &identity, capacity).unwrap();
    let reader = Reader::open(directory.path(), std::process::id()).unwrap();
    Fixture {
        segment,
        reader,
        _directory: directory,
    }
}

#[test]
fn closed_sockets_outlive_their_slots_and_the_oldest_give_way() {
    let Fixture {
        segment, reader, ..
    } = fixture();
    for fd in 0..(CLOSED_SOCKETS + 3).cast_signed() {
        let socket = segment.claim_socket();
        socket.fd.set(fd);
        socket.local.set("10.0.0.1:53".parse().unwrap());
        socket.rx_os_packets.add(u64::from(fd.cast_unsigned()));
        socket.set_not_offloaded(9, 0);
        socket.detail.set("IP_PKTINFO");
        segment.remember_closed(&socket);
    }
    assert!(reader.sockets().unwrap().is_empty());
    let closed = reader.closed_sockets().unwrap();
    let fds: Vec<_> = closed.iter().map(|socket| socket.fd).collect();
    assert_eq!(fds, (3..35).collect::<Vec<_>>());
    let last = closed.last().unwrap();
    assert_eq!((last.rx_os_packets, last.reason, last.closed), (34, 9, 35));
    assert_eq!(last.detail, "IP_PKTINFO");
    assert_eq!(last.local, Some("10.0.0.1:53".parse().unwrap()));
}

#[test]
fn a_detail_may_change_and_ends_with_its_socket() {
    let Fixture {
        segment, reader, ..
    } = fixture();
    let socket = segment.claim_socket();
    let detail = || reader.sockets().unwrap().swap_remove(0).detail;
    assert_eq!(detail(), "");
    socket.detail.set("held by process 17 (unbound)");
    assert_eq!(detail(), "held by process 17 (unbound)");
    socket.detail.set(&"x".repeat(200));
    assert_eq!(detail(), "x".repeat(120));
    drop(socket);
    let _next = segment.claim_socket();
    assert_eq!(detail(), "");
}

#[test]
fn kernel_sockets_are_listed_while_they_are_open() {
    let Fixture {
        segment, reader, ..
    } = fixture();
    let slots: Vec<_> = (0..=KERNEL_SOCKETS)
        .map(|number| {
            let slot = segment.claim_kernel_socket();
            slot.protocol.set(stats::PROTOCOL_TCP);
            slot.fd.set(number.cast_signed());
            slot
        })
        .collect();
    assert_eq!(
        reader.kernel_sockets().unwrap().len(),
        KERNEL_SOCKETS as usize
    );
    assert_eq!(reader.overflowed(SectionKind::KernelSockets).unwrap(), 1);
    drop(slots);
    assert!(reader.kernel_sockets().unwrap().is_empty());
}

#[test]
fn a_note_is_replaced_and_taken_away() {
    let Fixture {
        segment, reader, ..
    } = fixture();
    let notes = || {
        let notes = reader.notes().unwrap().into_iter();
        let mut notes: Vec<_> = notes
            .map(|note| format!("{}/{}: {}", note.subject, note.topic, note.text))
            .collect();
        notes.sort();
        notes
    };
    segment.note("vb", "holder", "process 1");
    segment.note("vb", "holder", "process 2");
    segment.note("vb", "holder", "process 2");
    segment.note("vb", "vlan", "tags");
    segment.note("", "firewall", "rules");
    assert_eq!(
        notes(),
        ["/firewall: rules", "vb/holder: process 2", "vb/vlan: tags"]
    );
    segment.note("vb", "holder", "");
    segment.note("vb", "unknown", "");
    assert_eq!(notes(), ["/firewall: rules", "vb/vlan: tags"]);
    for number in 0..NOTES {
        segment.note("vb", &number.to_string(), "text");
    }
    assert_eq!(notes().len(), NOTES as usize);
    assert_eq!(reader.overflowed(SectionKind::Notes).unwrap(), 2);
}
