//! Threads that share one socket: each datagram reaches one of them, and is counted once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

use dev_core::ThreadMode;
use engine::{Network, Reason, RecvOutcome, SendOutcome};

use crate::support::calls::{Receiving, receive, send};
use crate::support::device::Device;
use crate::support::host::{Host, settings};
use crate::support::isolation::{isolated, with_addresses};
use crate::support::{FIRST_LINK, OUR_IP, PEER, Random};

const MODES: [ThreadMode; 4] = [
    ThreadMode::Single,
    ThreadMode::SpinLock,
    ThreadMode::MutexLock,
    ThreadMode::MoreThreadsThanCores,
];
const DATAGRAMS: u64 = if cfg!(debug_assertions) {
    20_000
} else {
    200_000
};

fn host(thread_mode: ThreadMode) -> Host<Device> {
    Host::with(engine::Settings {
        thread_mode,
        ..settings()
    })
}

#[test]
fn each_datagram_is_received_and_counted_once() {
    isolated(|| {
        for mode in MODES {
            let host = host(mode);
            let socket = host.any();
            let wire = host.device.wire(FIRST_LINK);
            let (count, sum) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        while count.load(Ordering::Relaxed) < DATAGRAMS {
                            match receive(&socket, libc::MSG_DONTWAIT) {
                                Ok(bytes) => {
                                    let number = u64::from_be_bytes(bytes.try_into().unwrap());
                                    sum.fetch_add(number, Ordering::Relaxed);
                                    count.fetch_add(1, Ordering::Relaxed);
                                }
                                Err(_) => std::thread::yield_now(),
                            }
                        }
                    });
                }
                for number in 1..=DATAGRAMS {
                    // So few at once that none is dropped.
                    while number - count.load(Ordering::Relaxed) > 60 || wire.waiting() > 60 {
                        std::thread::yield_now();
                    }
                    host.arrives(PEER, socket.at(OUR_IP), &number.to_be_bytes());
                }
            });
            assert_eq!(count.into_inner(), DATAGRAMS, "{mode:?}");
            assert_eq!(sum.into_inner(), DATAGRAMS * (DATAGRAMS + 1) / 2);
            let counted = socket.snapshot(&host).unwrap();
            assert_eq!(counted.rx_packets, DATAGRAMS, "{mode:?}");
            assert_eq!(counted.rx_bytes, DATAGRAMS * 8);
            assert_eq!(counted.rx_poll_hit, DATAGRAMS);
            assert_eq!(counted.rx_queue_packets, 0);
            assert_eq!(host.free_frames(), 256);
        }
    });
}

#[test]
fn each_datagram_is_sent_and_counted_once() {
    isolated(|| {
        for mode in MODES {
            let host = host(mode);
            let socket = host.any();
            let each = DATAGRAMS / 8;
            std::thread::scope(|scope| {
                for thread in 0..4u64 {
                    let socket = &socket;
                    scope.spawn(move || {
                        let mut peer = PEER;
                        for number in 0..each {
                            // Destinations come and go in the cache meanwhile.
                            peer.set_port(1000 + (number % 300) as u16);
                            let payload = (thread << 32 | number).to_be_bytes();
                            // While the network changes a datagram may be the kernel's to send.
                            let to_kernel = SendOutcome::Kernel(Reason::Route);
                            let mut outcome = to_kernel;
                            while outcome == to_kernel {
                                outcome = send(socket, Some(peer), &payload);
                            }
                            assert_eq!(outcome, SendOutcome::Done(8));
                        }
                    });
                }
                let host = &host;
                scope.spawn(move || {
                    for _ in 0..100 {
                        host.engine.network_changed(true);
                        std::thread::yield_now();
                    }
                });
            });
            let wire = host.device.wire(FIRST_LINK);
            let mut next = [0u64; 4];
            while let Some(frame) = wire.sent() {
                let payload = u64::from_be_bytes(frame[42..50].try_into().unwrap());
                let (thread, number) = ((payload >> 32) as usize, payload & 0xffff_ffff);
                assert_eq!(number, next[thread], "{mode:?}: in order");
                assert_eq!(frame[36..38], (1000 + (number % 300) as u16).to_be_bytes());
                next[thread] += 1;
            }
            assert_eq!(next, [each; 4], "{mode:?}");
            assert_eq!(socket.snapshot(&host).unwrap().tx_packets, each * 4);
        }
    });
}

#[test]
fn nothing_is_lost_or_doubled_when_a_socket_goes_back_to_the_kernel() {
    with_addresses(|| {
        let rounds = if cfg!(debug_assertions) { 60 } else { 400 };
        for round in 0..rounds {
            let host = host(MODES[round % 4]);
            let socket = host.any();
            for number in 0..100u8 {
                host.arrives(PEER, socket.at(OUR_IP), &[number]);
            }
            let received = Mutex::new(Vec::new());
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        loop {
                            let is_last = done.load(Ordering::Acquire);
                            match receive(&socket, libc::MSG_DONTWAIT) {
                                Ok(bytes) => received.lock().unwrap().push(bytes[0]),
                                Err(_) if is_last => return,
                                Err(_) => {}
                            }
                        }
                    });
                }
                // After some have been received.
                while received.lock().unwrap().len() < round % 50 {
                    std::thread::yield_now();
                }
                socket.set_option(libc::IPPROTO_UDP, libc::UDP_CORK, 1);
                done.store(true, Ordering::Release);
            });
            let mut received = received.into_inner().unwrap();
            received.sort_unstable();
            assert_eq!(received, (0..100).collect::<Vec<u8>>(), "round {round}");
        }
    });
}

#[test]
fn a_call_that_goes_to_the_kernel_never_misses_a_socket_that_becomes_ours() {
    isolated(|| {
        let host = host(ThreadMode::SpinLock);
        let interfaces = host.network.interfaces();
        let (mut to_kernel, mut ours) = (0, 0);
        let mut random = Random(5);
        let rounds = if cfg!(debug_assertions) { 3000 } else { 20_000 };
        for _ in 0..rounds {
            // A socket that cannot be accelerated, until an address comes.
            host.network.set_interfaces(Vec::new());
            host.engine.network_changed(true);
            let socket = host.any();
            host.network.set_interfaces(interfaces.clone());
            let (left, right) = (random.below(300), random.below(3000));
            let start = Barrier::new(2);
            let outcome = std::thread::scope(|scope| {
                let caller = scope.spawn(|| {
                    start.wait();
                    (0..right).for_each(|_| std::hint::spin_loop());
                    Receiving::begin(&socket, 0).attempt(&mut [0; 8])
                });
                start.wait();
                (0..left).for_each(|_| std::hint::spin_loop());
                host.engine.network_changed(true);
                caller.join().unwrap()
            });
            match outcome {
                RecvOutcome::Kernel => {
                    to_kernel += 1;
                    assert_ne!(socket.reason(), Reason::Offloaded, "nobody would wake it");
                }
                RecvOutcome::Sleep(sleep) => {
                    ours += 1;
                    sleep.end();
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(to_kernel > 0, "{to_kernel} {ours}");
    });
}
