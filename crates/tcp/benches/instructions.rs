//! Work whose instructions `cargo xtask instructions` counts with callgrind: `<program> CASE
//! ROUNDS`.
//!
//! Counted is what runs inside of [`counted`], which the name of the function tells callgrind; the
//! peer and all preparation are outside.

#![allow(clippy::print_stdout, reason = "the list of cases")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "the inputs are constants that fit"
)]

mod support;

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use support::{Frame, IRS, ISS, MEMORY};
use tcp::demux::Demux;
use tcp::timer_wheel::TimerWheel;
use tcp::{
    Config, Connection, Ecn, Flags, Header, Instant, Options, SeqNumber, SocketOption, Transmit,
};
use wire::tcp::{SackBlock, SackBlocks};

/// Full segments with timestamps over Ethernet.
const MSS: u16 = 1448;

type Case = (&'static str, fn(u32));

const CASES: [Case; 9] = [
    ("receive-and-ack", receive_and_ack),
    ("receive-read-ack", receive_read_ack),
    ("receive-ack-second", receive_ack_second),
    ("send", send),
    ("acknowledged", acknowledged),
    ("loss-per-segment", loss_per_segment),
    ("open-close", open_close),
    ("timer-rearm", timer_rearm),
    ("demux-look-up", demux_look_up),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().unwrap_or_default();
    let Some((_, work)) = CASES.iter().find(|(name, _)| *name == case) else {
        for (name, _) in CASES {
            println!("{name}");
        }
        return;
    };
    work(arguments.next().unwrap().parse().unwrap());
}

/// callgrind collects while it is in here.
#[inline(never)]
fn counted<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// An established connection and what the peer sends next.
struct Bench {
    connection: Connection<Frame>,
    now: Instant,
    transmit: Transmit,
    header: Header,
}

impl Bench {
    fn new(config: Config) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut options = Options::default();
        options.set(SocketOption::NoDelay(true)).unwrap();
        options.set(SocketOption::SendBuffer(1 << 20)).unwrap();
        Self {
            connection: support::established(now, Arc::new(config), options),
            now: now + Duration::from_micros(20),
            transmit: Transmit::default(),
            header: support::first_segment(),
        }
    }

    fn pass_micros(&mut self, micros: u64) {
        self.now = self.now + Duration::from_micros(micros);
    }

    /// A full segment in order arrives, is read, and its acknowledgement leaves, if it is to;
    /// counted. The number of acknowledgements.
    fn receive(&mut self) -> u32 {
        self.pass_micros(1);
        let acks = counted(|| {
            let frame = Some(Frame::new(MSS));
            self.connection
                .on_segment(self.now, &self.header, Ecn::NotEct, frame);
            black_box(self.connection.read_payload(self.now).unwrap());
            support::poll(&mut self.connection, self.now, &mut self.transmit, |_| {})
        });
        self.header.seq = self.header.seq.wrapping_add(u32::from(MSS));
        acks
    }

    fn write_and_send(&mut self, data: &[u8]) {
        let written = self.connection.write(self.now, data);
        assert_eq!(written, Ok(data.len()));
        let sent = support::poll(&mut self.connection, self.now, &mut self.transmit, |_| {});
        assert_eq!(sent, 1);
    }

    /// The acknowledgement of everything sent arrives.
    fn acknowledge(&mut self) {
        self.connection
            .on_segment(self.now, &self.header, Ecn::NotEct, None);
        support::poll(&mut self.connection, self.now, &mut self.transmit, |_| {});
    }
}

/// Acknowledges each segment at once.
fn quick_acks() -> Bench {
    Bench::new(Config {
        quick_acks: u8::MAX,
        ..Config::default()
    })
}

impl Bench {
    /// Grants quick acknowledgements again before they are used up.
    fn stay_quick(&mut self, round: u32) {
        if round.is_multiple_of(100) {
            let quick = SocketOption::QuickAck(true);
            self.connection.set_option(self.now, quick).unwrap();
        }
    }
}

fn receive_and_ack(rounds: u32) {
    let mut bench = quick_acks();
    for round in 0..rounds {
        bench.stay_quick(round);
        bench.pass_micros(1);
        let has_ack = counted(|| {
            let frame = Some(Frame::new(MSS));
            bench
                .connection
                .on_segment(bench.now, &bench.header, Ecn::NotEct, frame);
            bench
                .connection
                .poll_transmit(bench.now, &mut bench.transmit)
        });
        assert!(has_ack);
        bench.header.seq = bench.header.seq.wrapping_add(u32::from(MSS));
        bench.connection.read_payload(bench.now).unwrap();
        support::poll(
            &mut bench.connection,
            bench.now,
            &mut bench.transmit,
            |_| {},
        );
    }
}

fn receive_read_ack(rounds: u32) {
    let mut bench = quick_acks();
    for round in 0..rounds {
        bench.stay_quick(round);
        assert_eq!(bench.receive(), 1);
    }
}

fn receive_ack_second(rounds: u32) {
    let mut bench = Bench::new(Config::default());
    for _ in 0..100 {
        bench.receive();
    }
    let mut acks = 0;
    for _ in 0..rounds {
        acks += bench.receive();
    }
    assert_eq!(acks, rounds / 2);
}

fn send(rounds: u32) {
    let mut bench = Bench::new(Config::default());
    for _ in 0..rounds {
        bench.pass_micros(1);
        counted(|| bench.write_and_send(&MEMORY[..64]));
        bench.header.ack = bench.header.ack.wrapping_add(64);
        bench.acknowledge();
    }
}

fn acknowledged(rounds: u32) {
    let mut bench = Bench::new(Config::default());
    for _ in 0..rounds {
        bench.pass_micros(1);
        bench.write_and_send(&MEMORY[..64]);
        bench.header.ack = bench.header.ack.wrapping_add(64);
        counted(|| bench.acknowledge());
    }
}

/// Of each flight the first segment is lost and the others are reported by SACK until the
/// retransmission arrives. Not counted: writing.
fn loss_per_segment(rounds: u32) {
    const FLIGHT: u32 = 20;
    let mut bench = Bench::new(Config::default());
    let data = vec![0x5a; (FLIGHT * u32::from(MSS)) as usize];
    let mut transfer = || {
        let start = SeqNumber(bench.header.ack);
        let end = start + FLIGHT * u32::from(MSS);
        // Begin and end of each segment on its way.
        let mut flight = Vec::new();
        bench.pass_micros(100);
        let written = bench.connection.write(bench.now, &data);
        assert_eq!(written, Ok(data.len()));
        let mut highest = start;
        let mut is_lost = false;
        loop {
            counted(|| {
                support::poll(
                    &mut bench.connection,
                    bench.now,
                    &mut bench.transmit,
                    |transmit| {
                        let seq = SeqNumber(transmit.header.seq);
                        flight.push((seq, seq + transmit.payload_len));
                    },
                );
            });
            if flight.is_empty() {
                bench.now = bench.connection.poll_timeout().unwrap();
                counted(|| bench.connection.on_timeout(bench.now));
                continue;
            }
            let (seq, segment_end) = flight.remove(0);
            bench.pass_micros(10);
            if seq == start && !is_lost {
                is_lost = true;
                continue;
            }
            highest = highest.max(segment_end);
            bench.header.options.sack = SackBlocks::default();
            if seq == start {
                bench.header.ack = highest.0;
            } else if bench.header.ack == start.0 {
                let block = SackBlock {
                    left: start.0.wrapping_add(u32::from(MSS)),
                    right: highest.0,
                };
                bench.header.options.sack = std::iter::once(block).collect();
            } else {
                bench.header.ack = highest.0;
            }
            counted(|| {
                bench
                    .connection
                    .on_segment(bench.now, &bench.header, Ecn::NotEct, None);
            });
            if bench.header.ack == end.0 {
                break;
            }
        }
        // The next flight's window is the usual one again.
        for _ in 0..20 {
            bench.pass_micros(100);
            bench.write_and_send(&data[..usize::from(MSS)]);
            bench.header.options.sack = SackBlocks::default();
            bench.header.ack = bench.header.ack.wrapping_add(u32::from(MSS));
            bench.acknowledge();
        }
    };
    for _ in 0..rounds / FLIGHT {
        transfer();
    }
}

/// A connection is made, sends and receives nothing, and is closed by this side first.
fn open_close(rounds: u32) {
    let config = Arc::new(Config::default());
    let mut transmit = Transmit::default();
    let now = Instant::from_nanos(1_000_000_000);
    for _ in 0..rounds {
        let config = config.clone();
        let fin = Header {
            ack: ISS.0 + 2,
            seq: IRS + 1,
            flags: Flags::FIN | Flags::ACK,
            ..support::first_segment()
        };
        counted(|| {
            let mut connection = support::established(now, config, Options::default());
            connection.close(now);
            support::poll(&mut connection, now, &mut transmit, |_| {});
            connection.on_segment(now, &fin, Ecn::NotEct, None);
            support::poll(&mut connection, now, &mut transmit, |_| {});
            assert_eq!(connection.state(), tcp::State::TimeWait);
        });
    }
}

/// The retransmission timer of one of many connections moves on.
fn timer_rearm(rounds: u32) {
    const TIMERS: u32 = 1000;
    let mut now = Instant::ZERO;
    let mut wheel = TimerWheel::new(Duration::from_millis(1), now);
    for id in 0..TIMERS {
        wheel.arm(id, now + Duration::from_millis(200));
    }
    for round in 0..rounds {
        now = now + Duration::from_micros(3);
        let id = round * 7 % TIMERS;
        counted(|| {
            wheel.arm(id, now + Duration::from_millis(200));
            black_box(wheel.poll(now));
        });
    }
}

fn demux_look_up(rounds: u32) {
    const CONNECTIONS: u32 = 1000;
    let local: SocketAddr = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443).into();
    let remote = |index: u32| -> SocketAddr {
        let ip = Ipv4Addr::from_bits(0x0a00_0000 | index);
        SocketAddrV4::new(ip, 40_000).into()
    };
    let mut demux = Demux::new([0x5a; 16]);
    for index in 0..CONNECTIONS {
        demux.insert(local, remote(index), index).unwrap();
    }
    for round in 0..rounds {
        let index = round * 7 % CONNECTIONS;
        let remote = remote(index);
        assert_eq!(counted(|| demux.connection(local, remote)), Some(index));
    }
}
