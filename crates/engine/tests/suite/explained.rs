//! Every datagram that the kernel carries is counted under its reason.

use std::net::{Ipv4Addr, SocketAddrV4};

use engine::{Errno, NextHop, Reason};
use stats::ReasonCounts;

use crate::support::calls::{receive, send_whole};
use crate::support::device::Device;
use crate::support::host::{Host, Socket, kernel_socket};
use crate::support::isolation::{isolated, with_addresses};
use crate::support::{FIRST_LINK, OUR_IP, PEER};

const DONTWAIT: libc::c_int = libc::MSG_DONTWAIT;

/// What was counted for the socket: received and sent. The sums are those of the columns.
fn counted(host: &Host<Device>, socket: &Socket<Device>) -> [Vec<(u32, u64)>; 2] {
    let entry = socket.snapshot(host).unwrap();
    assert_eq!(entry.rx_os_reasons.total(), entry.rx_os_packets);
    assert_eq!(entry.tx_os_reasons.total(), entry.tx_os_packets);
    let list = |counts: &ReasonCounts| counts.iter().collect();
    [list(&entry.rx_os_reasons), list(&entry.tx_os_reasons)]
}

fn counts(expected: &[(Reason, u64)]) -> Vec<(u32, u64)> {
    let mut counts: Vec<_> = expected
        .iter()
        .map(|(reason, count)| (*reason as u32, *count))
        .collect();
    counts.sort_unstable();
    counts
}

#[test]
fn what_the_kernel_sends_is_counted_by_reason() {
    with_addresses(|| {
        let host = Host::new();
        let socket = host.unbound();
        let send = |payload: &[u8], flags| send_whole(&socket, PEER, payload, flags).unwrap();
        assert_eq!(send(b"binds", 0), Some(Reason::NotBound));
        assert_eq!(send(b"past the kernel", 0), None);
        for _ in 0..3 {
            assert_eq!(send(&[7; 1473], 0), Some(Reason::TooLarge));
        }
        assert_eq!(send(b"flag", libc::MSG_DONTROUTE), Some(Reason::Message));
        let wire = host.device.wire(FIRST_LINK);
        wire.set_full(true);
        assert_eq!(send(b"full", 0), Some(Reason::RingFull));
        wire.set_full(false);
        let change = |next_hop| {
            host.network.set_next_hop(next_hop);
            host.engine.network_changed(false);
        };
        change(NextHop::Kernel(Reason::Neighbour));
        for _ in 0..2 {
            assert_eq!(send(b"who has", 0), Some(Reason::Neighbour));
        }
        // Those that fail are no datagrams that were carried.
        let nowhere = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 0);
        let failed = send_whole(&socket, nowhere, b"fails", 0);
        assert_eq!(failed, Err(Errno(libc::EINVAL)));
        host.engine.leave_to_kernel(socket.ours(), Reason::Option);
        for _ in 0..4 {
            assert_eq!(send(b"option", 0), Some(Reason::Option));
        }
        let expected = counts(&[
            (Reason::NotBound, 1),
            (Reason::TooLarge, 3),
            (Reason::Message, 1),
            (Reason::RingFull, 1),
            (Reason::Neighbour, 2),
            (Reason::Option, 4),
        ]);
        assert_eq!(counted(&host, &socket), [Vec::new(), expected]);
    });
}

#[test]
fn what_the_kernel_receives_is_counted_by_reason() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let (peer, _) = kernel_socket("127.0.0.1:0");
        let through_kernel = |payload: &[u8]| {
            peer.send_to(payload, socket.at(Ipv4Addr::LOCALHOST))
                .unwrap();
            while receive(&socket, DONTWAIT).is_err() {}
        };
        through_kernel(b"another way");
        through_kernel(&[7; 1473]);
        through_kernel(b"another way");
        host.arrives(PEER, socket.at(OUR_IP), b"past the kernel");
        receive(&socket, 0).unwrap();
        host.engine.leave_to_kernel(socket.ours(), Reason::Option);
        through_kernel(b"option");
        through_kernel(&[7; 1473]);
        assert_eq!(receive(&socket, DONTWAIT), Err(Errno(libc::EAGAIN)));
        let expected = counts(&[
            (Reason::AnotherWay, 2),
            (Reason::TooLarge, 1),
            (Reason::Option, 2),
        ]);
        assert_eq!(counted(&host, &socket), [expected, Vec::new()]);
    });
}

#[test]
fn a_new_socket_has_no_counts_of_an_older_one() {
    isolated(|| {
        let host = Host::new();
        let (_peer, address) = kernel_socket("127.0.0.1:0");
        for _ in 0..3 {
            let socket = host.unbound();
            assert_eq!(counted(&host, &socket), [Vec::new(), Vec::new()]);
            let sent = send_whole(&socket, address, b"x", 0);
            assert_eq!(sent, Ok(Some(Reason::NotBound)));
            let expected = counts(&[(Reason::NotBound, 1)]);
            assert_eq!(counted(&host, &socket), [Vec::new(), expected]);
        }
    });
}
