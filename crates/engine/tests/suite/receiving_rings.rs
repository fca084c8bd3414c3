//! By which ring datagrams are received, on a device with several queues.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use engine::{Errno, RecvOutcome, RingPolicy, Settings};
use vma_config::RingLogic;

use crate::support::calls::{Receiving, receive};
use crate::support::device::{Device, QUEUES};
use crate::support::host::{Host, Socket, rings, settings};
use crate::support::isolation::isolated;
use crate::support::{FIRST_LINK, OUR_IP, PEER, frame};

const AGAIN: Errno = Errno(libc::EAGAIN);
const DONTWAIT: libc::c_int = libc::MSG_DONTWAIT;
const ALL: usize = QUEUES as usize;

fn host_with(policy: RingPolicy) -> Host<Device> {
    Host::with(Settings {
        rings_rx: policy,
        ..settings()
    })
}

fn host(logic: RingLogic) -> Host<Device> {
    host_with(RingPolicy::new(logic, 100, 0))
}

/// A datagram for a socket comes by a queue.
fn arrives_by(host: &Host<Device>, queue: usize, socket: &Socket<Device>, payload: &[u8]) {
    let frame = frame(PEER, socket.at(OUR_IP), payload);
    host.device.wire(FIRST_LINK).inject_by(queue, frame);
}

/// The ring that the device was asked to bring the socket's datagrams by.
fn ring_of(host: &Host<Device>, socket: &Socket<Device>) -> usize {
    let ring = host.device.wire(FIRST_LINK).brought(socket.port());
    ring.expect("its flow has a ring")
}

/// In another thread, which ends.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[test]
fn rings_are_shared_as_the_logic_says() {
    isolated(|| {
        for (logic, expected) in [
            (RingLogic::PerAddress, [0, 0, 0]),
            (RingLogic::PerSocket, [0, 1, 2]),
            (RingLogic::PerThread, [0, 0, 1]),
        ] {
            let host = host(logic);
            let (first, second) = (host.any(), host.any());
            let of_thread = [ring_of(&host, &first), ring_of(&host, &second)];
            let of_other = elsewhere(|| ring_of(&host, &host.any()));
            assert_eq!(
                [of_thread[0], of_thread[1], of_other],
                expected,
                "{logic:?}"
            );
            let queues: Vec<_> = rings(&host).iter().map(|ring| ring.queues).collect();
            assert_eq!(queues, [1; ALL], "{logic:?}");
        }
        let host = host(RingLogic::PerInterface);
        let socket = host.any();
        assert_eq!(host.device.wire(FIRST_LINK).brought(socket.port()), None);
        assert_eq!(rings(&host)[0].queues, QUEUES);
    });
}

#[test]
fn a_ring_is_used_again_and_no_more_than_the_limit_are() {
    isolated(|| {
        let host = host_with(RingPolicy::new(RingLogic::PerSocket, 100, 2));
        let (first, second, third) = (host.any(), host.any(), host.any());
        let taken = [&first, &second, &third].map(|socket| ring_of(&host, socket));
        assert_eq!(taken, [0, 1, 0]);
        drop(second);
        assert_eq!(ring_of(&host, &host.any()), 1);
        let queues: Vec<_> = rings(&host).iter().map(|ring| ring.queues).collect();
        assert_eq!(queues, [2, 2]);
        // What changes nothing leaves the ring where it is.
        host.engine.network_changed(true);
        assert_eq!([&first, &third].map(|it| ring_of(&host, it)), [0, 0]);
    });
}

#[test]
fn a_datagram_reaches_its_socket_by_any_queue() {
    isolated(|| {
        let host = host(RingLogic::PerSocket);
        let (socket, other) = (host.any(), host.any());
        for queue in 0..ALL {
            for it in [&socket, &other] {
                arrives_by(&host, queue, it, b"at once");
                assert_eq!(receive(it, DONTWAIT), Ok(b"at once".to_vec()), "{queue}");
                arrives_by(&host, queue, it, b"before a sleep");
                assert_eq!(receive(it, 0), Ok(b"before a sleep".to_vec()), "{queue}");
                arrives_by(&host, queue, it, b"told");
                assert_eq!(it.ours().next_len_after_poll(), Some(4), "{queue}");
                assert_eq!(receive(it, DONTWAIT), Ok(b"told".to_vec()), "{queue}");
            }
        }
        assert_eq!(receive(&socket, DONTWAIT), Err(AGAIN));
        let counted: Vec<_> = rings(&host).iter().map(|ring| ring.rx_packets).collect();
        assert_eq!(counted, [6; ALL]);
    });
}

#[test]
fn a_sleeper_is_woken_by_any_queue() {
    isolated(|| {
        let host = host(RingLogic::PerThread);
        let socket = host.any();
        for queue in 0..ALL {
            let received = thread::scope(|scope| {
                let receiver = scope.spawn(|| receive(&socket, 0));
                thread::sleep(Duration::from_millis(20));
                arrives_by(&host, queue, &socket, b"wake up");
                receiver.join().unwrap()
            });
            assert_eq!(received, Ok(b"wake up".to_vec()), "{queue}");
        }
    });
}

#[test]
fn what_another_thread_is_about_to_take_is_left_to_it_once() {
    isolated(|| {
        let host = host(RingLogic::PerThread);
        let socket = host.any();
        elsewhere(|| {
            let other = host.any();
            assert_eq!(ring_of(&host, &other), 1);
            assert_eq!(receive(&other, DONTWAIT), Err(AGAIN));
        });
        arrives_by(&host, 1, &socket, b"by another's");
        assert_eq!(receive(&socket, DONTWAIT), Err(AGAIN));
        assert_eq!(receive(&socket, DONTWAIT), Ok(b"by another's".to_vec()));
    });
}

#[test]
fn who_is_kept_busy_by_its_own_ring_receives_from_others_too() {
    isolated(|| {
        let host = Host::with(Settings {
            rings_rx: RingPolicy::new(RingLogic::PerThread, 100, 0),
            rx_poll: 1_000_000,
            ..settings()
        });
        let socket = host.any();
        let wire = host.device.wire(FIRST_LINK);
        assert_eq!(ring_of(&host, &socket), 0);
        let flood = frame(PEER, socket.at(OUR_IP), b"own");
        wire.flood(Some(flood));
        arrives_by(&host, 3, &socket, b"foreign");
        let came = (0..10_000).find(|_| receive(&socket, 0) == Ok(b"foreign".to_vec()));
        wire.flood(None);
        assert!(came.is_some());
    });
}

#[test]
fn a_call_that_polls_receives_from_rings_that_nobody_polls() {
    isolated(|| {
        let host = Host::with(Settings {
            rings_rx: RingPolicy::new(RingLogic::PerThread, 100, 0),
            rx_poll: -1,
            ..settings()
        });
        let socket = host.any();
        arrives_by(&host, 2, &socket, b"nobody's");
        // Another thread had the ring, and does something else.
        elsewhere(|| drop((host.any(), host.any())));
        let mut buffer = [0; 64];
        let mut call = Receiving::begin(&socket, 0);
        let outcome = call.attempt(&mut buffer);
        assert!(matches!(outcome, RecvOutcome::Done(8)), "{outcome:?}");
    });
}

#[test]
fn a_socket_follows_the_thread_that_receives_from_it() {
    isolated(|| {
        for (ratio, moves) in [(100, true), (0, false)] {
            let host = host_with(RingPolicy::new(RingLogic::PerThread, ratio, 0));
            let (socket, others) = (host.any(), host.any());
            let receive_some = |count: usize| {
                for _ in 0..count {
                    let queue = ring_of(&host, &socket);
                    arrives_by(&host, queue, &socket, b"m");
                    while receive(&socket, DONTWAIT) != Ok(b"m".to_vec()) {}
                }
                ring_of(&host, &socket)
            };
            assert_eq!(receive_some(200), 0);
            assert_eq!(elsewhere(|| receive_some(1)), 0, "not at once");
            let now = elsewhere(|| receive_some(200));
            assert_eq!(now, usize::from(moves));
            let counted = socket.snapshot(&host).unwrap().rx_migrations;
            assert_eq!(counted, u64::from(moves));
            assert_eq!(ring_of(&host, &others), 0);
        }
    });
}

#[test]
fn all_that_comes_is_received_once_by_threads_with_rings_of_their_own() {
    isolated(|| {
        const COUNT: u32 = 3000;
        const THREADS: usize = 3;
        let host = host(RingLogic::PerThread);
        let start = Barrier::new(THREADS + 1);
        let sockets: Vec<_> = (0..THREADS).map(|_| host.any()).collect();
        let is_over = AtomicBool::new(false);
        let received = AtomicUsize::new(0);
        thread::scope(|scope| {
            // Another that changes what the rings have together.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(host.any());
                }
            });
            let receivers: Vec<_> = sockets
                .iter()
                .map(|socket| {
                    let (host, start, received) = (&host, &start, &received);
                    scope.spawn(move || {
                        let own = host.any();
                        start.wait();
                        let mut numbers = Vec::new();
                        while numbers.len() < COUNT as usize {
                            let data = receive(socket, 0).unwrap();
                            numbers.push(u32::from_ne_bytes(data[..].try_into().unwrap()));
                            received.fetch_add(1, Ordering::Relaxed);
                        }
                        drop(own);
                        numbers
                    })
                })
                .collect();
            start.wait();
            for number in 0..COUNT {
                for (index, socket) in sockets.iter().enumerate() {
                    // By its own queue, and now and then by any.
                    let queue = if number % 7 == 0 {
                        number as usize
                    } else {
                        index
                    };
                    arrives_by(&host, queue % ALL, socket, &number.to_ne_bytes());
                }
                // No queue is ever full.
                let sent = (number as usize + 1) * THREADS;
                while sent - received.load(Ordering::Relaxed) > 30 {
                    thread::yield_now();
                }
            }
            for receiver in receivers {
                let mut numbers = receiver.join().unwrap();
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(0..COUNT));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let counted: u64 = rings(&host).iter().map(|ring| ring.rx_packets).sum();
        assert_eq!(counted, u64::from(COUNT) * THREADS as u64);
        drop(sockets);
        assert_eq!(
            host.free_frames(),
            u64::from(crate::support::host::POOL_FRAMES)
        );
    });
}
