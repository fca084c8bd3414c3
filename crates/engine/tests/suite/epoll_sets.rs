//! `epoll(7)`: sets and their members, copies, closes and nesting.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::Duration;

use engine::{Object, Reason, Settings};
use libc::{EPOLLIN, EPOLLONESHOT};

use crate::support::calls::receive;
use crate::support::device::Device;
use crate::support::host::{Host, Socket, close, kernel_socket, settings};
use crate::support::isolation::isolated;
use crate::support::multiplex::{Epoll, Event, deliver};
use crate::support::{FIRST_LINK, OUR_IP, PEER, SECOND_LINK, frame};

const NONE: [Event; 0] = [];

#[test]
fn a_socket_may_be_in_two_sets() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let sets = [Epoll::new(host.engine), Epoll::new(host.engine)];
        for set in &sets {
            set.add(socket.fd(), EPOLLIN);
        }
        deliver(&host, &socket);
        for set in &sets {
            assert_eq!(set.ready(), [socket.fd()]);
        }
        sets[0].remove(socket.fd());
        assert_eq!(sets[0].wait(8, 0).unwrap(), NONE);
        assert_eq!(sets[1].ready(), [socket.fd()]);
        assert_eq!(receive(&socket, 0), Ok(b"x".to_vec()));
        assert_eq!(sets[1].wait(8, 0).unwrap(), NONE);
    });
}

#[test]
fn a_socket_may_be_in_a_set_twice_through_copies() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let copy = socket.dup();
        let set = Epoll::new(host.engine);
        set.add(socket.fd(), EPOLLIN);
        set.add(copy.as_raw_fd(), EPOLLIN);
        deliver(&host, &socket);
        let mut both = [socket.fd(), copy.as_raw_fd()];
        both.sort_unstable();
        assert_eq!(set.ready(), both);
        // A registration ends with the socket, not with the descriptor that it was made through
        // (epoll(7)).
        close(host.engine, copy);
        assert_eq!(set.ready(), both);
        set.remove(socket.fd());
        assert_eq!(set.ready().len(), 1);
    });
}

#[test]
fn closing_a_member_takes_it_out_of_its_sets() {
    isolated(|| {
        let host = Host::new();
        let (first, second) = (host.any(), host.any());
        let set = Epoll::new(host.engine);
        for socket in [&first, &second] {
            set.add(socket.fd(), EPOLLIN);
            deliver(&host, socket);
        }
        let left = second.fd();
        drop(first);
        assert_eq!(set.ready(), [left]);
        drop(second);
        assert_eq!(set.wait(8, 0).unwrap(), NONE);
        // A new socket, most likely on a used object and number, starts afresh.
        let third = host.any();
        deliver(&host, &third);
        assert_eq!(set.wait(8, 0).unwrap(), NONE);
        set.add(third.fd(), EPOLLIN);
        assert_eq!(set.ready(), [third.fd()]);
    });
}

#[test]
fn closing_a_set_leaves_its_sockets_alone() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let set = Epoll::new(host.engine);
        set.add(socket.fd(), EPOLLIN);
        deliver(&host, &socket);
        let number = set.fd();
        drop(set);
        assert!(host.engine.look_up(number).is_none());
        deliver(&host, &socket);
        let again = Epoll::new(host.engine);
        let other = host.any();
        again.add(other.fd(), EPOLLIN);
        deliver(&host, &socket);
        assert_eq!(
            again.wait(8, 0).unwrap(),
            NONE,
            "nothing is left of the old set"
        );
        assert_eq!(receive(&socket, 0), Ok(b"x".to_vec()));
        assert_eq!(socket.reason(), Reason::Offloaded);
    });
}

#[test]
fn a_registration_does_not_outlive_its_set() {
    isolated(|| {
        let host = Host::new();
        // A number that no other test gets.
        let socket = host.unbound_at(931);
        socket.bind("0.0.0.0:0");
        let set = Epoll::new(host.engine);
        set.control(libc::EPOLL_CTL_ADD, socket.fd(), EPOLLIN, 1111);
        // The number goes to another socket, while the first lives on through a copy.
        let copy = socket.dup();
        let local = socket.at(OUR_IP);
        drop(socket);
        let second = host.unbound_at(931);
        set.control(libc::EPOLL_CTL_ADD, second.fd(), EPOLLIN, 2222);
        drop(set);
        let third = host.any();
        let again = Epoll::new(host.engine);
        again.control(libc::EPOLL_CTL_ADD, third.fd(), EPOLLIN, 3333);
        host.arrives(PEER, local, b"for the copy");
        assert_eq!(third.ours().next_len_after_poll(), None);
        assert_eq!(again.wait(8, 0).unwrap(), NONE);
        close(host.engine, copy);
    });
}

#[test]
fn a_sleeper_learns_of_sockets_and_interfaces_that_come() {
    isolated(|| {
        let host = Host::new();
        let first = host.any();
        let set = Epoll::new(host.engine);
        set.add(first.fd(), EPOLLIN);
        let late = host.unbound();
        set.add(late.fd(), EPOLLIN);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| set.wait(8, 10_000).unwrap());
            std::thread::sleep(Duration::from_millis(30));
            late.bind("0.0.0.0:0");
            std::thread::sleep(Duration::from_millis(30));
            host.arrives(PEER, late.at(OUR_IP), b"x");
            let events = waiter.join().unwrap();
            assert_eq!(events, [(EPOLLIN as u32, late.fd() as u64)]);
        });
    });
}

#[test]
fn a_level_triggered_event_reaches_the_next_sleeper() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let set = Epoll::new(host.engine);
        set.add(socket.fd(), EPOLLIN);
        std::thread::scope(|scope| {
            // Neither of them reads; each is told.
            let waiters = [(); 2].map(|()| scope.spawn(|| set.wait(8, 10_000).unwrap()));
            std::thread::sleep(Duration::from_millis(30));
            deliver(&host, &socket);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap().len(), 1);
            }
        });
    });
}

#[test]
fn one_shot_members_with_the_same_data_stay_apart() {
    isolated(|| {
        let host = Host::new();
        let (first, second) = (host.any(), host.any());
        let set = Epoll::new(host.engine);
        for socket in [&first, &second] {
            let add = libc::EPOLL_CTL_ADD;
            set.control(add, socket.fd(), EPOLLIN | EPOLLONESHOT, 7);
        }
        let (peer, _) = kernel_socket("127.0.0.1:0");
        peer.send_to(b"k", first.at(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!(set.wait(8, 1000).unwrap(), [(EPOLLIN as u32, 7)]);
        // What one has spent is not the other's.
        deliver(&host, &second);
        assert_eq!(set.wait(8, 0).unwrap(), [(EPOLLIN as u32, 7)]);
    });
}

#[test]
fn sets_without_sockets_of_ours_are_the_kernels() {
    isolated(|| {
        let host = Host::new();
        let (reader, _writer) = std::io::pipe().unwrap();
        let set = Epoll::new(host.engine);
        set.add(reader.as_raw_fd(), EPOLLIN);
        assert!(host.engine.look_up(set.fd()).is_none());
        let socket = host.any();
        set.add(socket.fd(), EPOLLIN);
        assert!(matches!(
            host.engine.look_up(set.fd()),
            Some(Object::Epoll(_))
        ));
    });
}

#[test]
fn a_set_polls_the_interfaces_of_its_members_and_no_others() {
    isolated(|| {
        let host = Host::new();
        let (first, second) = (host.bound("10.0.0.1:0"), host.bound("10.1.0.1:0"));
        let wires = [FIRST_LINK, SECOND_LINK].map(|link| host.device.wire(link));
        let set = Epoll::new(host.engine);
        // Frames for nobody: a poll takes them all the same.
        let polled = || {
            let nobody = SocketAddrV4::new(Ipv4Addr::new(10, 9, 9, 9), 9);
            let stray = frame(PEER, nobody, b"stray");
            wires.iter().for_each(|wire| wire.inject(stray.clone()));
            assert_eq!(set.wait(8, 0).unwrap(), NONE);
            let polled = wires.each_ref().map(|wire| wire.waiting() == 0);
            for socket in [&first, &second] {
                socket.ours().next_len_after_poll();
            }
            polled
        };
        set.add(first.fd(), EPOLLIN);
        assert_eq!(polled(), [true, false]);
        set.add(second.fd(), EPOLLIN);
        let third = host.bound("10.1.0.1:0");
        set.add(third.fd(), EPOLLIN);
        assert_eq!(polled(), [true, true]);
        set.remove(second.fd());
        assert_eq!(polled(), [true, true]);
        host.engine.leave_to_kernel(first.ours(), Reason::Option);
        assert_eq!(polled(), [false, true]);
        drop(third);
        // No accelerated member is left.
        assert_eq!(polled(), [false, false]);
        set.add(second.fd(), EPOLLIN);
        assert_eq!(polled(), [false, true]);
    });
}

#[test]
fn what_the_kernel_reports_belongs_to_the_data_of_the_last_change() {
    isolated(|| {
        let host = Host::with(Settings {
            rx_udp_poll_os_ratio: 0,
            ..settings()
        });
        let (one, other) = (host.any(), host.any());
        let set = Epoll::new(host.engine);
        let (peer, _) = kernel_socket("127.0.0.1:0");
        let through_kernel = |socket: &Socket<Device>| {
            peer.send_to(b"k", socket.at(Ipv4Addr::LOCALHOST)).unwrap();
            assert_eq!(set.wait(8, -1).unwrap().len(), 1);
            // It asks the kernel's socket only because of the event.
            assert_eq!(receive(socket, libc::MSG_DONTWAIT), Ok(b"k".to_vec()));
        };
        let control = |operation, socket: &Socket<Device>, data| {
            set.control(operation, socket.fd(), EPOLLIN, data);
        };
        control(libc::EPOLL_CTL_ADD, &one, 1);
        control(libc::EPOLL_CTL_ADD, &other, 2);
        control(libc::EPOLL_CTL_MOD, &one, u64::MAX);
        through_kernel(&one);
        through_kernel(&other);
        // Both have the same.
        control(libc::EPOLL_CTL_MOD, &other, u64::MAX);
        through_kernel(&one);
        through_kernel(&other);
        control(libc::EPOLL_CTL_MOD, &one, 2);
        through_kernel(&one);
        through_kernel(&other);
        control(libc::EPOLL_CTL_DEL, &one, 0);
        control(libc::EPOLL_CTL_ADD, &one, u64::MAX);
        through_kernel(&one);
    });
}

#[test]
fn sockets_that_come_and_go_ready_leave_nothing_behind() {
    isolated(|| {
        let host = Host::new();
        let (socket, stays) = (host.any(), host.any());
        let set = Epoll::new(host.engine);
        set.add(stays.fd(), EPOLLIN);
        deliver(&host, &stays);
        deliver(&host, &socket);
        // Nobody waits meanwhile.
        for _ in 0..1000 {
            set.add(socket.fd(), EPOLLIN);
            set.remove(socket.fd());
        }
        let Some(Object::Epoll(ours)) = host.engine.look_up(set.fd()) else {
            panic!("a set with sockets of ours is ours")
        };
        let text = format!("{ours:?}");
        let (_, ready) = text.split_once("ready: ").unwrap();
        let digits = ready.split(|character: char| !character.is_ascii_digit());
        let count: usize = digits.into_iter().next().unwrap().parse().unwrap();
        assert!(count <= 70, "{text}");
        assert_eq!(set.ready(), [stays.fd()]);
    });
}
