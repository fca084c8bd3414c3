//! What readers of the statistics learn beside a socket's own counters: memberships, waiting calls,
//! decisions.

use std::net::Ipv4Addr;

use engine::Reason;
use libc::EPOLLIN;

use crate::support::device::Device;
use crate::support::host::{Host, Socket};
use crate::support::isolation::isolated;
use crate::support::multiplex::{Epoll, IN, poll, polled};
use crate::support::network::interface;
use crate::support::{OUR_IP, PEER};

#[test]
fn groups_are_shown_as_long_as_their_socket_is_a_member() {
    isolated(|| {
        let host = Host::new();
        let shown = || {
            let groups = host.statistics().groups().unwrap();
            let shown = groups.iter().map(|it| (it.fd, it.group.unwrap().ip()));
            let mut shown: Vec<_> = shown.collect();
            shown.sort_unstable();
            shown
        };
        let group = |last| Ipv4Addr::new(239, 1, 1, last);
        let loopback = interface(1, Ipv4Addr::LOCALHOST);
        host.network.change_interfaces(|links| links.push(loopback));
        let change = |socket: &Socket<Device>, last, joined| {
            let mut request = libc::ip_mreqn {
                imr_multiaddr: libc::in_addr { s_addr: 0 },
                imr_address: libc::in_addr { s_addr: 0 },
                imr_ifindex: 1,
            };
            request.imr_multiaddr.s_addr = u32::from(group(last)).to_be();
            let name = if joined {
                libc::IP_ADD_MEMBERSHIP
            } else {
                libc::IP_DROP_MEMBERSHIP
            };
            socket.set_kernel_option(libc::IPPROTO_IP, name, &request);
            host.engine
                .membership_changed(socket.ours(), group(last).into());
        };
        let [socket, other] = [host.any(), host.any()];
        change(&socket, 1, true);
        change(&socket, 2, true);
        change(&other, 1, true);
        change(&socket, 1, false);
        let of_other = (other.fd(), group(1).into());
        let mut expected = [(socket.fd(), group(2).into()), of_other];
        expected.sort_unstable();
        assert_eq!(shown(), expected);
        drop(socket);
        assert_eq!(shown(), [of_other]);
    });
}

#[test]
fn waiting_calls_are_counted() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let epoll = Epoll::new(host.engine);
        epoll.add(socket.fd(), EPOLLIN);
        let counted = |kind: &str| {
            let all = host.statistics().multiplexers().unwrap();
            let found = all.into_iter().find(|it| it.kind == kind);
            found.map(|it| [it.poll_hit, it.poll_miss, it.timeouts, it.rx_ready])
        };
        let mut fds = [polled(socket.fd(), IN)];
        assert_eq!(poll(host.engine, &mut fds, 1), Ok(0));
        assert!(epoll.wait(8, 0).unwrap().is_empty());
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        assert_eq!(poll(host.engine, &mut fds, -1), Ok(1));
        for _ in 0..2 {
            assert_eq!(epoll.wait(8, -1).unwrap().len(), 1);
        }
        assert_eq!(counted("poll"), Some([1, 1, 1, 1]));
        assert_eq!(counted("select"), Some([0; 4]));
        assert_eq!(counted("epoll"), Some([2, 0, 1, 2]));
        drop(epoll);
        assert_eq!(counted("epoll"), None, "the set is gone");
    });
}

#[test]
fn decisions_are_among_the_events() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.engine.leave_to_kernel(socket.ours(), Reason::Option);
        let events = host.statistics().events().unwrap();
        let fd = format!("fd {}", socket.fd());
        let kinds: Vec<_> = events.iter().map(|it| it.kind.as_str()).collect();
        assert_eq!(kinds, ["device", "device", "offload", "kernel"]);
        assert!(events[2..].iter().all(|it| it.subject == fd), "{events:?}");
        assert!(events[3].text.starts_with("back to the kernel: "));
    });
}
