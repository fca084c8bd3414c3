//! Nanoseconds per segment of a connection, headers as values (no parsing): `cargo bench -p tcp --bench connection`.

#![allow(clippy::print_stdout, reason = "the report of a benchmark")]
#![allow(clippy::unwrap_used, reason = "the connections are our own")]

mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use support::{Frame, MEMORY, established, first_segment};
use tcp::{Config, Connection, Ecn, Header, Instant, Options, Transmit};

/// A connection whose peer is played.
struct Bench {
    connection: Connection<Frame>,
    now: Instant,
    transmit: Transmit,
    /// The next segment from the peer.
    header: Header,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut connection = established(now, Arc::new(Config::default()), Options::default());
        connection
            .set_option(now, tcp::SocketOption::NoDelay(true))
            .unwrap();
        let mut bench = Self {
            connection,
            now: now + Duration::from_millis(1),
            transmit: Transmit::default(),
            header: first_segment(),
        };
        bench.poll();
        bench
    }

    fn poll(&mut self) -> u32 {
        support::poll(&mut self.connection, self.now, &mut self.transmit, |_| {})
    }

    /// A segment in order arrives, is read, and its acknowledgement leaves (every second one has
    /// one).
    #[inline(never)]
    fn receive_round(&mut self, len: u16) {
        self.now = self.now + Duration::from_micros(1);
        let frame = Frame::new(len);
        self.connection
            .on_segment(self.now, &self.header, Ecn::NotEct, Some(frame));
        self.header.seq = self.header.seq.wrapping_add(u32::from(len));
        black_box(self.connection.read_payload(self.now).unwrap());
        self.poll();
    }

    /// Data is written and leaves as one segment.
    #[inline(never)]
    fn send_round(&mut self, data: &[u8]) {
        self.now = self.now + Duration::from_micros(1);
        assert_eq!(self.connection.write(self.now, data), Ok(data.len()));
        assert_eq!(self.poll(), 1);
    }

    /// The acknowledgement of everything sent arrives.
    #[inline(never)]
    fn acknowledge_round(&mut self, octets: u32) {
        self.header.ack = self.header.ack.wrapping_add(octets);
        self.connection
            .on_segment(self.now, &self.header, Ecn::NotEct, None);
        self.poll();
    }
}

fn main() {
    println!(
        "size of a connection: {} octets",
        size_of::<Connection<Frame>>()
    );
    let mut bench = Bench::new();
    report("data segment in order, its share of ACKs, read", || {
        bench.receive_round(1448);
    });
    report("the same, 64 octets", || bench.receive_round(64));
    let mut bench = Bench::new();
    report("write, segment, its ACK: 64 octets", || {
        bench.send_round(&MEMORY[..64]);
        bench.acknowledge_round(64);
    });
    report("write, segment, its ACK: 1448 octets", || {
        bench.send_round(&MEMORY[..1448]);
        bench.acknowledge_round(1448);
    });
    report_send("write, segment: 64 octets", &MEMORY[..64]);
    report_send("write, segment: 1448 octets", &MEMORY[..1448]);
}

/// Prints the fastest of several runs: the others were disturbed by something else on the machine.
fn report(name: &str, mut round: impl FnMut()) {
    const ROUNDS: u32 = 100_000;
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = std::time::Instant::now();
        for _ in 0..ROUNDS {
            round();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
    }
    println!("{name:50} {best:8.1} ns");
}

/// The same of sending alone: ten segments, as the first congestion window lets go, are measured
/// together; the ACK of them is not.
fn report_send(name: &str, data: &[u8]) {
    const SEGMENTS: u16 = 10;
    const BATCHES: u32 = 10_000;
    let mut bench = Bench::new();
    let octets = u32::try_from(data.len()).unwrap() * u32::from(SEGMENTS);
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let mut elapsed = Duration::ZERO;
        for _ in 0..BATCHES {
            let start = std::time::Instant::now();
            for _ in 0..SEGMENTS {
                bench.send_round(data);
            }
            elapsed += start.elapsed();
            bench.acknowledge_round(octets);
        }
        let nanos = elapsed.as_secs_f64() * 1e9 / f64::from(BATCHES);
        best = best.min(nanos / f64::from(SEGMENTS));
    }
    println!("{name:50} {best:8.1} ns");
}
