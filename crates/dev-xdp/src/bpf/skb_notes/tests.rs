use std::io::ErrorKind;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use testkit::{Namespaces, Pair, or_skip};

use super::*;
use crate::bpf::hidden::Hidden;
use crate::bpf::link::{AttachMode, XdpLink};
use crate::bpf::program::{Capacity, FlowMaps, OnMatch, Program, Verdict};

const LOCAL: SocketAddrV4 = SocketAddrV4::new(Pair::ADDRESS_B, 12_345);
const UDP: u8 = 17;
const UDP_SEGMENT: libc::c_int = 103;
/// Nothing takes so long that works.
const NEVER: Duration = Duration::from_secs(60);

/// Sends a message as datagrams of `segment` bytes, which the kernel makes as late as it can; 0: as
/// it is.
fn send(sender: &UdpSocket, message: &[u8], segment: libc::c_int) {
    let len = size_of_val(&segment) as libc::socklen_t;
    let (fd, value) = (sender.as_raw_fd(), (&raw const segment).cast());
    // SAFETY: the kernel reads `len` bytes, the size of `segment`.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_UDP, UDP_SEGMENT, value, len) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    sender.send(message).unwrap();
}

/// The program drops what it would take: only what it leaves to the kernel is received.
#[test]
fn datagrams_in_one_are_the_kernels_however_notes_are_read() {
    let pair = or_skip!(Namespaces::pair());
    let listing = pair.b.ip(&["-o", "link", "show", "dev", "vb"]).unwrap();
    let index = listing.split(':').next().unwrap().parse().unwrap();
    let (_, mac) = listing.split_once("link/ether ").unwrap();
    let mac: Vec<u8> = mac[..17]
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    let mac = mac.try_into().unwrap();
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    sender.connect(LOCAL).unwrap();
    pair.b.enter(|| {
        let receiver = UdpSocket::bind(LOCAL).unwrap();
        receiver.set_read_timeout(Some(NEVER)).unwrap();
        let notes = Arc::new(SkbNotes::begin().unwrap());
        let _held = notes.hold().unwrap();
        let capacity = Capacity {
            frame_bytes: 1792,
            in_pieces: false,
        };
        for reading in [Reading::InPlace, Reading::Copied] {
            if reading == Reading::InPlace && notes.reading() != reading {
                continue;
            }
            let maps = FlowMaps::create(4).unwrap();
            maps.add_port(LOCAL, UDP).unwrap();
            let hidden = Hidden::Notes(&notes, reading);
            let drop = OnMatch::Verdict(Verdict::Drop);
            let program = Program::load_asking(&maps, mac, capacity, drop, hidden).unwrap();
            let _link = XdpLink::attach(&program, index, AttachMode::Generic).unwrap();
            let mut buffer = [0; 2048];
            for round in 0..3 {
                send(&sender, b"alone", 0);
                send(&sender, &[b'x'; 250], 100);
                for expected in [100, 100, 50] {
                    let len = receiver.recv(&mut buffer).unwrap();
                    assert_eq!(len, expected, "{reading:?}, {round}: {:?}", &buffer[..len]);
                }
            }
        }
        receiver.set_nonblocking(true).unwrap();
        let more = receiver.recv(&mut [0; 2048]);
        assert_eq!(more.unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// They are asked for at each start, in the application's first calls.
#[test]
fn offsets_are_found_without_a_look_at_all_types() {
    let Ok(mut btf) = Btf::of_kernel() else {
        return;
    };
    Offsets::find(&mut btf).unwrap();
    let looked_at = btf.types_looked_at();
    assert!(btf.function("no such function").is_none());
    let all = btf.types_looked_at();
    assert!(looked_at < all, "{looked_at} of {all}");
}

#[test]
fn one_copy_has_all_that_is_looked_at() {
    for (head, end, octet) in [(208, 200, 110), (8, 20, 30), (200, 12, 196)] {
        let offsets = Offsets {
            head,
            end,
            tag: Tag { octet, mask: 1 },
            gso_size: 4,
        };
        let (first, end_of_copy) = (offsets.first(), offsets.first() + offsets.len());
        for (at, len) in [(head, 8), (end, 4), (octet, 2)] {
            assert!(first <= at && at + len <= end_of_copy, "{offsets:?}");
        }
        assert!(first.is_multiple_of(8) && offsets.len().is_multiple_of(8));
    }
}
