//! What sockets remember of their destinations, and when they forget it.

use std::net::{Ipv4Addr, SocketAddrV4};

use engine::{NetworkChange, Reason, SendOutcome};

use crate::send::{null_host, parsed};
use crate::support::calls::send;
use crate::support::isolation::isolated;
use crate::support::network::through;
use crate::support::{FIRST_LINK, PEER, PEER_MAC};

#[test]
fn destinations_are_remembered_until_there_are_too_many() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let to = |number: u16| SocketAddrV4::new(*PEER.ip(), 1000 + number);
        let send_to = |number| {
            assert_eq!(send(&socket, Some(to(number)), b"x"), SendOutcome::Done(1));
            assert_eq!(parsed(host.device.sent()).1, to(number));
        };
        (0..200).for_each(send_to);
        (0..200).rev().for_each(send_to);
        assert_eq!(host.network.look_ups(), 1, "all have the same next hop");
        // 256 and the latest one are kept; beyond that it starts afresh.
        (200..600).for_each(send_to);
        (0..600).for_each(send_to);
    });
}

#[test]
fn a_change_of_the_network_resolves_again() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let mac_of_next = || {
            assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
            parsed(host.device.sent()).3[..6].to_vec()
        };
        assert_eq!(mac_of_next(), PEER_MAC);
        let other = [2, 9, 9, 9, 9, 9];
        host.network.set_next_hop(through(FIRST_LINK, other));
        assert_eq!(mac_of_next(), PEER_MAC);
        for interfaces in [false, true] {
            let looked = host.network.look_ups();
            host.engine.network_changed(interfaces);
            assert_eq!(mac_of_next(), other);
            assert_eq!(mac_of_next(), other);
            assert_eq!(host.network.look_ups(), looked + 1);
        }
    });
}

#[test]
fn a_network_that_changes_during_the_look_up_is_asked_again() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let (engine, network) = (host.engine, host.network.clone());
        let other = [2, 9, 9, 9, 9, 9];
        host.network.during_next_look_up(move || {
            engine.network_changed(false);
            network.set_next_hop(through(FIRST_LINK, other));
        });
        // The answer is outdated when it comes; the kernel, which knows better, sends this one.
        assert_eq!(
            send(&socket, Some(PEER), b"x"),
            SendOutcome::Kernel(Reason::Route)
        );
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        assert_eq!(parsed(host.device.sent()).3[..6], other);
    });
}

#[test]
fn options_changed_during_the_look_up_are_not_forgotten() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let (engine, ours) = (host.engine, socket.ours());
        let fd = socket.fd();
        host.network.during_next_look_up(move || {
            let ttl: libc::c_int = 9;
            let value = (&raw const ttl).cast();
            // SAFETY: the value is readable for four bytes.
            let done = unsafe { libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_TTL, value, 4) };
            assert_eq!(done, 0);
            engine.option_was_set(ours, libc::IPPROTO_IP, libc::IP_TTL);
        });
        // This one overlaps with setsockopt(2) and may have either TTL, or go through the kernel.
        if let SendOutcome::Done(_) = send(&socket, Some(PEER), b"x") {
            parsed(host.device.sent());
        }
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        assert_eq!(parsed(host.device.sent()).3[22], 9);
    });
}

#[test]
fn sockets_share_what_is_known_of_a_next_hop() {
    isolated(|| {
        let host = null_host();
        let sockets: Vec<_> = (0..20).map(|_| host.any()).collect();
        let far = SocketAddrV4::new([192, 0, 2, 1].into(), 9);
        let send_all = || {
            for socket in &sockets {
                for to in [PEER, far] {
                    assert_eq!(send(socket, Some(to), b"x"), SendOutcome::Done(1));
                    host.device.sent().unwrap();
                }
            }
        };
        send_all();
        assert_eq!(host.network.look_ups(), 2);
        let change = |change: NetworkChange| {
            let before = host.network.look_ups();
            host.network.announce(change);
            host.engine.follow_network();
            send_all();
            host.network.look_ups() - before
        };
        let neighbour = |address: Ipv4Addr| NetworkChange {
            neighbours: vec![(FIRST_LINK, address.into())],
            ..NetworkChange::default()
        };
        let route = |address: [u8; 4], prefix_len| NetworkChange {
            routes: vec![(address.into(), prefix_len)],
            ..NetworkChange::default()
        };
        assert_eq!(change(NetworkChange::default()), 0);
        assert_eq!(change(neighbour([10, 0, 0, 77].into())), 0);
        assert_eq!(change(neighbour(*PEER.ip())), 1);
        assert_eq!(change(route([198, 51, 100, 0], 24)), 0);
        assert_eq!(change(route([192, 0, 2, 0], 24)), 1);
        assert_eq!(change(route([0; 4], 0)), 2);
        assert_eq!(change(NetworkChange::everything(false)), 2);
        assert_eq!(change(NetworkChange::everything(true)), 2);
    });
}
