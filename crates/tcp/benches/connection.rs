//! Nanoseconds per segment of a connection, headers as values (no parsing): `cargo bench -p tcp --bench connection`.
//!
//! With `--instructions N` nothing is timed: N rounds of receiving and N of sending run, for callgrind:
//! `valgrind --tool=callgrind --toggle-collect='*receive_round*' <binary> --instructions 10000`.

#![allow(clippy::print_stdout, reason = "the report of a benchmark")]
#![allow(clippy::unwrap_used, reason = "the connections are our own")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use tcp::{
    Config, Connection, Ecn, Flags, Header, Instant, Options, Path, Payload, Secrets, SeqNumber,
    Transmit,
};
use wire::tcp::{Options as HeaderOptions, Timestamps};

/// A handle on octets that are somewhere else, as in the engine.
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: u16,
    len: u16,
}

static MEMORY: [u8; 2048] = [0x5a; 2048];

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &MEMORY[usize::from(self.start)..usize::from(self.start) + usize::from(self.len)]
    }
}

impl Payload for Frame {
    fn trim_front(&mut self, count: usize) {
        let count = u16::try_from(count).unwrap().min(self.len);
        self.start += count;
        self.len -= count;
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u16::try_from(len).unwrap());
    }

    fn footprint(&self) -> usize {
        2048
    }

    fn try_append(&mut self, _octets: &[u8]) -> bool {
        false
    }
}

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
        let mut connection = Connection::connect(
            now,
            Arc::new(Config::default()),
            Options::default(),
            Path::ipv4(1500),
            Secrets {
                iss: SeqNumber(1000),
                timestamp_offset: 0,
            },
        );
        let mut transmit = Transmit::default();
        assert!(connection.poll_transmit(now, &mut transmit));
        let mut header = Header {
            seq: 5000,
            ack: 1001,
            flags: Flags::SYN | Flags::ACK,
            window: 65_535,
            urgent: 0,
            options: HeaderOptions {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some(Timestamps {
                    value: 1,
                    echo: 1000,
                }),
                ..HeaderOptions::default()
            },
        };
        connection.on_segment(now, &header, Ecn::NotEct, None);
        header = Header {
            seq: 5001,
            flags: Flags::ACK,
            options: HeaderOptions {
                timestamps: Some(Timestamps {
                    value: 1,
                    echo: 1000,
                }),
                ..HeaderOptions::default()
            },
            ..header
        };
        connection
            .set_option(now, tcp::SocketOption::NoDelay(true))
            .unwrap();
        let mut bench = Self {
            connection,
            now,
            transmit,
            header,
        };
        bench.poll();
        bench
    }

    fn poll(&mut self) -> usize {
        let mut count = 0;
        while self.connection.poll_transmit(self.now, &mut self.transmit) {
            black_box(&self.transmit);
            count += 1;
        }
        while self.connection.poll_event().is_some() {}
        black_box(self.connection.poll_timeout());
        count
    }

    /// A segment in order arrives, is read, and its acknowledgement leaves (every second one has one).
    #[inline(never)]
    fn receive_round(&mut self, len: u16) {
        self.now = self.now + Duration::from_micros(1);
        let frame = Frame { start: 100, len };
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
        assert_eq!(self.connection.write(self.now, data, false), Ok(data.len()));
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
    let mut arguments = std::env::args().skip_while(|argument| argument != "--instructions");
    if let Some(rounds) = arguments.nth(1) {
        let rounds: u32 = rounds.parse().unwrap();
        let mut bench = Bench::new();
        for _ in 0..rounds {
            bench.receive_round(1448);
        }
        for _ in 0..rounds {
            bench.send_round(&MEMORY[..64]);
            bench.acknowledge_round(64);
        }
        return;
    }
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
    let mut bench = Bench::new();
    report("ten segments and one ACK, per segment", || {
        for _ in 0..10 {
            bench.send_round(&MEMORY[..64]);
        }
        bench.acknowledge_round(640);
    });
}

/// Prints the fastest of several runs: the others were disturbed by something else on the machine.
fn report(name: &str, mut round: impl FnMut()) {
    const ROUNDS: u32 = 100_000;
    let per_round = if name.starts_with("ten") { 10.0 } else { 1.0 };
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = std::time::Instant::now();
        for _ in 0..ROUNDS {
            round();
        }
        let nanos = start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS);
        best = best.min(nanos / per_round);
    }
    println!("{name:50} {best:8.1} ns");
}
