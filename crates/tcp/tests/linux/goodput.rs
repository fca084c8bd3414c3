//! The engine's goodput beside that of Linux: senders of either kind, each to a Linux receiver through a relay of its own,
//! at the same time. The receiver, the relay and the machine's other work are the same for both.

use std::fmt::Write as _;
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, io, thread};

use testkit::link::{Conditions, Loss};
use testkit::{Namespace, Port, Relay, Skip, Tun, or_skip, panic_unless_paused};

use crate::lab::{ENGINE, KERNEL, Lab, Setup, kernel_connect_to};
use crate::pattern::Pump;
use crate::support::links::{self, PATHS, TROUBLES, Trouble};

/// A path and what is wrong with it.
#[derive(Clone, Copy)]
struct Point {
    rate_megabits: u64,
    rtt: Duration,
    trouble: Trouble,
}

/// Octets a second, and what the sender says of itself.
struct Outcome {
    goodput: f64,
    sender: String,
}

impl Point {
    /// In the direction of the data and in that of the acknowledgements, where nothing is lost.
    fn conditions(&self) -> [Conditions; 2] {
        let simulated = links::conditions(self.rate_megabits, self.rtt, self.trouble);
        let per_million = |count: u32| f64::from(count) / 1e6;
        let start = per_million(self.trouble.loss);
        let len = u32::try_from(self.trouble.burst).expect("bursts are short");
        let forward = Conditions {
            rate_bits_per_second: Some(self.rate_megabits * 1_000_000),
            delay: self.rtt / 2,
            queue_octets: simulated.queue,
            loss: match len {
                0 => Loss::Random(start),
                _ => Loss::Run {
                    start,
                    len: len + 1,
                },
            },
            reorder: per_million(self.trouble.reorder),
            reorder_delay: simulated.reorder_delay,
            duplicate: 0.0,
        };
        let backward = Conditions {
            loss: Loss::None,
            ..forward
        };
        [forward, backward]
    }

    /// What a relay on a busy machine can keep up with, and what its delays do not drown.
    fn is_measurable(&self) -> bool {
        let is_slow = self.rate_megabits <= 100
            || self.trouble.loss >= 10_000
            || self.trouble.loss >= 1_000 && self.rtt >= Duration::from_millis(10);
        is_slow && self.rtt >= Duration::from_millis(1) && self.rate_megabits <= 1_000
    }

    /// Long enough for many losses and for what they do to the window.
    fn time(&self) -> Duration {
        (self.rtt * 200).max(Duration::from_secs(6))
    }

    fn measure_engine(&self, time: Duration, seed: u64) -> Result<Outcome, Skip> {
        let mut lab = Lab::with(Setup {
            seed,
            ..Setup::default()
        })?;
        let [forward, backward] = self.conditions();
        lab.relay.set_conditions(forward, backward);
        let (id, stream) = lab.open(crate::lab::Opener::Engine);
        let reader = Reader::start(&stream);
        let mut pump = Pump::default();
        let goodput = reader.goodput(&mut lab.relay, time, |relay| {
            let now = crate::host::instant(relay.now());
            let connection = &mut relay.a.connections[id].connection;
            pump.write(now, connection, u64::MAX);
        });
        let now = lab.now();
        let info = lab.host().connections[id].connection.info(now);
        Ok(Outcome {
            goodput,
            sender: format!("{info:?}"),
        })
    }

    fn measure_linux(&self, time: Duration, seed: u64) -> Result<Outcome, Skip> {
        let (a, b) = (Namespace::create("sender")?, Namespace::create("receiver")?);
        let a = Arc::new(a);
        let tuns = [
            Tun::create(&a, "tun0", ENGINE, 1500)?,
            Tun::create(&b, "tun0", KERNEL, 1500)?,
        ];
        let [sender, receiver] = tuns;
        let [forward, backward] = self.conditions();
        let mut relay = Relay::new(sender, receiver, forward, seed);
        relay.set_conditions(forward, backward);
        let listener = crate::lab::kernel_listener(&b);
        let namespace = Arc::clone(&a);
        let opening = thread::spawn(move || {
            let sending = namespace.enter(|| kernel_connect_to(KERNEL))?;
            let (receiving, _) = listener.accept()?;
            Ok::<_, io::Error>((sending, receiving))
        });
        let limit = Duration::from_secs(60);
        let opened = relay.run_until(limit, |_| opening.is_finished());
        assert!(opened.expect("the relay works"), "no connection");
        let (sending, receiving) = opening
            .join()
            .expect("no panic")
            .expect("the kernels connect");
        let mut writing = sending.try_clone().expect("a descriptor is left");
        // It ends when the connection does.
        let writer = thread::spawn(move || crate::pattern::write(&mut writing, 0, u64::MAX));
        let reader = Reader::start(&receiving);
        let goodput = reader.goodput(&mut relay, time, |_| {});
        let output = a.command("ss").args(["-tinoH"]).output();
        let output = output.expect("iproute2 is installed");
        // Both may have failed already.
        let _ = sending.shutdown(Shutdown::Both);
        let ended = writer.join().expect("no panic");
        assert!(ended.is_err(), "nobody writes so much");
        Ok(Outcome {
            goodput,
            sender: String::from_utf8_lossy(&output.stdout).into_owned(),
        })
    }

    /// The engine and Linux, side by side.
    fn compare(&self, time: Duration, seed: u64) -> Result<[Outcome; 2], Skip> {
        thread::scope(|scope| {
            let engine = scope.spawn(|| self.measure_engine(time, seed));
            let linux = self.measure_linux(time, seed);
            Ok([engine.join().expect("no panic")?, linux?])
        })
    }

    fn name(&self) -> String {
        let rtt_ms = self.rtt.as_secs_f64() * 1e3;
        let (rate, trouble) = (self.rate_megabits, self.trouble.name);
        format!("{rate:>6} Mbit/s {rtt_ms:>6.1} ms  {trouble:<16}")
    }
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

    /// Relays for `time`, and sees how much arrives in the last three quarters; in octets a second.
    fn goodput<A: Port, B: Port>(
        &self,
        relay: &mut Relay<A, B>,
        time: Duration,
        mut application: impl FnMut(&mut Relay<A, B>),
    ) -> f64 {
        let mut run = |relay: &mut Relay<A, B>, time| {
            let done = relay.run_until(time, |relay| {
                application(relay);
                false
            });
            done.expect("the relay works");
            (relay.now(), self.count())
        };
        let start = run(relay, time / 4);
        let end = run(relay, time / 4 * 3);
        (end.1 - start.1) as f64 / (end.0 - start.0).as_secs_f64()
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

/// With losses at random a few seconds are a short time, and the machine may be busy: what is found here is an engine that
/// cannot do it.
#[test]
fn goodput_is_like_that_of_linux() {
    panic_unless_paused(|| {
        for trouble in [TROUBLES[0], TROUBLES[2], TROUBLES[5]] {
            let point = Point {
                rate_megabits: 100,
                rtt: Duration::from_millis(10),
                trouble,
            };
            let outcomes = or_skip!(point.compare(Duration::from_secs(5), 1));
            let [engine, linux] = outcomes.map(|outcome| megabits(outcome.goodput));
            println!("{} {engine:.2} Linux {linux:.2} Mbit/s", point.name());
            assert!(
                engine >= linux * 0.6,
                "{} {engine:.2} Mbit/s, Linux {linux:.2}",
                point.name()
            );
        }
    });
}

const ROUNDS: u64 = 3;

const HEADING: &str = "\
# Goodput of one connection to a Linux receiver, through a relay between TUN devices: the engine and Linux (CUBIC) at the
# same time, each with a relay of its own. Written by tests/linux/goodput.rs. Real time on a machine that does other things.
# rate of link, round trip, trouble, the engine's goodput, that of Linux, ratio; each the mean of three transfers
";

/// Means of the rounds: the line of the table, and the ratio.
#[expect(clippy::print_stdout, reason = "it takes long")]
fn line(point: &Point) -> Result<(String, f64), Skip> {
    let mut sums = [0.0; 2];
    let mut senders = String::new();
    for seed in 0..ROUNDS {
        let outcomes = point.compare(point.time(), seed)?;
        for (sum, outcome) in sums.iter_mut().zip(&outcomes) {
            *sum += megabits(outcome.goodput) / ROUNDS as f64;
            writeln!(
                senders,
                "  {:.2} {}",
                megabits(outcome.goodput),
                outcome.sender.trim()
            )
            .expect("a string");
        }
    }
    let [engine, linux] = sums;
    let ratio = engine / linux;
    let line = format!(
        "{} {engine:>8.2} Mbit/s {linux:>8.2} Mbit/s {ratio:>6.2}",
        point.name()
    );
    println!("{line}");
    if ratio < 0.9 {
        println!("{senders}");
    }
    Ok((line, ratio))
}

/// Writes the table with `UPDATE_GOODPUT=1`. Best in a release build on an idle machine.
#[test]
#[ignore = "takes ten minutes"]
fn goodput_is_at_least_that_of_linux() {
    let points: Vec<Point> = PATHS
        .iter()
        .flat_map(|(rate, rtt)| {
            TROUBLES.map(|trouble| Point {
                rate_megabits: *rate,
                rtt: Duration::from_micros(*rtt),
                trouble,
            })
        })
        .filter(Point::is_measurable)
        .collect();
    let lines = Mutex::new(vec![None; points.len()]);
    let next = AtomicUsize::new(0);
    // They wait most of the time.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(index) else {
                        break;
                    };
                    let line = line(point);
                    lines.lock().expect("no thread panicked")[index] = Some(line);
                }
            });
        }
    });
    let mut table = HEADING.to_owned();
    let mut slower = String::new();
    for measured in lines.into_inner().expect("no thread panicked") {
        let (line, ratio) = or_skip!(measured.expect("all were measured"));
        writeln!(table, "{line}").expect("a string");
        if ratio < 0.8 {
            writeln!(slower, "{line}").expect("a string");
        }
    }
    if env::var_os("UPDATE_GOODPUT").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goodput_linux.txt");
        fs::write(file, table).expect("the table can be written");
    }
    assert!(slower.is_empty(), "slower than Linux:\n{slower}");
}
