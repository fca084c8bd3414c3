//! The engine's goodput beside that of Linux: senders of either kind, each to a Linux receiver
//! through a relay.
//!
//! In real time that is a test of the engine, at rates at which a relay keeps up on a busy machine.
//! In virtual time, in a User-Mode Linux (`virtual_time.sh`), it is exact at all rates, and makes
//! the table with which CI compares the engine.

use std::fmt::Write as _;
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use testkit::link::Loss;
use testkit::{Namespace, Port, Relay, Skip, Tun, or_skip, panic_unless_paused};

use crate::lab::{ENGINE, KERNEL, Lab, Opener, Setup, kernel_listener, open_between_kernels};
use crate::pattern::{self, Pump};
use crate::support::links::{Goodput, Point, SEEDS};

/// How the relay waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    Real,
    Virtual,
}

impl Clock {
    fn apply<A: Port, B: Port>(self, relay: Relay<A, B>) -> Relay<A, B> {
        match self {
            Self::Real => relay,
            Self::Virtual => relay
                .in_virtual_time()
                .expect("a timer slack is no privilege"),
        }
    }
}

/// What a transfer showed.
struct Outcome {
    /// Octets a second of the last three quarters.
    goodput: f64,
    /// The share of the segments that were sent again.
    retransmitted: f64,
}

/// A transfer of `octets` that the engine sends.
fn measure_engine(point: &Point, octets: u64, seed: u64, clock: Clock) -> Result<Outcome, Skip> {
    let mut lab = Lab::with(Setup {
        seed,
        ..Setup::default()
    })?;
    lab.relay = clock.apply(lab.relay);
    let [forward, backward] = point.conditions();
    lab.relay.set_conditions(forward, backward);
    let (id, stream) = lab.open(Opener::Engine);
    let mut pump = Pump::default();
    let receiving = receive(stream, octets);
    relay_until_received(&mut lab.relay, &receiving, |relay| {
        let now = crate::host::instant(relay.now());
        let connection = &mut relay.a.connections[id].connection;
        pump.write(now, connection, octets);
    });
    let now = crate::host::instant(lab.relay.now());
    let info = lab.relay.a.connections[id].connection.info(now);
    Ok(Outcome {
        goodput: receiving.join().expect("no panic"),
        retransmitted: f64::from(info.total_retrans) / f64::from(info.segments_out),
    })
}

/// A transfer of `octets` that Linux sends.
fn measure_linux(point: &Point, octets: u64, seed: u64, clock: Clock) -> Result<Outcome, Skip> {
    let (a, b) = (Namespace::create("sender")?, Namespace::create("receiver")?);
    let tuns = [
        Tun::create(&a, "tun0", ENGINE, 1500)?,
        Tun::create(&b, "tun0", KERNEL, 1500)?,
    ];
    let [sender, receiver] = tuns;
    let [forward, backward] = point.conditions();
    let mut relay = clock.apply(Relay::new(sender, receiver, forward, seed));
    relay.set_conditions(forward, backward);
    let listener = kernel_listener(&b);
    let a = Arc::new(a);
    let (sending, stream) = open_between_kernels(&mut relay, &a, listener);
    let writing = sending.try_clone().expect("a descriptor is left");
    let writer = thread::spawn(move || pattern::write(writing, 0, octets));
    let receiving = receive(stream, octets);
    relay_until_received(&mut relay, &receiving, |_| ());
    writer.join().expect("no panic").expect("all is written");
    let [sent, retransmitted] = a.enter(|| tcp_counters(["OutSegs", "RetransSegs"]));
    Ok(Outcome {
        goodput: receiving.join().expect("no panic"),
        retransmitted: retransmitted / (sent + retransmitted),
    })
}

/// Counters of TCP in the namespace of the calling thread, by their names in RFC 4022. Linux counts
/// what it sends again apart.
fn tcp_counters<const N: usize>(names: [&str; N]) -> [f64; N] {
    let text = fs::read_to_string("/proc/thread-self/net/snmp").expect("/proc is mounted");
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let [heads, values] = [(); 2].map(|()| rows.next().expect("two rows").split_whitespace());
    let columns: Vec<(&str, &str)> = heads.zip(values).collect();
    names.map(|name| {
        let column = columns.iter().find(|(head, _)| *head == name);
        let (_, value) = column.unwrap_or_else(|| panic!("no {name}: {text}"));
        value.parse().expect("a number")
    })
}

/// A thread that reads `octets`. It gives the octets a second of the last three quarters.
fn receive(mut stream: TcpStream, octets: u64) -> JoinHandle<f64> {
    thread::spawn(move || {
        let mut buffer = vec![0; 200_000];
        let (mut read, mut started) = (0, None);
        while read < octets {
            let count = io::Read::read(&mut stream, &mut buffer).expect("the stream goes on");
            assert!(count > 0, "the stream ends at {read}");
            read += count as u64;
            if started.is_none() && read >= octets / 4 {
                started = Some((Instant::now(), read));
            }
        }
        let (start, read_before) = started.expect("a quarter comes before the end");
        (read - read_before) as f64 / start.elapsed().as_secs_f64()
    })
}

fn relay_until_received<A: Port, B: Port>(
    relay: &mut Relay<A, B>,
    receiving: &JoinHandle<f64>,
    mut application: impl FnMut(&mut Relay<A, B>),
) {
    let done = relay.run_until(Duration::from_secs(3600), |relay| {
        application(relay);
        receiving.is_finished()
    });
    assert!(done.expect("the relay works"), "not within an hour");
}

/// A thread that reads all that comes and counts it.
pub(crate) struct Reader {
    count: Arc<AtomicU64>,
    stream: TcpStream,
}

impl Reader {
    pub(crate) fn start(stream: &TcpStream) -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&count);
        let mut reading = stream.try_clone().expect("a descriptor is left");
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(len @ 1..) = io::Read::read(&mut reading, &mut buffer) {
                counting.fetch_add(len as u64, Ordering::Relaxed);
            }
        });
        Self {
            count,
            stream: stream.try_clone().expect("a descriptor is left"),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Ends the thread. The peer may have ended the connection.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn megabits(octets: f64) -> f64 {
    octets * 8.0 / 1e6
}

/// With losses at random a few seconds are a short time, and the machine may be busy: what is found
/// here is an engine that cannot do it.
#[test]
fn goodput_is_like_that_of_linux() {
    panic_unless_paused(|| {
        for point in Point::all().filter(|point| {
            let is_relayed_in_time = point.rate_megabits == 100 && point.rtt.as_millis() == 10;
            is_relayed_in_time
                && ["none", "loss 1 %", "reordering 10 %"].contains(&point.trouble.name)
        }) {
            let octets = if point.trouble.loss == Loss::None {
                50_000_000
            } else {
                8_000_000
            };
            // The best of a few: what else the machine does may meet one of the two only.
            let mut seen = Vec::new();
            for seed in 1..=3 {
                let (engine, linux) = thread::scope(|scope| {
                    let engine = scope.spawn(|| measure_engine(&point, octets, seed, Clock::Real));
                    let linux = measure_linux(&point, octets, seed, Clock::Real);
                    (engine.join().expect("no panic"), linux)
                });
                let outcomes = [or_skip!(engine), or_skip!(linux)];
                let [engine, linux] = outcomes.map(|outcome| megabits(outcome.goodput));
                println!("{} {engine:.2} Linux {linux:.2} Mbit/s", point.name());
                seen.push((engine, linux));
                if engine >= linux * 0.6 {
                    break;
                }
            }
            let is_alike = seen
                .last()
                .is_some_and(|(engine, linux)| *engine >= linux * 0.6);
            assert!(
                is_alike,
                "{} engine and Linux: {seen:?} Mbit/s",
                point.name()
            );
        }
    });
}

/// Measures at all points whose names contain what the environment says, and prints line by line:
/// the shares of the link of each seed as measured, and what the table has. The lines.
#[expect(clippy::print_stdout, reason = "it takes long")]
fn measure_all(measure: impl Fn(&Point, u64, u64, Clock) -> Result<Outcome, Skip>) -> String {
    let command_line = fs::read_to_string("/proc/cmdline").expect("/proc is mounted");
    assert!(
        command_line.contains("time-travel=inf-cpu"),
        "time passes while the relay runs: the kernel's command line is {command_line}"
    );
    let mut lines = String::new();
    let wanted = env::var("POINTS").unwrap_or_default();
    let is_wanted = |point: &Point| point.name().contains(&wanted.replace('_', " "));
    for point in Point::all().filter(is_wanted) {
        let octets = u64::from(point.octets());
        let outcomes = SEEDS.map(|seed| {
            let outcome = measure(&point, octets, seed, Clock::Virtual);
            outcome.expect("a User-Mode Linux has all that is needed")
        });
        let samples = outcomes.each_ref().map(|outcome| outcome.goodput);
        let goodput = Goodput::of(&point, &samples);
        let retransmitted = outcomes.iter().map(|outcome| outcome.retransmitted);
        let line = format!(
            "{} {} Mbit/s {:>5.1} %  {:>5.2} %",
            point.name(),
            goodput.format(),
            goodput.mean * 125_000.0 / point.bound() * 100.0,
            retransmitted.sum::<f64>() / SEEDS.len() as f64 * 100.0,
        );
        let shares = samples.map(|octets| format!("{:.1}", octets / point.bound() * 100.0));
        println!("    {}", shares.join(" "));
        println!("{line}");
        writeln!(lines, "{line}").expect("a string");
    }
    lines
}

/// Writes the lines of all points as a table of that name, if the environment says so.
fn write_table(name: &str, heading: &str, lines: &str) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
    if env::var_os("UPDATE_GOODPUT").is_some() && env::var_os("POINTS").is_none() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let table = heading.replace("{release}", release.trim()) + lines;
        fs::write(tests.join(name), table).expect("the table can be written");
    }
}

/// Written with `UPDATE_GOODPUT=1`.
#[test]
#[ignore = "needs a User-Mode Linux: see virtual_time.sh"]
fn linux_in_virtual_time() {
    write_table(
        "goodput_linux.txt",
        LINUX_HEADING,
        &measure_all(measure_linux),
    );
}

/// The engine in the place of Linux: like with like.
#[test]
#[ignore = "needs a User-Mode Linux: see virtual_time.sh"]
fn engine_in_virtual_time() {
    write_table(
        "goodput_to_linux.txt",
        ENGINE_HEADING,
        &measure_all(measure_engine),
    );
}

const LINUX_HEADING: &str = "\
# Goodput of one connection of Linux {release} (CUBIC, HZ=1000) to a Linux receiver through the links of goodput.txt, exact
# because in virtual time: User-Mode Linux with time-travel=inf-cpu. Written by tests/linux/goodput.rs (virtual_time.sh).
# rate of link, round trip, trouble, goodput (mean of ten seeds ± its standard error), share of the link, segments sent again
";

const ENGINE_HEADING: &str = "\
# Goodput of one connection of the engine to the receiver of goodput_linux.txt, Linux {release}, where that was measured: the
# sender is all that differs. Written by tests/linux/goodput.rs (virtual_time.sh with engine as argument).
# rate of link, round trip, trouble, goodput (mean of ten seeds ± its standard error), share of the link, segments sent again
";
