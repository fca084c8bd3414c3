//! How long receive calls poll and sleep, what ends them, and what they find in the kernel's
//! socket.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use engine::{Errno, RecvOutcome, Settings, interrupt};

use crate::support::calls::{Receiving, nap, receive, sleep_until_woken};
use crate::support::host::{Host, kernel_socket, settings};
use crate::support::isolation::isolated;
use crate::support::multiplex::{IN, poll, polled};
use crate::support::{OUR_IP, PEER};

const AGAIN: Errno = Errno(libc::EAGAIN);
const INTERRUPTED: Errno = Errno(libc::EINTR);

fn polling(rx_poll: i32) -> Settings {
    Settings {
        rx_poll,
        ..settings()
    }
}

#[test]
fn a_nonblocking_call_answers_at_once() {
    isolated(|| {
        let host = Host::with(polling(-1));
        let socket = host.any();
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Err(AGAIN));
        socket.set_nonblocking(true);
        assert_eq!(receive(&socket, 0), Err(AGAIN));
        assert_eq!(socket.snapshot(&host).unwrap().rx_eagain, 2);
        socket.set_nonblocking(false);
        assert!(matches!(
            Receiving::begin(&socket, 0).attempt(&mut [0; 8]),
            RecvOutcome::Again
        ));
    });
}

#[test]
fn a_call_polls_as_often_as_configured_then_sleeps() {
    isolated(|| {
        // More polls than one attempt makes.
        for (polls, attempts) in [(0, 0), (1, 0), (100, 0), (20_000, 1), (40_000, 2)] {
            let host = Host::with(polling(polls));
            let socket = host.any();
            let mut call = Receiving::begin(&socket, 0);
            for _ in 0..attempts {
                let outcome = call.attempt(&mut [0; 8]);
                assert!(matches!(outcome, RecvOutcome::Again), "{polls}");
            }
            let RecvOutcome::Sleep(mut sleep) = call.attempt(&mut [0; 8]) else {
                panic!("{polls} polls, then no sleep")
            };
            assert!(sleep.timeout().is_none());
            assert_eq!(socket.snapshot(&host).unwrap().rx_poll_miss, 1);
            host.arrives(PEER, socket.at(OUR_IP), b"wake up");
            assert!(nap(&mut sleep), "the device's descriptor is watched");
            sleep.end();
            assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Done(7)));
            let counted = socket.snapshot(&host).unwrap();
            // A call counts once.
            assert_eq!((counted.rx_poll_miss, counted.rx_poll_hit), (1, 0));
        }
    });
}

#[test]
fn an_endless_poll_never_sleeps() {
    isolated(|| {
        let host = Host::with(polling(-1));
        let socket = host.any();
        let mut call = Receiving::begin(&socket, 0);
        for _ in 0..4 {
            assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Again));
        }
        host.arrives(PEER, socket.at(OUR_IP), b"now");
        assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Done(3)));
        assert_eq!(socket.snapshot(&host).unwrap().rx_poll_hit, 1);
    });
}

#[test]
fn a_socket_that_is_not_ours_yet_sleeps_without_polling() {
    isolated(|| {
        let host = Host::with(polling(-1));
        let socket = host.unbound();
        let outcome = Receiving::begin(&socket, 0).attempt(&mut [0; 8]);
        let RecvOutcome::Sleep(sleep) = outcome else {
            panic!("{outcome:?}")
        };
        sleep.end();
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Err(AGAIN));
    });
}

#[test]
fn a_timeout_ends_polling_and_sleeping_calls() {
    isolated(|| {
        for polls in [0, 1000, -1] {
            let host = Host::with(polling(polls));
            let socket = host.any();
            let timeout = libc::timeval {
                tv_sec: 0,
                tv_usec: 30_000,
            };
            let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
            socket.set_kernel_option(level, name, &timeout);
            host.engine.option_was_set(socket.ours(), level, name);
            let begun = Instant::now();
            assert_eq!(receive(&socket, 0), Err(AGAIN), "{polls}");
            let took = begun.elapsed();
            assert!(took >= Duration::from_millis(29), "{polls}: {took:?}");
            assert!(took < Duration::from_secs(30), "{polls}: {took:?}");
            // It does not make a call without waiting wait.
            let takes_no_time = (0..100).any(|_| {
                let begun = Instant::now();
                assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Err(AGAIN));
                begun.elapsed() < Duration::from_millis(20)
            });
            assert!(takes_no_time);
        }
    });
}

#[test]
fn a_huge_timeout_is_no_timeout() {
    isolated(|| {
        let host = Host::with(polling(0));
        let socket = host.any();
        let timeout = libc::timeval {
            tv_sec: 1 << 40,
            tv_usec: 0,
        };
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        socket.set_kernel_option(level, name, &timeout);
        host.engine.option_was_set(socket.ours(), level, name);
        let outcome = Receiving::begin(&socket, 0).attempt(&mut [0; 8]);
        let RecvOutcome::Sleep(sleep) = outcome else {
            panic!("{outcome:?}")
        };
        let seconds = sleep.timeout().map(|timeout| timeout.tv_sec);
        assert!(
            seconds.is_none_or(|seconds| seconds > 1 << 30),
            "{seconds:?}"
        );
        sleep.end();
    });
}

#[test]
fn signal_handlers_end_calls_as_signal_7_says() {
    isolated(|| {
        let host = Host::with(polling(0));
        let socket = host.any();
        let mut call = Receiving::begin(&socket, 0);
        interrupt::handler_runs(true);
        assert!(!call.call().interrupted() && call.call().any_handler());
        let RecvOutcome::Sleep(sleep) = call.attempt(&mut [0; 8]) else {
            panic!("restarted by the kernel")
        };
        sleep.end();
        interrupt::handler_runs(false);
        let outcome = call.attempt(&mut [0; 8]);
        assert!(matches!(outcome, RecvOutcome::Fail(INTERRUPTED)));
        // Data that is there wins.
        let mut call = Receiving::begin(&socket, 0);
        host.arrives(PEER, socket.at(OUR_IP), b"x");
        interrupt::handler_runs(false);
        assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Done(1)));
        // A call with a timeout is never restarted.
        let timeout = libc::timeval {
            tv_sec: 100,
            tv_usec: 0,
        };
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        socket.set_kernel_option(level, name, &timeout);
        host.engine.option_was_set(socket.ours(), level, name);
        let mut call = Receiving::begin(&socket, 0);
        interrupt::handler_runs(true);
        let outcome = call.attempt(&mut [0; 8]);
        assert!(matches!(outcome, RecvOutcome::Fail(INTERRUPTED)));
    });
}

#[test]
fn a_call_that_ends_takes_a_last_look() {
    isolated(|| {
        let (peer, _) = kernel_socket("127.0.0.1:0");
        for through_kernel in [false, true] {
            let host = Host::with(Settings {
                rx_udp_poll_os_ratio: 0,
                ..polling(0)
            });
            let socket = host.any();
            let mut call = Receiving::begin(&socket, 0);
            let RecvOutcome::Sleep(sleep) = call.attempt(&mut [0; 8]) else {
                panic!("nothing is there")
            };
            interrupt::handler_runs(false);
            sleep.end();
            assert!(call.call().interrupted());
            if through_kernel {
                peer.send_to(b"late", socket.at(Ipv4Addr::LOCALHOST))
                    .unwrap();
            } else {
                host.arrives(PEER, socket.at(OUR_IP), b"late");
            }
            assert!(matches!(call.last_look(&mut [0; 8]), RecvOutcome::Done(4)));
            let outcome = call.last_look(&mut [0; 8]);
            assert!(matches!(outcome, RecvOutcome::Fail(INTERRUPTED)));
        }
    });
}

#[test]
fn what_waits_in_the_kernel_is_found_by_ratio() {
    isolated(|| {
        let (peer, _) = kernel_socket("127.0.0.1:0");
        let kernel_data = |ratio| {
            let host = Host::with(Settings {
                rx_udp_poll_os_ratio: ratio,
                ..polling(-1)
            });
            let socket = host.any();
            peer.send_to(b"fragment", socket.at(Ipv4Addr::LOCALHOST))
                .unwrap();
            let outcome = Receiving::begin(&socket, 0).attempt(&mut [0; 16]);
            let counted = socket.snapshot(&host).unwrap();
            assert_eq!(counted.rx_packets, 0);
            match outcome {
                RecvOutcome::Done(8) => {
                    assert_eq!((counted.rx_os_packets, counted.rx_os_bytes), (1, 8));
                    true
                }
                RecvOutcome::Again => false,
                other => panic!("{other:?}"),
            }
        };
        assert!(kernel_data(1) && kernel_data(100) && kernel_data(10_000));
        assert!(!kernel_data(0), "a ratio of 0 means never");
    });
}

#[test]
fn what_waits_in_the_kernel_is_found_when_poll_said_so() {
    isolated(|| {
        let host = Host::with(Settings {
            rx_udp_poll_os_ratio: 0,
            ..polling(-1)
        });
        let socket = host.any();
        let (peer, _) = kernel_socket("127.0.0.1:0");
        for text in [&b"first"[..], b"second"] {
            peer.send_to(text, socket.at(Ipv4Addr::LOCALHOST)).unwrap();
        }
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Err(AGAIN));
        assert_eq!(
            poll(host.engine, &mut [polled(socket.fd(), IN)], 1000),
            Ok(1)
        );
        for text in [&b"first"[..], b"second"] {
            assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Ok(text.to_vec()));
        }
        assert_eq!(receive(&socket, libc::MSG_DONTWAIT), Err(AGAIN));
    });
}

#[test]
fn a_sleeper_is_woken_by_the_kernels_socket() {
    isolated(|| {
        let host = Host::with(polling(0));
        let socket = host.any();
        let (peer, _) = kernel_socket("127.0.0.1:0");
        let mut call = Receiving::begin(&socket, 0);
        let RecvOutcome::Sleep(sleep) = call.attempt(&mut [0; 8]) else {
            panic!("nothing is there")
        };
        peer.send_to(b"wake", socket.at(Ipv4Addr::LOCALHOST))
            .unwrap();
        assert!(sleep_until_woken(sleep));
        assert!(matches!(call.attempt(&mut [0; 8]), RecvOutcome::Done(4)));
    });
}
