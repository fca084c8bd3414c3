//! What a connection costs when there are a million: octets each, and nanoseconds for a segment and
//! its ACK. `cargo bench -p tcp --bench many_connections [-- COUNT]`
//!
//! Connections are held as a driver holds them: in one array, with a table of flows and a wheel of
//! timers (keep-alive is on, so that each has one). A segment's connection is looked up; it takes
//! the segment, which is read; the ACK leaves; the timer is armed if it must be earlier. In the
//! rows of sending the segment is an ACK, and as much as it acknowledges is written and leaves.
//! Segments come in bursts as from a device's ring, whose preparation is not measured.
//!
//! What a million cost is compared with what ten cost in the same order, since a driver has one
//! code path, which does not know how many connections there are. Both are measured in turn: the
//! machine's speed changes from minute to minute. Looking up a burst at once gains nothing among
//! ten; the rows of ten one by one show what it costs them.

#![allow(clippy::print_stdout, reason = "the report of a benchmark")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the inputs are constants that fit"
)]

#[path = "support/flows.rs"]
mod flows;
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Duration;

use dev_core::prefetch_early;
use flows::{Random, local, remote};
use support::{Frame, IRS, ISS, MEMORY};
use tcp::demux::{Burst, Demux, in_turn};
use tcp::timer_wheel::TimerWheel;
use tcp::{Config, Connection, Direction, Ecn, Header, Instant, Options, SocketOption, Transmit};

const MANY: u32 = 1_000_000;
const FEW: u32 = 10;
const PAYLOAD_LEN: u16 = 64;
/// Segments that a driver takes from the device at once.
const BURST: usize = 64;

fn main() {
    // cargo itself gives `--bench`.
    let many = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let many: u32 = many.unwrap_or(MANY);
    println!(
        "size of a connection: {} octets, of which a segment touches {} lines",
        size_of::<Connection<Frame>>(),
        Driver::new(1).connections[0]
            .lines(Direction::Receive, 0)
            .count(),
    );
    let mut few = Driver::new(FEW);
    for (name, advice) in [
        ("pages of 4 KiB", libc::MADV_NOHUGEPAGE),
        ("pages of 2 MiB", libc::MADV_HUGEPAGE),
    ] {
        ADVICE.store(advice, Relaxed);
        // SAFETY: gives back to the kernel what is free, here of the connections before.
        unsafe { libc::malloc_trim(0) };
        let before = resident();
        let mut driver = Driver::new(many);
        let octets = || resident().saturating_sub(before);
        let each = |octets: u64| octets / u64::from(many);
        println!(
            "{many} connections, {name}: {} MiB, {} octets each, all in",
            octets() >> 20,
            each(octets())
        );
        for work in [Direction::Receive, Direction::Send] {
            (few.work, driver.work) = (work, work);
            let direction = if work == Direction::Send {
                ", sending"
            } else {
                ""
            };
            let mut row = |name, busy, order| {
                let name = format!("  {name}{direction}");
                report(&name, &mut few, &mut driver, busy, order);
            };
            row("10 of them, one by one", FEW, Order::Singly);
            row("10 of them, in bursts of 64", FEW, Order::InBursts);
            row("any, one by one", many, Order::Singly);
            row("any, in bursts of 64", many, Order::InBursts);
            println!("  after that: {} octets each", each(octets()));
        }
        memory(&mut driver, many);
    }
}

/// How a driver meets its segments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// It knows of none before the one before it is done.
    Singly,
    InBursts,
}

/// Large memory with pages as [`ADVICE`] says: so a driver would place its connections and tables.
struct Pages;

#[global_allocator]
static PAGES: Pages = Pages;

static ADVICE: AtomicI32 = AtomicI32::new(libc::MADV_NORMAL);
const HUGE_PAGE: usize = 2 << 20;

fn whole_pages(layout: Layout) -> Layout {
    if layout.size() < HUGE_PAGE {
        return layout;
    }
    layout.align_to(HUGE_PAGE).unwrap_or(layout)
}

// SAFETY: all is the system's, with a larger alignment for large memory both when it is taken and
// when it is given back.
unsafe impl GlobalAlloc for Pages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is the caller's, which is not empty.
        let start = unsafe { System.alloc(whole_pages(layout)) };
        if layout.size() >= HUGE_PAGE && !start.is_null() {
            // SAFETY: the range was just allocated, and the advice does not change what is there.
            unsafe { libc::madvise(start.cast(), layout.size(), ADVICE.load(Relaxed)) };
        }
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: `alloc` took it with this layout.
        unsafe { System.dealloc(start, whole_pages(layout)) };
    }
}

struct Driver {
    connections: Vec<Connection<Frame>>,
    flows: Demux,
    timers: TimerWheel,
    now: Instant,
    transmit: Transmit,
    work: Direction,
    /// The peers' next sequence numbers, and what they will acknowledge next.
    peers: Vec<(u32, u32)>,
    random: Random,
    /// Segments that left, one for each that arrived.
    sent: u64,
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
            work: Direction::Receive,
            peers: vec![(IRS + 1, ISS.0 + 1); count as usize],
            random: Random(1),
            sent: 0,
        };
        for index in 0..count {
            let mut connection = support::established(now, config.clone(), options.clone());
            connection.shrink();
            driver.flows.insert(local(), remote(index), index).unwrap();
            driver.timers.arm(index, connection.poll_wake_up().unwrap());
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
                let (seq, ack) = &mut self.peers[index as usize];
                let header = Header {
                    seq: *seq,
                    ack: *ack,
                    ..support::first_segment()
                };
                let next = match self.work {
                    Direction::Receive => seq,
                    Direction::Send => ack,
                };
                *next = next.wrapping_add(u32::from(PAYLOAD_LEN));
                Arrival {
                    remote: remote(index),
                    header,
                }
            })
            .collect()
    }

    /// Everything that a burst costs, but for the device.
    #[inline(never)]
    fn process(&mut self, arrivals: &[Arrival], order: Order) {
        self.now = self.now + Duration::from_micros(10);
        match order {
            Order::Singly => {
                for arrival in arrivals {
                    let index = self.flows.connection(local(), arrival.remote).unwrap();
                    self.receive(index, &arrival.header);
                }
            }
            Order::InBursts => in_turn(
                &mut Received {
                    driver: self,
                    arrivals,
                },
                arrivals.len(),
            ),
        }
    }

    #[inline]
    fn receive(&mut self, index: u32, header: &Header) {
        let connection = &mut self.connections[index as usize];
        match self.work {
            Direction::Receive => {
                let frame = Some(Frame::new(PAYLOAD_LEN));
                connection.on_segment(self.now, header, Ecn::NotEct, frame);
                black_box(connection.read_payload(self.now).unwrap());
            }
            Direction::Send => {
                connection.on_segment(self.now, header, Ecn::NotEct, None);
                let data = &MEMORY[..usize::from(PAYLOAD_LEN)];
                assert_eq!(connection.write(self.now, data), Ok(data.len()));
            }
        }
        while connection.poll_transmit(self.now, &mut self.transmit) {
            for piece in connection.payload(black_box(&self.transmit)) {
                black_box(piece);
            }
            self.sent += 1;
        }
        while connection.poll_event().is_some() {}
        if let Some(at) = connection.poll_wake_up() {
            self.timers.arm(index, at);
        }
    }

    /// Processes some bursts; returns nanoseconds for a segment.
    fn run(&mut self, busy: u32, order: Order) -> f64 {
        const BURSTS: usize = 20;
        let bursts: Vec<_> = (0..BURSTS).map(|_| self.burst(busy)).collect();
        let sent = self.sent;
        let start = std::time::Instant::now();
        for burst in &bursts {
            self.process(burst, order);
        }
        let nanos = start.elapsed().as_secs_f64() * 1e9;
        let segments = BURSTS * BURST;
        assert_eq!(self.sent - sent, segments as u64, "a segment for each");
        nanos / segments as f64
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

struct Received<'a> {
    driver: &'a mut Driver,
    arrivals: &'a [Arrival],
}

impl Burst for Received<'_> {
    fn demux(&self) -> &Demux {
        &self.driver.flows
    }

    fn ends(&self, index: usize) -> (SocketAddr, SocketAddr) {
        (local(), self.arrivals[index].remote)
    }

    fn prefetch(&self, address: *const u8) {
        prefetch_early(address);
    }

    fn lines(&self, value: u32, depth: usize) -> impl Iterator<Item = *const u8> {
        let Driver { work, timers, .. } = &self.driver;
        // Sending arms the timer of a connection that was idle.
        let has_timer = *work == Direction::Send && depth == 2;
        let timer = has_timer.then(|| timers.address(value));
        self.driver.connections[value as usize]
            .lines(*work, depth)
            .chain(timer)
    }

    fn depths(&self) -> usize {
        match self.driver.work {
            Direction::Receive => 1,
            Direction::Send => 3,
        }
    }

    fn process(&mut self, index: usize, value: Option<u32>) {
        self.driver
            .receive(value.unwrap(), &self.arrivals[index].header);
    }
}

/// Prints what segments of `busy` of `many` connections cost, and of ten, in short runs that take
/// turns.
fn report(name: &str, few: &mut Driver, many: &mut Driver, busy: u32, order: Order) {
    const RUNS: usize = 2000;
    let (mut few_nanos, mut nanos) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        // A connection gets 128 segments on the average in a run if there are few.
        few.stay_quick(FEW);
        if busy <= FEW || run == 0 {
            many.stay_quick(busy);
        }
        few_nanos.push(few.run(FEW, order));
        nanos.push(many.run(busy, order));
    }
    let (few_nanos, nanos) = (best_tenth(few_nanos), best_tenth(nanos));
    let factor = nanos / few_nanos;
    println!("{name:40} {nanos:7.1} ns a segment, {factor:5.2} times {few_nanos:6.1} among ten");
}

/// What the machine's memory makes of the lines of any connection, without work: the yardstick of
/// the numbers above.
fn memory(driver: &mut Driver, many: u32) {
    const RUNS: usize = 1000;
    const READS: u32 = 1000;
    for (name, lines, is_chained) in [
        ("one line of any, each after the other", 1, true),
        ("one line of any, all at once", 1, false),
        ("what is received touches, all at once", usize::MAX, false),
    ] {
        let mut nanos = Vec::new();
        for _ in 0..RUNS {
            let start = std::time::Instant::now();
            let mut previous = 0;
            for _ in 0..READS {
                let mut index = driver.random.below(many);
                if is_chained {
                    // The processor foretells this branch, so that otherwise nothing waits.
                    index ^= black_box(previous);
                }
                let connection = &driver.connections[index as usize];
                let mut octets = 0;
                for line in connection.lines(Direction::Receive, 0).take(lines) {
                    // SAFETY: the line is one of the connection's.
                    octets |= unsafe { line.read_volatile() };
                }
                // Nought, which the processor cannot know before the lines are there.
                previous = black_box(u32::from(octets)) & 0x100;
            }
            nanos.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(READS));
        }
        let name = format!("  {name}");
        println!("{name:40} {:7.1} ns", best_tenth(nanos));
    }
}

/// What the best tenth took at most: the others were disturbed by something else on the machine.
fn best_tenth(mut nanos: Vec<f64>) -> f64 {
    nanos.sort_by(f64::total_cmp);
    nanos[nanos.len() / 10]
}

/// Octets of memory that the process really has.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
