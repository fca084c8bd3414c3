//! What the send queue costs: nanoseconds for each full segment of a bulk transfer, the longest
//! write, and memory. `cargo bench -p tcp --bench send_queue`

#![allow(clippy::print_stdout, reason = "the report of a benchmark")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "the inputs are constants that fit"
)]

#[allow(dead_code, reason = "other benchmarks receive")]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use support::{Frame, established, first_segment};
use tcp::{
    Config, CongestionAlgorithm, Connection, Ecn, Header, Instant, Options, SocketOption, Transmit,
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn main() {
    println!("write, segment, its copy into a frame, half an ACK:");
    for (octets, queued) in [
        (64, 64),
        (1448, 1448),
        (16 * KIB, 64 * KIB),
        (64 * KIB, 256 * KIB),
        (64 * KIB, 4 * MIB),
    ] {
        bulk(octets, queued);
    }
    for octets in [64 * KIB, 256 * KIB] {
        blocks(octets);
    }
    println!("writes of 64 KiB until 4 MiB wait:");
    longest_write();
    println!("memory of a connection beside itself:");
    memory();
}

/// A connection whose peer is played, with all window that it could want.
struct Bench {
    connection: Connection<Frame>,
    now: Instant,
    transmit: Transmit,
    header: Header,
    /// Where the segments end that are not acknowledged.
    flight: VecDeque<u32>,
    frame: [u8; 2048],
    data: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut options = Options::default();
        for option in [
            SocketOption::NoDelay(true),
            SocketOption::Congestion(CongestionAlgorithm::None),
            SocketOption::SendBuffer(u32::try_from(8 * MIB).unwrap()),
        ] {
            options.set(option).unwrap();
        }
        let mut bench = Self {
            connection: established(now, Arc::new(Config::default()), options),
            now,
            transmit: Transmit::default(),
            header: first_segment(),
            flight: VecDeque::with_capacity(8 * KIB),
            frame: [0; 2048],
            data: vec![0x5a; 64 * KIB],
        };
        // The SYN's window is not scaled.
        bench.acknowledge(0);
        bench
    }

    fn write(&mut self, octets: usize) {
        self.now = self.now + Duration::from_micros(1);
        let written = self.connection.write(self.now, &self.data[..octets]);
        assert_eq!(written, Ok(octets));
    }

    /// In writes of 64 KiB.
    fn write_all(&mut self, octets: usize) {
        let mut left = octets;
        while left > 0 {
            let len = left.min(64 * KIB);
            self.write(len);
            left -= len;
        }
    }

    /// Everything is written, then sent, then acknowledged; returns the number of segments.
    fn transfer(&mut self, octets: usize) -> u32 {
        self.write_all(octets);
        let count = self.send();
        self.acknowledge_all();
        count
    }

    /// Sends everything that can go, as a driver copies it into its frames.
    fn send(&mut self) -> u32 {
        let mut count = 0;
        while self.connection.poll_transmit(self.now, &mut self.transmit) {
            let mut at = 0;
            for piece in self.connection.payload(&self.transmit) {
                self.frame[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
            black_box(&mut self.frame);
            if at > 0 {
                let start = self.transmit.header.seq;
                self.flight.push_back(start.wrapping_add(at as u32));
                count += 1;
            }
        }
        while self.connection.poll_event().is_some() {}
        count
    }

    /// The oldest `count` segments are acknowledged.
    fn acknowledge(&mut self, count: usize) {
        for _ in 0..count {
            self.header.ack = self.flight.pop_front().unwrap();
        }
        self.now = self.now + Duration::from_micros(1);
        self.connection
            .on_segment(self.now, &self.header, Ecn::NotEct, None);
    }

    fn acknowledge_all(&mut self) {
        while !self.flight.is_empty() {
            self.acknowledge(self.flight.len().min(2));
        }
    }
}

/// Writes of `octets` as soon as there is room for them among `queued`, and every second segment is
/// acknowledged.
fn bulk(octets: usize, queued: usize) {
    let mut bench = Bench::new();
    let mut fastest = f64::INFINITY;
    for _ in 0..40 {
        let started = std::time::Instant::now();
        let mut segments = 0;
        while segments < 20_000 {
            while bench.connection.unacknowledged_len() + octets <= queued {
                bench.write(octets);
                segments += bench.send();
            }
            bench.acknowledge(bench.flight.len().min(2));
        }
        let nanos = started.elapsed().as_secs_f64() * 1e9 / f64::from(segments);
        fastest = fastest.min(nanos);
    }
    println!("  {octets:>6} octets a write, {queued:>8} queued: {fastest:8.1} ns");
}

/// Nothing is written before all that was written is acknowledged.
fn blocks(octets: usize) {
    let mut bench = Bench::new();
    let mut fastest = f64::INFINITY;
    for _ in 0..40 {
        let started = std::time::Instant::now();
        let mut segments = 0;
        while segments < 20_000 {
            segments += bench.transfer(octets);
        }
        let nanos = started.elapsed().as_secs_f64() * 1e9 / f64::from(segments);
        fastest = fastest.min(nanos);
    }
    println!("  {octets:>6} octets, all acknowledged before the next: {fastest:8.1} ns");
}

fn longest_write() {
    let mut longest = Duration::MAX;
    let mut total = Duration::MAX;
    for _ in 0..20 {
        let mut bench = Bench::new();
        let mut worst = Duration::ZERO;
        let mut sum = Duration::ZERO;
        while bench.connection.unacknowledged_len() < 4 * MIB {
            let started = std::time::Instant::now();
            bench.write(64 * KIB);
            let elapsed = started.elapsed();
            worst = worst.max(elapsed);
            sum += elapsed;
        }
        longest = longest.min(worst);
        total = total.min(sum);
    }
    println!("  the longest took {longest:?}, all together {total:?}");
}

fn memory() {
    let row = |name: &str, work: &dyn Fn(&mut Bench)| {
        let mut bench = Bench::new();
        bench.connection.shrink();
        let before = ALLOCATED.load(Relaxed);
        work(&mut bench);
        let after = ALLOCATED.load(Relaxed);
        println!("  {name:40} {:>9} octets", after.saturating_sub(before));
    };
    row("64 octets written", &|bench| bench.write(64));
    row("64 octets sent and acknowledged", &|bench| {
        bench.transfer(64);
    });
    row("64 KiB sent and acknowledged", &|bench| {
        bench.transfer(64 * KIB);
    });
    row("4 MiB written, not sent", &|bench| bench.write_all(4 * MIB));
    row("4 MiB sent and acknowledged", &|bench| {
        bench.transfer(4 * MIB);
    });
    row("the same, after `shrink`", &|bench| {
        bench.transfer(4 * MIB);
        bench.connection.shrink();
    });
}

/// Counts what is allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}
