//! What sockets remember of their destinations, and when they forget it.

use std::net::SocketAddrV4;

use engine::{Reason, SendOutcome};

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
        assert_eq!(host.network.look_ups(), 200, "each was looked up once");
        // 256 and the latest one are kept; beyond that it starts afresh.
        (200..600).for_each(send_to);
        assert_eq!(host.network.look_ups(), 600);
        (0..600).for_each(send_to);
        assert!((601..=1200).contains(&host.network.look_ups()));
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
