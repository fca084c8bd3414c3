//! Sockets of one process that share a port on purpose (`SO_REUSEPORT`).

use std::net::{Ipv4Addr, SocketAddrV4};

use engine::Reason;

use crate::support::OUR_IP;
use crate::support::calls::receive;
use crate::support::device::Device;
use crate::support::host::{Host, Socket};
use crate::support::isolation::with_addresses;

fn members(host: &Host<Device>, count: usize) -> Vec<Socket<Device>> {
    let mut members: Vec<Socket<Device>> = Vec::new();
    for _ in 0..count {
        let socket = host.unbound();
        socket.set_option(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1);
        let port = members.first().map_or(0, Socket::port);
        socket.bind(&format!("10.0.0.1:{port}"));
        members.push(socket);
    }
    members
}

fn sender(number: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 1000 + number)
}

/// Who of the members gets the datagrams of each of some senders.
fn receivers(host: &Host<Device>, members: &[Socket<Device>]) -> Vec<usize> {
    let to = members[0].at(OUR_IP);
    let receiver = |number| {
        host.arrives(sender(number), to, b"hello");
        let got = |socket| receive(socket, libc::MSG_DONTWAIT).is_ok();
        let receivers: Vec<_> = (0..members.len())
            .filter(|index| got(&members[*index]))
            .collect();
        assert_eq!(receivers.len(), 1, "{receivers:?}");
        receivers[0]
    };
    (0..64).map(receiver).collect()
}

#[test]
fn senders_are_spread_and_each_stays_with_one_socket() {
    with_addresses(|| {
        let host = Host::new();
        let mut members = members(&host, 3);
        assert!(members.iter().all(|it| it.reason() == Reason::Offloaded));
        let first = receivers(&host, &members);
        assert_eq!(first, receivers(&host, &members));
        for index in 0..3 {
            let share = first.iter().filter(|it| **it == index).count();
            assert!(share > 8, "{first:?}");
        }
        // The one that has the flow goes; then the other but one.
        members.remove(0);
        let left = receivers(&host, &members);
        assert!(left.contains(&0) && left.contains(&1));
        members.remove(1);
        assert_eq!(receivers(&host, &members), [0; 64]);
        assert_eq!(members[0].reason(), Reason::Offloaded);
    });
}

#[test]
fn a_connected_member_has_its_peer_to_itself() {
    with_addresses(|| {
        let host = Host::new();
        let members = members(&host, 3);
        members[1].connect(sender(7));
        let receivers = receivers(&host, &members);
        assert_eq!(receivers[7], 1);
        assert!(!receivers[..7].contains(&1) && !receivers[8..].contains(&1));
    });
}

#[test]
fn the_kernel_chooses_by_cpu() {
    with_addresses(|| {
        let host = Host::new();
        let members = members(&host, 2);
        let late = host.unbound();
        late.set_option(libc::SOL_SOCKET, libc::SO_INCOMING_CPU, 0);
        assert_eq!(late.reason(), Reason::NotBound);
        late.set_option(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1);
        late.bind(&format!("10.0.0.1:{}", members[0].port()));
        for socket in members.iter().chain([&late]) {
            assert_eq!(socket.reason(), Reason::PortShared);
        }
    });
}

#[test]
fn when_one_is_the_kernels_so_are_the_others() {
    with_addresses(|| {
        let host = Host::new();
        let members = members(&host, 3);
        members[1].set_option(libc::IPPROTO_UDP, libc::UDP_CORK, 1);
        let reasons: Vec<_> = members.iter().map(Socket::reason).collect();
        let shared = Reason::PortShared;
        assert_eq!(reasons, [shared, Reason::Option, shared]);
    });
}
