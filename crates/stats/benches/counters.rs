//! What counting costs: `cargo bench -p stats --bench counters`.
//!
//! Prints one line of JSON a case: the time of one update, the median over batches. Counters are
//! those of a published segment. Where two threads count, each update is one of each thread's, and
//! the time that of the slower one.

#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use stats::{Capacity, Identity, MultiplexerSlot, Segment, Shares, SocketSlot};

const UPDATES: u32 = 1_000_000;
const BATCHES: usize = 25;
const CAPACITY: Capacity = Capacity {
    sockets: 2,
    connections: 2,
    rings: 1,
    pools: 1,
    reasons: 1,
    settings: 1,
    rules: 1,
};

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let identity = Identity::of_this_process("bench");
    let segment = Segment::create(dir.path(), &identity, CAPACITY).expect("a segment");
    let socket = segment.claim_socket();
    let calls = segment.claim_multiplexer();

    show("counter: one thread", 1, || {
        batch(|| socket.rx_packets.add(1))
    });
    show("counter: any thread", 1, || {
        batch(|| socket.rx_os_packets.add_contended(1))
    });
    show("level: rises and falls", 2, || {
        batch(|| {
            socket.rx_queue_packets.add(1);
            socket.rx_queue_packets.subtract(1);
        })
    });
    show("most: seldom raised", 1, || {
        batch(|| socket.rx_queue_packets_max.raise_to(black_box(5)))
    });
    show("histogram: a time", 1, || {
        batch(|| socket.rx_latency.record(black_box(380)))
    });
    show("message: received", 7, || batch(|| message(&socket)));
    show("call: one thread", 2, || threads(1, &calls, own));
    show("call: two threads", 2, || threads(2, &calls, own));
    show("call: two threads on one line", 2, || {
        threads(2, &calls, together)
    });
}

/// What a received message counts.
fn message(socket: &SocketSlot) {
    socket.rx_queue_packets.add(1);
    socket.rx_queue_bytes.add(64);
    socket.rx_queue_packets.subtract(1);
    socket.rx_queue_bytes.subtract(64);
    socket.rx_packets.add(1);
    socket.rx_bytes.add(64);
    socket.rx_poll_hit.add(1);
}

/// As `poll(2)` counts: each thread in its share.
fn own(calls: &MultiplexerSlot, shares: &Shares, token: usize) {
    let share = shares.of_thread(token);
    let counters = &calls.shares[share.index()];
    share.add(&counters.rx_ready, 1);
    share.add(&counters.poll_hit, 1);
}

/// All threads in one share.
fn together(calls: &MultiplexerSlot, _: &Shares, _: usize) {
    let [counters, ..] = &calls.shares;
    counters.rx_ready.add_contended(1);
    counters.poll_hit.add_contended(1);
}

/// Nanoseconds of a call of the slowest thread.
fn threads(
    count: usize,
    calls: &MultiplexerSlot,
    update: fn(&MultiplexerSlot, &Shares, usize),
) -> f64 {
    let (shares, begin) = (Shares::new(), Barrier::new(count));
    let (shares, begin) = (&shares, &begin);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=count)
            .map(|thread| {
                scope.spawn(move || {
                    // As addresses of threads' own memory are.
                    let token = black_box(0x7f00_0000_0000 + thread * 0x80_1000);
                    begin.wait();
                    batch(|| update(calls, shares, token))
                })
            })
            .collect();
        let times = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        times.fold(0.0, f64::max)
    })
}

/// Nanoseconds of one call.
fn batch(mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..UPDATES {
        call();
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(UPDATES)
}

/// The median of the batches, by the updates that a call has.
fn show(name: &str, updates: u32, mut batch: impl FnMut() -> f64) {
    batch();
    let mut times: Vec<f64> = (0..BATCHES).map(|_| batch()).collect();
    times.sort_by(f64::total_cmp);
    let nsec = times[BATCHES / 2] / f64::from(updates);
    println!("{{\"name\":\"{name}\",\"nsec\":{nsec:.2}}}");
}
