//! `epoll(7)`: what is reported, how often, and with what data.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use engine::{Errno, MuxCall, MuxOutcome, Object, Settings, interrupt};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDNORM};

use crate::support::calls::receive;
use crate::support::host::{Host, Socket, kernel_socket, settings};
use crate::support::isolation::isolated;
use crate::support::multiplex::{Epoll, Event, deliver, pipe};
use crate::support::{OUR_IP, PEER, device::Device};

const NONE: [Event; 0] = [];

fn host_with_socket() -> (Host<Device>, Socket<Device>, Epoll<Device>) {
    let host = Host::new();
    let socket = host.any();
    let epoll = Epoll::new(host.engine);
    (host, socket, epoll)
}

#[test]
fn level_triggered_sockets_are_reported_until_they_are_read() {
    isolated(|| {
        let (host, socket, epoll) = host_with_socket();
        epoll.add(socket.fd(), EPOLLIN);
        let event = vec![(EPOLLIN as u32, socket.fd() as u64)];
        assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        for _ in 0..10 {
            assert_eq!(epoll.wait(8, -1).unwrap(), event);
        }
        host.arrives(PEER, socket.at(OUR_IP), b"y");
        assert_eq!(receive(&socket, 0), Ok(b"x".to_vec()));
        assert_eq!(epoll.wait(8, -1).unwrap(), event);
        assert_eq!(receive(&socket, 0), Ok(b"y".to_vec()));
        assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
    });
}

#[test]
fn edge_triggered_sockets_are_reported_at_each_arrival() {
    isolated(|| {
        let (host, socket, epoll) = host_with_socket();
        epoll.add(socket.fd(), EPOLLIN | EPOLLET);
        for _ in 0..3 {
            deliver(&host, &socket);
            assert_eq!(epoll.ready(), [socket.fd()]);
            assert_eq!(epoll.wait(8, 0).unwrap(), NONE, "it has been told");
        }
        deliver(&host, &socket);
        deliver(&host, &socket);
        assert_eq!(epoll.ready(), [socket.fd()], "two at once are one edge");
        assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
        // Arming again tells again, as in the kernel.
        epoll.modify(socket.fd(), EPOLLIN | EPOLLET);
        assert_eq!(epoll.ready(), [socket.fd()]);
    });
}

#[test]
fn data_that_waits_already_is_reported_after_adding() {
    isolated(|| {
        for flags in [0, EPOLLET, EPOLLONESHOT] {
            let (host, socket, epoll) = host_with_socket();
            deliver(&host, &socket);
            epoll.add(socket.fd(), EPOLLIN | flags);
            assert_eq!(epoll.ready(), [socket.fd()]);
        }
    });
}

#[test]
fn one_shot_sockets_are_silent_until_they_are_armed_again() {
    isolated(|| {
        let (host, socket, epoll) = host_with_socket();
        let (peer, _) = kernel_socket("127.0.0.1:0");
        let wanted = EPOLLIN | EPOLLOUT | EPOLLONESHOT;
        epoll.add(socket.fd(), EPOLLIN | EPOLLONESHOT);
        // Ours first: the kernel socket is spent with it.
        deliver(&host, &socket);
        assert_eq!(epoll.ready(), [socket.fd()]);
        peer.send_to(b"k", socket.at(Ipv4Addr::LOCALHOST)).unwrap();
        deliver(&host, &socket);
        for _ in 0..8 {
            assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
        }
        epoll.modify(socket.fd(), wanted);
        let events = epoll.wait(8, 0).unwrap();
        assert_eq!(events.len(), 1);
        for _ in 0..8 {
            assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
        }
        // The kernel's first: ours is spent with it.
        while receive(&socket, libc::MSG_DONTWAIT).is_ok() {}
        epoll.modify(socket.fd(), wanted);
        assert_eq!(
            epoll.wait(8, 0).unwrap(),
            [(EPOLLOUT as u32, socket.fd() as u64)]
        );
        deliver(&host, &socket);
        for _ in 0..8 {
            assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
        }
        epoll.modify(socket.fd(), EPOLLIN | EPOLLONESHOT);
        assert_eq!(
            epoll.wait(8, 0).unwrap(),
            [(EPOLLIN as u32, socket.fd() as u64)]
        );
    });
}

#[test]
fn modifying_changes_events_and_data() {
    isolated(|| {
        let (host, socket, epoll) = host_with_socket();
        epoll.add(socket.fd(), EPOLLIN);
        deliver(&host, &socket);
        epoll.control(libc::EPOLL_CTL_MOD, socket.fd(), EPOLLIN | EPOLLRDNORM, 99);
        let both = (EPOLLIN | EPOLLRDNORM) as u32;
        assert_eq!(epoll.wait(8, 0).unwrap(), [(both, 99)]);
        // A program that does not want to be told for a while.
        epoll.modify(socket.fd(), 0);
        for _ in 0..8 {
            assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
        }
        epoll.modify(socket.fd(), EPOLLOUT);
        for _ in 0..8 {
            let events = epoll.wait(8, 0).unwrap();
            assert_eq!(events, [(EPOLLOUT as u32, socket.fd() as u64)]);
        }
        epoll.modify(socket.fd(), EPOLLIN);
        assert_eq!(epoll.ready(), [socket.fd()]);
        epoll.remove(socket.fd());
        assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
        epoll.add(socket.fd(), EPOLLIN);
        assert_eq!(epoll.ready(), [socket.fd()]);
    });
}

#[test]
fn kernel_and_own_events_of_one_registration_are_one_event() {
    isolated(|| {
        let host = Host::with(Settings {
            select_skip_os: 1,
            ..settings()
        });
        let socket = host.any();
        let epoll = Epoll::new(host.engine);
        let (peer, _) = kernel_socket("127.0.0.1:0");
        epoll.add(socket.fd(), EPOLLIN);
        deliver(&host, &socket);
        peer.send_to(b"k", socket.at(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!(epoll.ready(), [socket.fd()]);
        let mut received = [0; 2].map(|_: i32| receive(&socket, libc::MSG_DONTWAIT).unwrap());
        received.sort();
        assert_eq!(received, [b"k".to_vec(), b"x".to_vec()]);
        assert_eq!(epoll.wait(8, 0).unwrap(), NONE);
        // Another descriptor with the same data is, to the program, the same.
        let (reader, mut writer) = pipe();
        writer.write_all(b"x").unwrap();
        let data = socket.fd() as u64;
        epoll.control(libc::EPOLL_CTL_ADD, reader.as_raw_fd(), EPOLLIN, data);
        deliver(&host, &socket);
        assert_eq!(epoll.wait(8, 0).unwrap(), [(EPOLLIN as u32, data)]);
    });
}

#[test]
fn sockets_and_pipes_are_watched_together() {
    isolated(|| {
        for usec in [0, -1] {
            let host = Host::with(Settings {
                select_poll_usec: usec,
                ..settings()
            });
            let socket = host.any();
            let epoll = Epoll::new(host.engine);
            let (mut reader, mut writer) = pipe();
            epoll.add(reader.as_raw_fd(), EPOLLIN);
            epoll.add(socket.fd(), EPOLLIN);
            writer.write_all(b"x").unwrap();
            let of = |fd| vec![(EPOLLIN as u32, fd as u64)];
            assert_eq!(epoll.wait(8, -1).unwrap(), of(reader.as_raw_fd()));
            assert_eq!(reader.read(&mut [0; 8]).unwrap(), 1);
            host.arrives(PEER, socket.at(OUR_IP), b"x");
            assert_eq!(epoll.wait(8, -1).unwrap(), of(socket.fd()));
        }
    });
}

#[test]
fn more_ready_sockets_than_room_are_served_in_turn() {
    isolated(|| {
        let host = Host::new();
        let epoll = Epoll::new(host.engine);
        let sockets: Vec<_> = (0..10).map(|_| host.any()).collect();
        for socket in &sockets {
            epoll.add(socket.fd(), EPOLLIN);
            deliver(&host, socket);
        }
        let mut seen = std::collections::HashMap::new();
        for _ in 0..30 {
            let events = epoll.wait(3, 0).unwrap();
            assert_eq!(events.len(), 3);
            for (_, data) in events {
                *seen.entry(data).or_insert(0) += 1;
            }
        }
        assert_eq!(seen.len(), 10);
        assert!(seen.values().all(|count| *count == 9), "{seen:?}");
    });
}

#[test]
fn a_pipe_does_not_starve_behind_sockets_that_are_never_read() {
    isolated(|| {
        for (skip, most) in [(1, 2), (4, 5), (20, 21)] {
            let host = Host::with(Settings {
                select_skip_os: skip,
                ..settings()
            });
            let socket = host.any();
            let epoll = Epoll::new(host.engine);
            let (reader, mut writer) = pipe();
            epoll.add(reader.as_raw_fd(), EPOLLIN);
            epoll.add(socket.fd(), EPOLLIN);
            deliver(&host, &socket);
            writer.write_all(b"x").unwrap();
            let of = |wanted: u64| (1..100).find(|_| epoll.wait(1, 0).unwrap()[0].1 == wanted);
            for _ in 0..3 {
                let pipe = of(reader.as_raw_fd() as u64).unwrap();
                assert!(pipe <= most as usize, "{skip}: {pipe}");
                assert!(of(socket.fd() as u64).unwrap() <= 2);
            }
        }
    });
}

#[test]
fn a_timeout_or_a_handler_ends_the_call() {
    isolated(|| {
        for usec in [0, 5000, -1] {
            let host = Host::with(Settings {
                select_poll_usec: usec,
                ..settings()
            });
            let socket = host.any();
            let epoll = Epoll::new(host.engine);
            epoll.add(socket.fd(), EPOLLIN);
            let begun = Instant::now();
            assert_eq!(epoll.wait(8, 30).unwrap(), NONE);
            assert!(begun.elapsed() >= Duration::from_millis(29), "{usec}");
            let Some(Object::Epoll(set)) = host.engine.look_up(epoll.fd()) else {
                panic!("a set with sockets of ours is ours")
            };
            let mut call = MuxCall::begin(host.engine.settings(), None, true);
            interrupt::handler_runs(true);
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
            let outcome = host.engine.epoll_wait(set, &mut call, &mut events);
            assert!(matches!(outcome, MuxOutcome::Fail(Errno(libc::EINTR))));
        }
    });
}

#[test]
fn an_event_of_the_kernels_socket_leads_to_its_data() {
    isolated(|| {
        let host = Host::with(Settings {
            rx_udp_poll_os_ratio: 0,
            ..settings()
        });
        let socket = host.any();
        let epoll = Epoll::new(host.engine);
        let (peer, _) = kernel_socket("127.0.0.1:0");
        epoll.add(socket.fd(), EPOLLIN | EPOLLET);
        for _ in 0..3 {
            peer.send_to(b"k", socket.at(Ipv4Addr::LOCALHOST)).unwrap();
            assert_eq!(epoll.wait(8, -1).unwrap().len(), 1);
            assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Ok(b"k".to_vec()));
        }
    });
}
