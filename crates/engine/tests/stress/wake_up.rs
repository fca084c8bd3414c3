//! A thread that sleeps is woken by the thread that polls the ring for it, however their steps
//! interleave. The null device has no descriptor to sleep on, so the wake-up between threads is the
//! only one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dev_core::ThreadMode;
use dev_core::null::NullBackend;
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT};

use crate::support::calls::receive;
use crate::support::host::{Host, Socket, settings};
use crate::support::isolation::isolated;
use crate::support::multiplex::{Epoll, IN, poll, polled};
use crate::support::{OUR_IP, PEER, Random, frame};

/// Over all variants more than 100 000 where the build is fast.
const ROUNDS: u64 = if cfg!(debug_assertions) {
    20_000
} else {
    60_000
};
/// A slower machine does fewer rounds.
const TIME_LIMIT: Duration = Duration::from_secs(6);

/// One thread waits for a datagram at a time, another delivers the next one when the last has
/// arrived.
fn lockstep(
    thread_mode: ThreadMode,
    wait: impl Fn(&Socket<NullBackend>, Option<&Epoll<NullBackend>>) -> Vec<u8> + Sync,
    registration: Option<i32>,
) {
    let host = Host::with_backend(
        engine::Settings {
            thread_mode,
            rx_udp_poll_os_ratio: 0,
            ..settings()
        },
        NullBackend::default(),
        8,
    );
    // The null device has one wire, whatever the number of interfaces.
    host.network
        .change_interfaces(|interfaces| interfaces.truncate(1));
    let (socket, poller) = (host.any(), host.any());
    let epoll = registration.map(|events| {
        let epoll = Epoll::new(host.engine);
        epoll.add(socket.fd(), EPOLLIN | events);
        epoll
    });
    let (begun, local) = (Instant::now(), socket.at(OUR_IP));
    let received = AtomicU64::new(0);
    let last = AtomicU64::new(ROUNDS);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                let text = wait(&socket, epoll.as_ref());
                assert_eq!(text, round.to_string().into_bytes());
                received.store(round, Ordering::Release);
                if round >= last.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        let mut random = Random(thread_mode as u64 + 1);
        for round in 1..=ROUNDS {
            // The last round is fixed before its datagram is sent.
            if round == ROUNDS || begun.elapsed() > TIME_LIMIT {
                last.store(round, Ordering::Release);
            }
            for _ in 0..random.below(3000) {
                std::hint::spin_loop();
            }
            let text = round.to_string();
            host.device.inject(&frame(PEER, local, text.as_bytes()));
            poller.ours().next_len_after_poll();
            let delivered = Instant::now();
            while received.load(Ordering::Acquire) < round {
                std::thread::yield_now();
                assert!(
                    delivered.elapsed() < Duration::from_secs(60),
                    "{thread_mode:?}: round {round}: the sleeper was not woken"
                );
            }
            if last.load(Ordering::Relaxed) == round {
                return;
            }
        }
    });
}

const MODES: [ThreadMode; 2] = [ThreadMode::SpinLock, ThreadMode::Single];

#[test]
fn a_receive_call_is_woken() {
    isolated(|| {
        for mode in MODES {
            lockstep(mode, |socket, _| receive(socket, 0).unwrap(), None);
        }
    });
}

#[test]
fn a_poll_is_woken() {
    isolated(|| {
        lockstep(
            ThreadMode::MutexLock,
            |socket, _| {
                let mut fds = [polled(socket.fd(), IN)];
                assert_eq!(poll(socket.engine, &mut fds, -1), Ok(1));
                receive(socket, libc::MSG_DONTWAIT).unwrap()
            },
            None,
        );
    });
}

#[test]
fn an_epoll_wait_is_woken() {
    isolated(|| {
        for events in [0, EPOLLET] {
            lockstep(
                ThreadMode::MoreThreadsThanCores,
                |socket, epoll| {
                    let events = epoll.unwrap().wait(4, -1).unwrap();
                    assert_eq!(events.len(), 1);
                    receive(socket, libc::MSG_DONTWAIT).unwrap()
                },
                Some(events),
            );
        }
    });
}

#[test]
fn a_one_shot_epoll_wait_is_woken() {
    isolated(|| {
        lockstep(
            ThreadMode::SpinLock,
            |socket, epoll| {
                let epoll = epoll.unwrap();
                assert_eq!(epoll.wait(4, -1).unwrap().len(), 1);
                let text = receive(socket, libc::MSG_DONTWAIT).unwrap();
                epoll.modify(socket.fd(), EPOLLIN | EPOLLONESHOT);
                text
            },
            Some(EPOLLONESHOT),
        );
    });
}

#[test]
fn a_sleeper_in_epoll_wait_hears_of_a_socket_that_is_attached() {
    isolated(|| {
        let host = Host::new();
        let idle = host.any();
        let rounds = if cfg!(debug_assertions) { 500 } else { 2000 };
        let mut random = Random(7);
        for _ in 0..rounds {
            // A new set watches no interface yet, so only being told can make the sleeper look at
            // one.
            let epoll = Epoll::new(host.engine);
            let late = host.unbound();
            epoll.add(late.fd(), EPOLLIN);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| epoll.wait(4, 20_000).unwrap());
                for _ in 0..random.below(20_000) {
                    std::hint::spin_loop();
                }
                late.bind("0.0.0.0:0");
                host.arrives(PEER, late.at(OUR_IP), b"x");
                let events = waiter.join().unwrap();
                assert_eq!(events, [(EPOLLIN as u32, late.fd() as u64)]);
            });
        }
        drop(idle);
    });
}
