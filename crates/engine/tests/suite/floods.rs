//! A sender without pauses to one socket: calls on all others keep their timeouts and signals,
//! closing ends, and what came before a call is seen by it.

use std::time::{Duration, Instant};

use engine::{Errno, MuxCall, MuxOutcome, Object, Settings, interrupt};

use crate::support::calls::{Receiving, receive};
use crate::support::device::Device;
use crate::support::host::{Host, Socket, settings};
use crate::support::isolation::isolated;
use crate::support::multiplex::{Epoll, IN, poll, polled};
use crate::support::{FIRST_LINK, OUR_IP, PEER, frame};

const AGAIN: Errno = Errno(libc::EAGAIN);
const EPOLLIN: libc::c_int = libc::EPOLLIN;
/// Far more than any of these calls may take on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// Runs a test with a socket that is flooded and one that is not, in hosts that poll and sleep in
/// all ways.
fn under_flood(test: impl Fn(&Host<Device>, Socket<Device>, &Socket<Device>) + Send + 'static) {
    isolated(move || {
        for (rx_poll, select_poll_usec) in [(0, 0), (1000, 5000), (-1, -1)] {
            let host = Host::with(Settings {
                rx_poll,
                select_poll_usec,
                ..settings()
            });
            let (flooded, quiet) = (host.any(), host.any());
            let wire = host.device.wire(FIRST_LINK);
            wire.flood(Some(frame(PEER, flooded.at(OUR_IP), b"flood")));
            let begun = Instant::now();
            test(&host, flooded, &quiet);
            assert!(begun.elapsed() < LONG, "{rx_poll} {select_poll_usec}");
            wire.flood(None);
        }
    });
}

/// Runs a call that is to end after a time, and not much later.
fn takes<T>(msec: u64, call: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = call();
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_millis(msec.saturating_sub(1)),
        "{took:?}"
    );
    assert!(took < LONG, "{took:?}");
    result
}

#[test]
fn a_receive_call_ends() {
    under_flood(|host, _flooded, quiet| {
        assert_eq!(receive(quiet, libc::MSG_DONTWAIT), Err(AGAIN));
        assert_eq!(
            receive(quiet, libc::MSG_DONTWAIT | libc::MSG_PEEK),
            Err(AGAIN)
        );
        assert_eq!(quiet.ours().next_len_after_poll(), None);
        let timeout = libc::timeval {
            tv_sec: 0,
            tv_usec: 20_000,
        };
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        quiet.set_kernel_option(level, name, &timeout);
        host.engine.option_was_set(quiet.ours(), level, name);
        assert_eq!(takes(20, || receive(quiet, 0)), Err(AGAIN));
        assert_eq!(takes(20, || receive(quiet, libc::MSG_PEEK)), Err(AGAIN));
        let mut call = Receiving::begin(quiet, 0);
        interrupt::handler_runs(false);
        let outcome = call.attempt(&mut [0; 8]);
        assert!(
            matches!(outcome, engine::RecvOutcome::Fail(Errno(libc::EINTR))),
            "{outcome:?}"
        );
    });
}

#[test]
fn epoll_wait_ends() {
    under_flood(|host, _flooded, quiet| {
        let epoll = Epoll::new(host.engine);
        epoll.add(quiet.fd(), EPOLLIN);
        for msec in [0, 1, 20] {
            let found = takes(msec, || epoll.wait(8, msec as libc::c_int));
            assert_eq!(found, Ok(Vec::new()));
        }
        let Some(Object::Epoll(set)) = host.engine.look_up(epoll.fd()) else {
            panic!("a set with sockets of ours is ours")
        };
        let mut call = MuxCall::begin(host.engine.settings(), None, true);
        interrupt::handler_runs(true);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        let outcome = host.engine.epoll_wait(set, &mut call, &mut events);
        assert!(matches!(outcome, MuxOutcome::Fail(Errno(libc::EINTR))));
    });
}

#[test]
fn poll_ends() {
    under_flood(|host, _flooded, quiet| {
        for msec in [0, 1, 20] {
            let mut fds = [polled(quiet.fd(), IN)];
            let found = takes(msec, || poll(host.engine, &mut fds, msec as libc::c_int));
            assert_eq!((found, fds[0].revents), (Ok(0), 0));
        }
        let mut fds = [polled(quiet.fd(), IN)];
        let sockets = host.engine.polled_sockets(&fds).unwrap();
        let mut call = MuxCall::begin(host.engine.settings(), None, true);
        interrupt::handler_runs(true);
        let outcome = host.engine.poll(&mut call, &mut fds, &sockets);
        assert!(matches!(outcome, MuxOutcome::Fail(Errno(libc::EINTR))));
    });
}

#[test]
fn a_close_ends() {
    under_flood(|host, flooded, quiet| {
        takes(0, || drop(flooded));
        // Those that are still on their way are nobody's.
        assert_eq!(receive(quiet, libc::MSG_DONTWAIT), Err(AGAIN));
        assert!(host.statistics().rings().unwrap()[0].rx_dropped_no_socket > 0);
    });
}

#[test]
fn what_came_before_a_call_that_does_not_wait_is_seen_by_it() {
    isolated(|| {
        let host = Host::new();
        let (flooded, quiet) = (host.any(), host.any());
        let epoll = Epoll::new(host.engine);
        epoll.add(quiet.fd(), EPOLLIN);
        let behind_others = || {
            for _ in 0..100 {
                host.arrives(PEER, flooded.at(OUR_IP), b"others");
            }
            host.arrives(PEER, quiet.at(OUR_IP), b"mine");
        };
        let mine = Ok(b"mine".to_vec());
        behind_others();
        assert_eq!(receive(&quiet, libc::MSG_DONTWAIT), mine);
        behind_others();
        assert_eq!(receive(&quiet, libc::MSG_DONTWAIT | libc::MSG_PEEK), mine);
        assert_eq!(receive(&quiet, libc::MSG_DONTWAIT), mine);
        behind_others();
        assert_eq!(quiet.ours().next_len_after_poll(), Some(4));
        assert_eq!(receive(&quiet, libc::MSG_DONTWAIT), mine);
        behind_others();
        assert_eq!(epoll.ready(), [quiet.fd()]);
        assert_eq!(receive(&quiet, libc::MSG_DONTWAIT), mine);
        behind_others();
        let mut fds = [polled(quiet.fd(), IN)];
        assert_eq!(poll(host.engine, &mut fds, 0), Ok(1));
        assert_eq!(receive(&quiet, libc::MSG_DONTWAIT), mine);
        assert_eq!(receive(&quiet, libc::MSG_DONTWAIT), Err(AGAIN));
    });
}
