//! Datagrams that are received as one (`UDP_GRO`).

use engine::{Errno, RecvOutcome};

use crate::support::calls::{Receiving, header, part, receive};
use crate::support::device::Device;
use crate::support::host::{Host, Socket};
use crate::support::isolation::isolated;
use crate::support::{FIRST_LINK, OUR_IP, PEER, frame};

const CONTROL_BYTES: usize = 64;

/// What a call returns: the data, the flags, and the control message of `UDP_GRO`.
fn receive_merged(
    socket: &Socket<Device>,
    flags: libc::c_int,
    room: usize,
) -> Option<(Vec<u8>, libc::c_int, Option<i32>)> {
    let (mut buffer, mut control) = (vec![0; room], [0_u64; CONTROL_BYTES / 8]);
    // No more than the kernel takes.
    let mut parts = buffer.chunks_mut(1997).map(part).collect::<Vec<_>>();
    let mut header = header(&mut parts);
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES;
    let mut call = Receiving::begin(socket, flags | libc::MSG_DONTWAIT);
    let len = match call.attempt_with(&mut header) {
        RecvOutcome::Done(len) => len,
        RecvOutcome::Fail(Errno(libc::EAGAIN)) => return None,
        other => panic!("{other:?}"),
    };
    let told = match header.msg_controllen {
        0 => None,
        24 => {
            let [len, kind, value] = [control[0], control[1], control[2]];
            let level_and_kind = libc::IPPROTO_UDP as u64 | (libc::UDP_GRO as u64) << 32;
            assert_eq!((len, kind), (20, level_and_kind));
            Some(value as u32 as i32)
        }
        other => panic!("{other} bytes of control data"),
    };
    buffer.truncate(len);
    Some((buffer, header.msg_flags, told))
}

/// The lengths of what all calls return, with what is told of each.
fn lengths(socket: &Socket<Device>, room: usize) -> Vec<(usize, Option<i32>)> {
    std::iter::from_fn(|| receive_merged(socket, 0, room).map(|(data, _, told)| (data.len(), told)))
        .collect()
}

fn merging(host: &Host<Device>) -> Socket<Device> {
    let socket = host.any();
    socket.set_option(libc::IPPROTO_UDP, libc::UDP_GRO, 1);
    socket
}

#[test]
fn neighbours_of_one_length_are_received_as_one() {
    isolated(|| {
        let host = Host::new();
        let socket = merging(&host);
        let mut sent = Vec::new();
        for (number, len) in [700, 700, 700, 200, 700, 700, 900, 900, 0, 900]
            .iter()
            .enumerate()
        {
            let payload = vec![number as u8 + 1; *len];
            host.arrives(PEER, socket.at(OUR_IP), &payload);
            sent.extend(payload);
        }
        assert_eq!(socket.ours().next_len_after_poll(), Some(2300));
        let peeked = receive_merged(&socket, libc::MSG_PEEK, 65_536).unwrap();
        let mut seen = Vec::new();
        let mut lengths = Vec::new();
        while let Some((data, flags, told)) = receive_merged(&socket, 0, 65_536) {
            if seen.is_empty() {
                assert_eq!(peeked, (data.clone(), flags, told));
            }
            assert_eq!(flags, 0);
            lengths.push((data.len(), told));
            seen.extend(data);
        }
        let expected = [
            (2300, Some(700)),
            (1400, Some(700)),
            (1800, Some(900)),
            (0, None),
            (900, None),
        ];
        assert_eq!(lengths, expected);
        assert!(seen == sent);
        let counted = socket.snapshot(&host).unwrap();
        assert_eq!((counted.rx_packets, counted.rx_bytes), (10, 6400));
        assert_eq!(host.free_frames(), 256);
        // Without the option again, each by itself.
        socket.set_option(libc::IPPROTO_UDP, libc::UDP_GRO, 0);
        (0..3).for_each(|_| host.arrives(PEER, socket.at(OUR_IP), &[7; 500]));
        assert_eq!(receive(&socket, 0), Ok(vec![7; 500]));
    });
}

#[test]
fn as_much_is_received_as_there_is_room_for() {
    isolated(|| {
        let host = Host::new();
        let socket = merging(&host);
        let arrive = |count, len| {
            let payload = vec![3; len];
            (0..count).for_each(|_| host.arrives(PEER, socket.at(OUR_IP), &payload));
            // All of it is in the queue.
            while host.device.wire(FIRST_LINK).waiting() > 0 {
                socket.ours().next_len_after_poll();
            }
        };
        arrive(7, 500);
        let expected = [(1500, Some(500)), (1500, Some(500)), (500, None)];
        assert_eq!(lengths(&socket, 1999), expected);
        // Not even for one.
        arrive(2, 500);
        let (data, flags, told) = receive_merged(&socket, libc::MSG_TRUNC, 100).unwrap();
        assert_eq!((data.len(), flags, told), (100, libc::MSG_TRUNC, None));
        assert_eq!(lengths(&socket, 500), [(500, None)]);
        // As many as the kernel joins, and as many bytes.
        arrive(70, 10);
        assert_eq!(lengths(&socket, 65_536), [(640, Some(10)), (60, Some(10))]);
        arrive(28, 1400);
        arrive(28, 1400);
        let whole = 65_507 / 1400;
        let expected = [
            (whole * 1400, Some(1400)),
            ((56 - whole) * 1400, Some(1400)),
        ];
        assert_eq!(lengths(&socket, 1 << 20), expected);
    });
}

#[test]
fn other_flows_and_what_the_kernel_leaves_alone_stay_apart() {
    isolated(|| {
        let host = Host::new();
        let socket = merging(&host);
        let wire = host.device.wire(FIRST_LINK);
        let mut other = PEER;
        other.set_port(PEER.port() + 1);
        let packet = |from| frame(from, socket.at(OUR_IP), b"same length");
        let mut without_sum = packet(PEER);
        without_sum[40..42].fill(0);
        for bytes in [
            packet(PEER),
            packet(other),
            packet(other),
            packet(PEER),
            without_sum.clone(),
            without_sum,
            packet(PEER),
            packet(PEER),
        ] {
            wire.inject(bytes);
        }
        let seen: Vec<_> = lengths(&socket, 65_536);
        let (one, two) = ((11, None), (22, Some(11)));
        assert_eq!(seen, [one, two, one, one, one, two]);
    });
}
