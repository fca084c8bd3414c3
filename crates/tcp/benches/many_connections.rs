//! What a connection costs when there are a million: octets each, and nanoseconds for a segment and its ACK.
//! `cargo bench -p tcp --bench many_connections [-- COUNT]`
//!
//! Connections are held as a driver holds them: in one array, with a table of flows and a wheel of timers (keep-alive is on, so
//! that each has one). A segment's connection is looked up; it takes the segment, which is read; the ACK leaves; the timer is
//! armed anew. Segments come in bursts as from a device's ring, whose preparation is not measured.

#![allow(clippy::print_stdout, reason = "the report of a benchmark")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the inputs are constants that fit"
)]

mod support;

use std::fs;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use support::{Frame, IRS};
use tcp::demux::Demux;
use tcp::timer_wheel::TimerWheel;
use tcp::{Config, Connection, Ecn, Header, Instant, Options, SocketOption, Transmit};

const MANY: u32 = 1_000_000;
const FEW: u32 = 10;
const PAYLOAD_LEN: u16 = 64;
/// Segments that a driver takes from the device at once.
const BURST: usize = 64;
const CACHE_LINE: usize = 64;

fn main() {
    // cargo itself gives `--bench`.
    let many = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let many: u32 = many.unwrap_or(MANY);
    println!(
        "size of a connection: {} octets",
        size_of::<Connection<Frame>>()
    );

    let mut few = Driver::new(FEW);
    let base = report(
        "10 connections, all busy",
        &mut few,
        FEW,
        Fetch::Later,
        None,
    );
    drop(few);

    let before = resident();
    let mut driver = Driver::new(many);
    let octets = resident().saturating_sub(before);
    println!(
        "{many} connections: {} MiB, {} octets each, all in",
        octets >> 20,
        octets / u64::from(many)
    );
    let base = Some(base);
    report(
        "10 busy, the others idle",
        &mut driver,
        FEW,
        Fetch::Later,
        base,
    );
    report("any of all", &mut driver, many, Fetch::Later, base);
    report(
        "any of all, a burst is fetched ahead",
        &mut driver,
        many,
        Fetch::Ahead,
        base,
    );
    memory(&mut driver, many);
    let octets = resident().saturating_sub(before);
    println!(
        "after that: {} MiB, {} octets each",
        octets >> 20,
        octets / u64::from(many)
    );
}

/// Whether the memory of a burst's connections is asked for before the first segment is processed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fetch {
    Later,
    Ahead,
}

struct Driver {
    connections: Vec<Connection<Frame>>,
    flows: Demux,
    timers: TimerWheel,
    now: Instant,
    transmit: Transmit,
    /// The peers' next sequence numbers.
    peers: Vec<u32>,
    random: Random,
    /// Acknowledgements that left.
    acks: u64,
}

/// A segment in the device's ring.
struct Arrival {
    remote: SocketAddr,
    header: Header,
}

impl Driver {
    fn new(count: u32) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let config = Arc::new(Config {
            quick_acks: u8::MAX,
            ..Config::default()
        });
        let mut options = Options::default();
        options.set(SocketOption::KeepAlive(true)).unwrap();
        let mut driver = Self {
            connections: Vec::with_capacity(count as usize),
            flows: Demux::new([0x5a; 16]),
            timers: TimerWheel::new(Duration::from_millis(1), now),
            now,
            transmit: Transmit::default(),
            peers: vec![IRS + 1; count as usize],
            random: Random(1),
            acks: 0,
        };
        ask_for_huge_pages(&driver.connections);
        for index in 0..count {
            let mut connection = support::established(now, config.clone(), options.clone());
            connection.shrink();
            driver.flows.insert(local(), remote(index), index).unwrap();
            driver.timers.arm(index, connection.poll_timeout().unwrap());
            driver.connections.push(connection);
        }
        driver
    }

    /// The next burst, for random ones of `busy` connections, spread evenly over all of them.
    fn burst(&mut self, busy: u32) -> Vec<Arrival> {
        let stride = self.connections.len() as u32 / busy;
        (0..BURST)
            .map(|_| {
                let index = self.random.below(busy) * stride;
                let peer = &mut self.peers[index as usize];
                let header = Header {
                    seq: *peer,
                    ..support::first_segment()
                };
                *peer = peer.wrapping_add(u32::from(PAYLOAD_LEN));
                Arrival {
                    remote: remote(index),
                    header,
                }
            })
            .collect()
    }

    /// Everything that a burst costs, but for the device.
    #[inline(never)]
    fn process(&mut self, burst: &[Arrival], fetch: Fetch) {
        self.now = self.now + Duration::from_micros(1);
        if fetch == Fetch::Later {
            for arrival in burst {
                let index = self.flows.connection(local(), arrival.remote).unwrap();
                self.receive(index, &arrival.header);
            }
            return;
        }
        // What is behind the look-ups is read for all at once; in `receive` one would wait for the other.
        let mut indices = [0; BURST];
        for (index, arrival) in indices.iter_mut().zip(burst) {
            *index = self.flows.connection(local(), arrival.remote).unwrap();
        }
        for index in indices {
            prefetch(&self.connections[index as usize]);
            black_box(self.timers.is_armed(index));
        }
        for (index, arrival) in indices.into_iter().zip(burst) {
            self.receive(index, &arrival.header);
        }
    }

    fn receive(&mut self, index: u32, header: &Header) {
        let connection = &mut self.connections[index as usize];
        let frame = Some(Frame::new(PAYLOAD_LEN));
        connection.on_segment(self.now, header, Ecn::NotEct, frame);
        black_box(connection.read_payload(self.now).unwrap());
        let acks = support::poll(connection, self.now, &mut self.transmit, |_| {});
        self.acks += u64::from(acks);
        if let Some(at) = connection.poll_timeout() {
            self.timers.arm(index, at);
        }
    }

    /// Delayed acknowledgements would be fewer; each segment is to have its own.
    fn stay_quick(&mut self, busy: u32) {
        let stride = self.connections.len() / busy as usize;
        for connection in self.connections.iter_mut().step_by(stride) {
            let quick = SocketOption::QuickAck(true);
            connection.set_option(self.now, quick).unwrap();
        }
    }
}

/// Prints what the best tenth of many short runs takes at most (the others were disturbed by something else on the machine), and
/// how many times `base` that is; returns it, in nanoseconds a segment.
fn report(name: &str, driver: &mut Driver, busy: u32, fetch: Fetch, base: Option<f64>) -> f64 {
    const RUNS: usize = 2000;
    const BURSTS: usize = 20;
    let mut nanos = Vec::new();
    driver.acks = 0;
    for run in 0..RUNS {
        // A connection gets 128 segments on the average in a run if there are few.
        if busy <= FEW || run == 0 {
            driver.stay_quick(busy);
        }
        let bursts: Vec<_> = (0..BURSTS).map(|_| driver.burst(busy)).collect();
        let start = std::time::Instant::now();
        for burst in &bursts {
            driver.process(burst, fetch);
        }
        let elapsed = start.elapsed().as_secs_f64() * 1e9;
        nanos.push(elapsed / (BURSTS * BURST) as f64);
    }
    assert_eq!(
        driver.acks,
        (RUNS * BURSTS * BURST) as u64,
        "an ACK for each segment"
    );
    nanos.sort_by(f64::total_cmp);
    let quick = nanos[RUNS / 10];
    let factor = base.map_or_else(String::new, |base| format!("{:6.2} times", quick / base));
    println!("{name:40} {quick:8.1} ns a segment {factor}");
    quick
}

/// What the machine's memory makes of one cache line of any connection: the yardstick of the numbers above.
fn memory(driver: &mut Driver, many: u32) {
    const READS: u32 = 1_000_000;
    for (name, is_chained) in [("each after the other", true), ("all at once", false)] {
        let start = std::time::Instant::now();
        let mut previous = 0;
        for _ in 0..READS {
            let index = driver.random.below(many) ^ previous;
            let state = black_box(&driver.connections[index as usize]).state();
            // Nought, which the processor cannot know before the line is there.
            let zero = black_box(u32::from(state == tcp::State::Closed));
            previous = if is_chained { zero } else { 0 };
        }
        let nanos = start.elapsed().as_secs_f64() * 1e9 / f64::from(READS);
        println!("one line of any connection, {name:20} {nanos:8.1} ns");
    }
}

fn local() -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443).into()
}

fn remote(index: u32) -> SocketAddr {
    let ip = Ipv4Addr::from_bits(0x0a00_0000 | index >> 5);
    SocketAddrV4::new(ip, 32_768 + (index & 31) as u16).into()
}

/// Octets of memory that the process really has.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// With pages of 4 KiB, most of what a random connection costs would be the look-up of its page's address.
fn ask_for_huge_pages(connections: &Vec<Connection<Frame>>) {
    let len = connections.capacity() * size_of::<Connection<Frame>>();
    let start = connections.as_ptr() as usize;
    let aligned = start.next_multiple_of(HUGE_PAGE);
    if let Some(len) = (start + len).checked_sub(aligned) {
        let start = aligned as *mut libc::c_void;
        // SAFETY: the range is inside of the array's memory, and the advice does not change what is there.
        unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
    }
}

const HUGE_PAGE: usize = 2 << 20;

/// Asks for all cache lines of a connection.
#[cfg(target_arch = "x86_64")]
fn prefetch(connection: &Connection<Frame>) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let start = std::ptr::from_ref(connection).cast::<i8>();
    for offset in (0..size_of::<Connection<Frame>>()).step_by(CACHE_LINE) {
        // SAFETY: a prefetch of any address does nothing that a program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset)) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(connection: &Connection<Frame>) {
    black_box(connection.state());
}

/// A linear congruential generator (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}
