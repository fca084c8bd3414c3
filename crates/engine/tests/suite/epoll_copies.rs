//! `epoll(7)`: copies of a set's descriptor, and sets that other sets or `poll(2)` watch.

use std::net::Ipv4Addr;

use engine::Reason;
use libc::EPOLLIN;

use crate::support::calls::receive;
use crate::support::host::{Host, kernel_socket};
use crate::support::isolation::{ends_in_time, isolated};
use crate::support::multiplex::{Epoll, IN, deliver, poll, polled};

#[test]
fn a_set_lives_until_its_last_descriptor_closes() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let set = Epoll::new(host.engine);
        set.add(socket.fd(), EPOLLIN);
        let copy = set.dup();
        drop(set);
        // The number of the closed one goes to something else.
        let (reader, _writer) = std::io::pipe().unwrap();
        deliver(&host, &socket);
        assert_eq!(copy.ready(), [socket.fd()]);
        assert_eq!(receive(&socket, 0), Ok(b"x".to_vec()));
        let (peer, _) = kernel_socket("127.0.0.1:0");
        peer.send_to(b"k", socket.at(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!(copy.wait(8, 1000).unwrap().len(), 1);
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Ok(b"k".to_vec()));
        drop(reader);
    });
}

#[test]
fn a_set_that_was_copied_before_it_had_sockets_is_one_set() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let set = Epoll::new(host.engine);
        let copy = set.dup();
        set.add(socket.fd(), EPOLLIN);
        deliver(&host, &socket);
        assert_eq!(copy.ready(), [socket.fd()]);
        drop(set);
        assert_eq!(copy.ready(), [socket.fd()]);
    });
}

#[test]
fn a_nested_set_leaves_its_sockets_to_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let (inner, outer) = (Epoll::new(host.engine), Epoll::new(host.engine));
        inner.add(socket.fd(), EPOLLIN);
        assert_eq!(socket.reason(), Reason::Offloaded);
        outer.add(inner.fd(), EPOLLIN);
        assert_eq!(socket.reason(), Reason::NestedEpoll);
        let late = host.any();
        inner.add(late.fd(), EPOLLIN);
        assert_eq!(late.reason(), Reason::NestedEpoll);
        let (peer, _) = kernel_socket("127.0.0.1:0");
        peer.send_to(b"k", late.at(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!(outer.wait(8, 1000).unwrap().len(), 1);
        assert_eq!(inner.ready(), [late.fd()]);
    });
}

#[test]
fn a_set_that_is_nested_before_it_has_sockets_leaves_them_to_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let (inner, outer) = (Epoll::new(host.engine), Epoll::new(host.engine));
        outer.add(inner.fd(), EPOLLIN);
        let socket = host.any();
        inner.add(socket.fd(), EPOLLIN);
        assert_eq!(socket.reason(), Reason::NestedEpoll);
        // A set that is in none keeps what it has.
        let alone = Epoll::new(host.engine);
        let other = host.any();
        alone.add(other.fd(), EPOLLIN);
        assert_eq!(other.reason(), Reason::Offloaded);
    });
}

#[test]
fn a_set_that_is_polled_leaves_its_sockets_to_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let set = Epoll::new(host.engine);
        set.add(socket.fd(), EPOLLIN);
        let mut fds = [polled(set.fd(), IN)];
        assert_eq!(poll(host.engine, &mut fds, 0), Ok(0));
        assert_eq!(socket.reason(), Reason::NestedEpoll);
        let (peer, _) = kernel_socket("127.0.0.1:0");
        peer.send_to(b"k", socket.at(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!(poll(host.engine, &mut fds, 1000), Ok(1));
    });
}

#[test]
fn sets_beyond_the_table_leave_their_sockets_to_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let event = libc::epoll_event {
            events: EPOLLIN as u32,
            u64: 1,
        };
        let (engine, fd) = (host.engine, socket.fd());
        engine.epoll_changed(5_000_000, libc::EPOLL_CTL_ADD, fd, Some(event));
        assert_ne!(socket.reason(), Reason::Offloaded);
        let other = host.any();
        let set = Epoll::new(host.engine);
        set.add(other.fd(), EPOLLIN);
        let epfd = set.fd();
        let ended = ends_in_time(move || engine.descriptor_duplicated(epfd, 5_000_000));
        assert!(ended, "deadlock");
        assert_ne!(other.reason(), Reason::Offloaded);
    });
}
