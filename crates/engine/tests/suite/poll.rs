//! `poll(2)` on sockets of ours and descriptors of the kernel's.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use engine::{Errno, MuxCall, MuxOutcome, Settings, interrupt};

use crate::support::calls::{receive, sleep_until_woken};
use crate::support::host::{Host, kernel_socket, settings};
use crate::support::isolation::isolated;
use crate::support::multiplex::{IN, OUT, pipe, poll, polled};
use crate::support::{OUR_IP, PEER};

fn polling(select_poll_usec: i32) -> Settings {
    Settings {
        select_poll_usec,
        ..settings()
    }
}

#[test]
fn sockets_and_pipes_are_watched_together() {
    isolated(|| {
        for usec in [0, 1000, -1] {
            let host = Host::with(polling(usec));
            let (socket, idle) = (host.any(), host.any());
            let (mut reader, mut writer) = pipe();
            let mut fds = [
                polled(reader.as_raw_fd(), IN),
                polled(socket.fd(), IN),
                polled(-1, IN),
                polled(idle.fd(), IN),
            ];
            let mut ask = |timeout| {
                let count = poll(host.engine, &mut fds, timeout).unwrap();
                (count, fds.map(|it| it.revents))
            };
            assert_eq!(ask(0), (0, [0; 4]));
            writer.write_all(b"x").unwrap();
            assert_eq!(ask(-1), (1, [IN, 0, 0, 0]));
            assert_eq!(reader.read(&mut [0; 8]).unwrap(), 1);
            host.arrives(PEER, socket.at(OUR_IP), b"x");
            assert_eq!(ask(-1), (1, [0, IN, 0, 0]));
            assert_eq!(ask(0), (1, [0, IN, 0, 0]), "as long as it is not read");
            assert_eq!(receive(&socket, 0), Ok(b"x".to_vec()));
            assert_eq!(ask(0), (0, [0; 4]));
        }
    });
}

#[test]
fn the_kernel_is_asked_at_every_nth_call_that_finds_ours() {
    isolated(|| {
        for (skip, expected) in [(1, 24), (4, 6), (0, 0)] {
            let host = Host::with(Settings {
                select_skip_os: skip,
                ..settings()
            });
            let socket = host.any();
            let (reader, mut writer) = pipe();
            writer.write_all(b"x").unwrap();
            host.arrives(PEER, socket.at(OUR_IP), b"x");
            assert_eq!(socket.ours().next_len_after_poll(), Some(1));
            let mut fds = [polled(reader.as_raw_fd(), IN), polled(socket.fd(), IN)];
            let mut asked = || {
                let asks = |_: &i32| {
                    let count = poll(host.engine, &mut fds, 0).unwrap();
                    assert_eq!(fds[1].revents, IN);
                    assert_eq!(count, if fds[0].revents == IN { 2 } else { 1 });
                    fds[0].revents == IN
                };
                (0..24).filter(asks).count()
            };
            // Tests beside this one count in the same counter, at times.
            let as_expected = (0..50).any(|_| asked() == expected);
            assert!(as_expected, "{skip}: {}", asked());
        }
    });
}

#[test]
fn writability_is_reported_beside_readability() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let mut fds = [polled(socket.fd(), IN | OUT)];
        assert_eq!(poll(host.engine, &mut fds, -1), Ok(1));
        assert_eq!(fds[0].revents, OUT);
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        // The kernel is asked first in a call that has to look; either answer is true.
        assert_eq!(poll(host.engine, &mut fds, -1), Ok(1));
        socket.ours().next_len_after_poll();
        assert_eq!(poll(host.engine, &mut fds, -1), Ok(1));
        assert_eq!(fds[0].revents, IN | OUT);
        fds[0].events = OUT;
        assert_eq!(poll(host.engine, &mut fds, -1), Ok(1));
        assert_eq!(fds[0].revents, OUT);
        fds[0].events = libc::POLLRDNORM;
        assert_eq!(poll(host.engine, &mut fds, -1), Ok(1));
        assert_eq!(fds[0].revents, libc::POLLRDNORM);
        fds[0].events = libc::POLLPRI;
        assert_eq!(poll(host.engine, &mut fds, 0), Ok(0));
    });
}

#[test]
fn what_the_kernels_socket_has_is_reported_and_then_read() {
    isolated(|| {
        for ratio in [1, 10, 1000] {
            let host = Host::with(Settings {
                select_poll_os_ratio: ratio,
                rx_udp_poll_os_ratio: 0,
                ..polling(-1)
            });
            let socket = host.any();
            let (peer, _) = kernel_socket("127.0.0.1:0");
            let mut fds = [polled(socket.fd(), IN)];
            assert_eq!(poll(host.engine, &mut fds, 1), Ok(0));
            peer.send_to(b"x", socket.at(Ipv4Addr::LOCALHOST)).unwrap();
            assert_eq!(poll(host.engine, &mut fds, -1), Ok(1));
            assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Ok(b"x".to_vec()));
        }
    });
}

#[test]
fn a_ratio_of_zero_asks_the_kernel_once_a_call() {
    isolated(|| {
        let host = Host::with(Settings {
            select_poll_os_ratio: 0,
            ..polling(-1)
        });
        let socket = host.any();
        let (reader, mut writer) = pipe();
        let mut fds = [polled(socket.fd(), IN), polled(reader.as_raw_fd(), IN)];
        let sockets = host.engine.polled_sockets(&fds).unwrap();
        let mut call = MuxCall::begin(host.engine.settings(), None, true);
        for _ in 0..3 {
            let outcome = host.engine.poll(&mut call, &mut fds, &sockets);
            assert!(matches!(outcome, MuxOutcome::Again), "{outcome:?}");
            writer.write_all(b"x").unwrap();
        }
        assert_eq!(
            poll(host.engine, &mut fds, -1),
            Ok(1),
            "the next one sees it"
        );
    });
}

#[test]
fn a_call_polls_as_long_as_configured_then_sleeps() {
    isolated(|| {
        let host = Host::with(polling(20_000));
        let socket = host.any();
        let mut fds = [polled(socket.fd(), IN)];
        let sockets = host.engine.polled_sockets(&fds).unwrap();
        let mut call = MuxCall::begin(host.engine.settings(), None, true);
        let begun = Instant::now();
        let sleep = loop {
            match host.engine.poll(&mut call, &mut fds, &sockets) {
                MuxOutcome::Again => {}
                MuxOutcome::Sleep(sleep) => break sleep,
                other => panic!("{other:?}"),
            }
        };
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(sleep.timeout().is_none());
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        assert!(sleep_until_woken(sleep));
        let outcome = host.engine.poll(&mut call, &mut fds, &sockets);
        assert!(matches!(outcome, MuxOutcome::Done(1)));
        // With a signal mask, which is in force in the sleep only, it does not poll.
        assert_eq!(receive(&socket, 0), Ok(b"x".to_vec()));
        let mut call = MuxCall::begin(host.engine.settings(), None, false);
        let MuxOutcome::Sleep(sleep) = host.engine.poll(&mut call, &mut fds, &sockets) else {
            panic!("no sleep")
        };
        sleep.end();
    });
}

#[test]
fn a_timeout_ends_the_call() {
    isolated(|| {
        for usec in [0, 5000, -1] {
            let host = Host::with(polling(usec));
            let socket = host.any();
            let mut fds = [polled(socket.fd(), IN)];
            let begun = Instant::now();
            assert_eq!(poll(host.engine, &mut fds, 30), Ok(0));
            assert!(begun.elapsed() >= Duration::from_millis(29), "{usec}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{usec}");
            assert_eq!(fds[0].revents, 0);
        }
    });
}

#[test]
fn any_signal_handler_ends_the_call() {
    isolated(|| {
        for usec in [0, -1] {
            let host = Host::with(polling(usec));
            let socket = host.any();
            let mut fds = [polled(socket.fd(), IN)];
            let sockets = host.engine.polled_sockets(&fds).unwrap();
            let mut call = MuxCall::begin(host.engine.settings(), None, true);
            // SA_RESTART does not help here (signal(7)).
            interrupt::handler_runs(true);
            let outcome = host.engine.poll(&mut call, &mut fds, &sockets);
            assert!(matches!(outcome, MuxOutcome::Fail(Errno(libc::EINTR))));
            // What came before the call ended goes before.
            let mut call = MuxCall::begin(host.engine.settings(), None, true);
            call.end_after_last_look();
            host.arrives(PEER, socket.at(OUR_IP), b"x");
            let outcome = host.engine.poll(&mut call, &mut fds, &sockets);
            assert!(matches!(outcome, MuxOutcome::Done(1)));
        }
    });
}

#[test]
fn descriptors_that_are_none_are_the_kernels_to_report() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        // Far above what a test opens.
        let mut fds = [polled(socket.fd(), IN), polled(900_000, IN)];
        assert_eq!(poll(host.engine, &mut fds, -1), Ok(1));
        assert_eq!(fds[1].revents, libc::POLLNVAL);
    });
}

#[test]
fn one_socket_may_be_named_twice() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        let mut fds = [polled(socket.fd(), IN), polled(socket.fd(), IN)];
        assert_eq!(poll(host.engine, &mut fds, 1), Ok(0));
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        assert_eq!(poll(host.engine, &mut fds, -1), Ok(2));
        assert_eq!(fds.map(|it| it.revents), [IN, IN]);
    });
}

#[test]
fn a_socket_that_becomes_ours_during_the_call_is_heard() {
    isolated(|| {
        let host = Host::new();
        let socket = host.unbound();
        let fds = [polled(socket.fd(), IN)];
        std::thread::scope(|scope| {
            let engine = host.engine;
            let waiter = scope.spawn(move || {
                let mut fds = fds;
                poll(engine, &mut fds, 10_000)
            });
            std::thread::sleep(Duration::from_millis(30));
            socket.bind("0.0.0.0:0");
            std::thread::sleep(Duration::from_millis(30));
            host.arrives(PEER, socket.at(OUR_IP), b"x");
            assert_eq!(waiter.join().unwrap(), Ok(1));
        });
    });
}

#[test]
fn descriptors_of_the_kernel_alone_are_not_ours_to_watch() {
    isolated(|| {
        let host = Host::new();
        let (reader, _writer) = pipe();
        let loopback = host.bound("127.0.0.1:0");
        let fds = [polled(reader.as_raw_fd(), IN), polled(loopback.fd(), IN)];
        assert!(host.engine.polled_sockets(&fds).is_none());
    });
}
