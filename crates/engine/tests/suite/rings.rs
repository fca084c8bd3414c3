//! Which ring datagrams leave by, on a device with several.

use std::thread;

use dev_core::KickOutcome;
use engine::{RingPolicy, SendOutcome, Settings};
use vma_config::RingLogic;

use crate::support::calls::send;
use crate::support::device::{Device, QUEUES};
use crate::support::host::{Host, Socket, rings, settings};
use crate::support::isolation::isolated;
use crate::support::{FIRST_LINK, PEER};

fn host_with(policy: RingPolicy) -> Host<Device> {
    Host::with(Settings {
        rings_tx: policy,
        ..settings()
    })
}

fn host(logic: RingLogic) -> Host<Device> {
    host_with(RingPolicy::new(logic, 100, 0))
}

/// The queue that a datagram of the socket leaves by.
fn queue_of(host: &Host<Device>, socket: &Socket<Device>) -> usize {
    let wire = host.device.wire(FIRST_LINK);
    assert_eq!(send(socket, Some(PEER), b"m"), SendOutcome::Done(1));
    let queue = wire.oldest_left_by().expect("it was told to the device");
    assert!(wire.sent().is_some() && wire.sent().is_none());
    queue
}

/// The same in another thread.
fn queue_in_thread(host: &Host<Device>, socket: &Socket<Device>) -> usize {
    thread::scope(|scope| scope.spawn(|| queue_of(host, socket)).join().unwrap())
}

/// A socket that another thread has made, which ends after the calls.
fn with_socket_of_other_thread<R: Send>(
    host: &Host<Device>,
    use_it: impl FnOnce(&Socket<Device>) -> R + Send,
) -> R {
    thread::scope(|scope| scope.spawn(|| use_it(&host.any())).join().unwrap())
}

#[test]
fn rings_are_shared_as_the_logic_says() {
    isolated(|| {
        for (logic, expected) in [
            (RingLogic::PerInterface, [0, 0, 0]),
            (RingLogic::PerAddress, [0, 0, 0]),
            (RingLogic::PerSocket, [0, 1, 2]),
            (RingLogic::PerThread, [0, 0, 1]),
        ] {
            let host = host(logic);
            let (first, second) = (host.any(), host.any());
            let of_thread = [queue_of(&host, &first), queue_of(&host, &second)];
            let of_other = with_socket_of_other_thread(&host, |third| queue_of(&host, third));
            assert_eq!(
                [of_thread[0], of_thread[1], of_other],
                expected,
                "{logic:?}"
            );
            // They stay where they are.
            assert_eq!(queue_of(&host, &first), expected[0], "{logic:?}");
            assert_eq!(queue_of(&host, &second), expected[1], "{logic:?}");
        }
    });
}

#[test]
fn a_thread_that_is_attached_to_a_core_has_its_ring() {
    isolated(|| {
        let host = host(RingLogic::PerCoreAttached);
        let (core, queues) = with_socket_of_other_thread(&host, |socket| {
            let queues = [queue_of(&host, socket), queue_of(&host, &host.any())];
            // SAFETY: all-zero is the empty set.
            let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            // SAFETY: the set is writable for its size.
            let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
            assert_eq!(result, 0);
            // SAFETY: the set is readable.
            (unsafe { libc::CPU_COUNT(&set) }, queues)
        });
        assert_eq!((core, queues), (1, [0, 0]));
    });
}

#[test]
fn a_ring_is_used_again_and_no_more_than_the_limit_are() {
    isolated(|| {
        let host = host_with(RingPolicy::new(RingLogic::PerSocket, 100, 2));
        let (first, second, third) = (host.any(), host.any(), host.any());
        let queues = [&first, &second, &third].map(|socket| queue_of(&host, socket));
        assert_eq!(queues, [0, 1, 0]);
        drop(second);
        assert_eq!(queue_of(&host, &host.any()), 1);
        let rings = rings(&host);
        let shown: Vec<_> = rings.iter().map(|it| (it.queues, it.tx_packets)).collect();
        assert_eq!(shown, [(QUEUES, 2), (1, 2)]);
    });
}

#[test]
fn a_socket_follows_the_thread_that_uses_it() {
    isolated(|| {
        for (ratio, moves) in [(100, true), (0, false)] {
            let host = host_with(RingPolicy::new(RingLogic::PerThread, ratio, 0));
            let (socket, others) = (host.any(), host.any());
            assert_eq!(queue_of(&host, &others), 0);
            assert_eq!(queue_of(&host, &socket), 0);
            assert_eq!(queue_in_thread(&host, &socket), 0, "not at once");
            let queues = thread::scope(|scope| {
                let sends = || {
                    (0..200)
                        .map(|_| queue_of(&host, &socket))
                        .collect::<Vec<_>>()
                };
                scope.spawn(sends).join().unwrap()
            });
            let moved_at = queues.iter().position(|queue| *queue == 1);
            assert_eq!(moved_at.is_some(), moves, "{queues:?}");
            let stays = moved_at.is_none_or(|at| queues[at..].iter().all(|queue| *queue == 1));
            assert!(stays, "{queues:?}");
            let counted = socket.snapshot(&host).unwrap().tx_migrations;
            assert_eq!(counted, u64::from(moves));
            assert_eq!(queue_of(&host, &others), 0);
        }
    });
}

#[test]
fn senders_on_two_rings_send_all_that_they_send() {
    isolated(|| {
        const COUNT: u64 = 2000;
        let host = host(RingLogic::PerThread);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let socket = host.any();
                    for _ in 0..COUNT {
                        assert_eq!(send(&socket, Some(PEER), b"m"), SendOutcome::Done(1));
                    }
                });
            }
        });
        host.engine.refresh_gauges();
        let wire = host.device.wire(FIRST_LINK);
        assert_eq!(wire.queued(), 0);
        let mut by_queue = [0; QUEUES as usize];
        while let Some(queue) = wire.oldest_left_by() {
            assert!(wire.sent().is_some());
            by_queue[queue] += 1;
        }
        let rings = rings(&host);
        let counted: Vec<_> = rings.iter().map(|ring| ring.tx_packets).collect();
        assert_eq!(counted, by_queue);
        assert_eq!(by_queue.iter().sum::<u64>(), 2 * COUNT);
    });
}

#[test]
fn each_ring_is_kicked_again_that_was_busy() {
    isolated(|| {
        let host = host(RingLogic::PerSocket);
        let (first, second) = (host.any(), host.any());
        let wire = host.device.wire(FIRST_LINK);
        assert_eq!([&first, &second].map(|it| queue_of(&host, it)), [0, 1]);
        wire.script_kicks([KickOutcome::Again; 2 * 65]);
        for socket in [&first, &second] {
            assert_eq!(send(socket, Some(PEER), b"m"), SendOutcome::Done(1));
        }
        assert_eq!(wire.queued(), 2);
        host.engine.refresh_gauges();
        assert_eq!(wire.queued(), 0);
    });
}
