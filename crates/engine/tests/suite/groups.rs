//! Datagrams to multicast groups.

use std::net::SocketAddrV4;
use std::thread;
use std::time::Duration;

use engine::{Reason, SendOutcome};
use libc::{IP_MULTICAST_IF, IP_MULTICAST_LOOP, IP_MULTICAST_TTL, IPPROTO_IP};

use crate::send::{null_host, parsed};
use crate::support::OUR_IP;
use crate::support::calls::send;
use crate::support::isolation::isolated;

/// Longer than a tick of the clock, after which senders look again.
fn next_tick() {
    thread::sleep(Duration::from_millis(25));
}

#[test]
fn they_pass_the_kernel_unless_members_of_this_host_are_to_get_them() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        let to: SocketAddrV4 = "239.129.2.3:9".parse().unwrap();
        let outcome = |expected| {
            next_tick();
            assert_eq!(send(&socket, Some(to), b"x"), expected);
        };
        let (done, kernel) = (SendOutcome::Done(1), SendOutcome::Kernel);
        // Nobody knows whether there are members.
        outcome(kernel(Reason::Multicast));
        socket.set_option(IPPROTO_IP, IP_MULTICAST_LOOP, 0);
        outcome(done);
        socket.set_option(IPPROTO_IP, IP_MULTICAST_LOOP, 1);
        host.network.set_member(*to.ip(), false);
        outcome(done);
        host.network.set_member(*to.ip(), true);
        outcome(kernel(Reason::Looped));
        host.network.set_member(*to.ip(), false);
        outcome(done);
        socket.set_option(IPPROTO_IP, IP_MULTICAST_TTL, 5);
        outcome(done);
        for ttl in [1, 1, 1, 5] {
            let (source, destination, _, frame) = parsed(host.device.sent());
            assert_eq!((source, destination), (socket.at(OUR_IP), to));
            assert_eq!(frame[22], ttl);
        }
        // Whether such leave at all depends on members, too.
        socket.set_option(IPPROTO_IP, IP_MULTICAST_TTL, 0);
        outcome(kernel(Reason::Multicast));
        assert!(host.device.sent().is_none());
    });
}

#[test]
fn they_leave_by_the_interface_that_the_socket_has_chosen() {
    isolated(|| {
        let host = null_host();
        let socket = host.any();
        socket.set_option(IPPROTO_IP, IP_MULTICAST_LOOP, 0);
        let to = |last: u8| SocketAddrV4::new([239, 1, 2, last].into(), 9);
        let asked = || host.network.last_asked().unwrap().output_interface;
        assert_eq!(send(&socket, Some(to(1)), b"x"), SendOutcome::Done(1));
        assert_eq!(asked(), None);
        let address = OUR_IP.octets();
        for (last, value, expected) in [
            (2, [[0; 4], [0; 4], 7_u32.to_ne_bytes()].concat(), Some(7)),
            (3, address.to_vec(), Some(crate::support::FIRST_LINK)),
            (4, vec![0; 4], None),
        ] {
            socket.ours().group_interface_was_set(host.engine, &value);
            // The kernel has no such interface here.
            host.engine
                .option_was_set(socket.ours(), IPPROTO_IP, IP_MULTICAST_IF);
            assert_eq!(send(&socket, Some(to(last)), b"x"), SendOutcome::Done(1));
            assert_eq!(asked(), expected);
        }
    });
}
