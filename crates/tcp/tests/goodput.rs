//! How fast the engine is over networks of all kinds, as a committed table (`goodput.txt`): a
//! change of behaviour shows as a difference. A quarter of its lines is checked each time, all of
//! them with `--ignored`, where `UPDATE_GOODPUT=1` writes the table anew.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tcp::{Config, CongestionAlgorithm, Instant, Options, SocketOption};
use testkit::link::Loss;

mod support;

use support::links::{Goodput, Point, SEEDS};
use support::network::{Link, Rng};
use support::pair::{End, Ending, Pair, Plan};

/// What a transfer showed.
struct Outcome {
    /// Octets a second of the last three quarters.
    goodput: f64,
    octets_sent: u64,
    octets_retransmitted: u64,
    longest_stall: Duration,
}

/// The two directions of the path.
fn links(point: &Point, seed: u64) -> [Rc<RefCell<Link>>; 2] {
    let [forward, backward] = point.conditions();
    [(forward, seed), (backward, !seed)]
        .map(|(conditions, seed)| Rc::new(RefCell::new(Link::new(conditions.into(), seed))))
}

fn ends(octets: u32, seed: u64, algorithm: CongestionAlgorithm) -> [End; 2] {
    let plan = |to_send, ending| Plan {
        to_send,
        write_size: 200_000,
        read_size: 200_000,
        write_rest: Duration::ZERO,
        read_rest: Duration::ZERO,
        ending,
        takes_payloads: false,
        changes_options: false,
    };
    let plans = [plan(octets, Ending::HalfClose), plan(0, Ending::HalfClose)];
    let mut rng = Rng::new(seed);
    let mut options = Options::default();
    let choice = options.set(SocketOption::Congestion(algorithm));
    choice.expect("every algorithm can be chosen");
    plans.map(|plan| {
        let iss = u32::try_from(rng.next() >> 32).expect("half of it");
        let own = Rng::new(rng.next());
        End::new(
            Config::default(),
            options.clone(),
            tcp::Path::ipv4(1500),
            iss,
            plan,
            own,
        )
    })
}

/// The octets of one transfer. BBR's time is that of its cycles, dozens of round trips: of what
/// goes over a long path in a few of them its table would show the start only.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an amount below 2^32"
)]
fn octets(point: &Point, algorithm: CongestionAlgorithm) -> u32 {
    match algorithm {
        CongestionAlgorithm::Bbr => {
            let round = point.bound() * point.rtt.as_secs_f64();
            point.octets().max((round * 200.0) as u32)
        }
        _ => point.octets(),
    }
}

fn transfer(point: &Point, seed: u64, algorithm: CongestionAlgorithm) -> Outcome {
    let octets = octets(point, algorithm);
    let mut pair = Pair::new(
        ends(octets, seed, algorithm),
        links(point, seed),
        Instant::from_nanos(1),
        Rng::new(seed),
    );
    pair.check = false;
    let mut started = None;
    while pair.ends[1].read < octets {
        assert!(pair.step(), "the transfer stands still");
        if started.is_none() && pair.ends[1].read >= octets / 4 {
            started = Some((pair.now, pair.ends[1].read));
        }
    }
    let (start, read) = started.expect("a quarter comes before the end");
    let elapsed = pair.now.saturating_since(start).as_secs_f64();
    let info = pair.ends[0]
        .connection
        .as_ref()
        .expect("side 0 connected")
        .info(pair.now);
    Outcome {
        goodput: f64::from(octets - read) / elapsed,
        octets_sent: info.octets_sent,
        octets_retransmitted: info.octets_retransmitted,
        longest_stall: pair.ends[1].longest_stall,
    }
}

/// A line of the table, and what is wrong with it.
struct Cell {
    line: String,
    wrong: String,
}

fn cell(point: &Point, algorithm: CongestionAlgorithm) -> Cell {
    // Longer transfers take longer.
    let seeds = match algorithm {
        CongestionAlgorithm::Bbr => &SEEDS[..3],
        _ => &SEEDS[..],
    };
    let outcomes = seeds.iter().map(|seed| transfer(point, *seed, algorithm));
    let outcomes: Vec<Outcome> = outcomes.collect();
    let goodputs: Vec<f64> = outcomes.iter().map(|outcome| outcome.goodput).collect();
    let goodput = Goodput::of(point, &goodputs);
    let sent: u64 = outcomes.iter().map(|outcome| outcome.octets_sent).sum();
    let retransmitted = outcomes.iter().map(|outcome| outcome.octets_retransmitted);
    let retransmitted = retransmitted.sum::<u64>() as f64 / sent as f64;
    let stalls = outcomes.iter().map(|outcome| outcome.longest_stall);
    let longest_stall = stalls.max().expect("several");
    let line = format!(
        "{} {} Mbit/s {:>5.1} %  {:>5.2} %  {:>8.2} ms",
        point.name(),
        goodput.format(),
        goodput.mean * 125_000.0 / point.bound() * 100.0,
        retransmitted * 100.0,
        longest_stall.as_secs_f64() * 1e3,
    );
    // An RTO is 200 ms at least. A retransmission that is lost as well doubles it, which is not
    // rare at 3 %.
    let is_rto_backed_off = matches!(point.trouble.loss, Loss::Random(loss) if loss >= 0.03);
    let longest = (Duration::from_millis(200) + point.rtt * 2) * 2;
    let wrong = if !is_rto_backed_off && longest_stall > longest {
        format!("stands still for more than two RTO: {line}\n")
    } else {
        String::new()
    };
    Cell { line, wrong }
}

const HEADING: &str = "\
# Goodput of one connection (CUBIC, SACK, timestamps, MSS 1448), simulated. Written by tests/goodput.rs.
# rate of link, round trip, trouble, goodput (mean of ten seeds ± its standard error), share of the link, octets sent
# again, longest time without data. Goodput is that of the last three quarters of a transfer, but not more than the link has:
# that is data that waited behind a hole before.
";

const BBR_HEADING: &str = "\
# The same as goodput.txt with BBR (mean of three seeds), of transfers of two hundred round trips at least.
";

/// Every line of a table, or every fourth: by and by each trouble comes with some rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    All,
    Quarter,
}

impl Extent {
    const fn step(self) -> usize {
        match self {
            Self::All => 1,
            Self::Quarter => 4,
        }
    }
}

/// What [`cell`] makes of the points.
fn cells(algorithm: CongestionAlgorithm, extent: Extent) -> Vec<Cell> {
    let points: Vec<Point> = Point::all().step_by(extent.step()).collect();
    let cells: Vec<Mutex<Option<Cell>>> = points.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(index) else {
                        break;
                    };
                    *cells[index].lock().expect("no thread panicked") =
                        Some(cell(point, algorithm));
                }
            });
        }
    });
    let cells = cells.into_iter();
    let cells = cells.map(|cell| cell.into_inner().expect("no thread panicked"));
    cells.map(|cell| cell.expect("all were done")).collect()
}

fn table(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// Compares what is measured with a committed table.
fn check_table(name: &str, heading: &str, algorithm: CongestionAlgorithm, extent: Extent) {
    let cells = cells(algorithm, extent);
    let written: String = cells
        .iter()
        .map(|cell| format!("{}\n", cell.line))
        .collect();
    let file = table(name);
    if extent == Extent::All && std::env::var_os("UPDATE_GOODPUT").is_some() {
        fs::write(&file, heading.to_owned() + &written).expect("the table can be written");
    }
    let wrong: String = cells.iter().map(|cell| cell.wrong.as_str()).collect();
    assert!(wrong.is_empty(), "{wrong}");
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let committed = committed.lines().skip_while(|line| line.starts_with('#'));
    let committed: Vec<&str> = committed.step_by(extent.step()).collect();
    assert!(
        committed == written.lines().collect::<Vec<_>>(),
        "the table has changed; if that is meant, run with UPDATE_GOODPUT=1 and --ignored:\n{}",
        difference(&committed.join("\n"), &written)
    );
}

#[test]
fn goodput_is_as_it_was() {
    let algorithm = CongestionAlgorithm::Cubic;
    check_table("goodput.txt", HEADING, algorithm, Extent::Quarter);
}

#[test]
fn goodput_of_bbr_is_as_it_was() {
    let algorithm = CongestionAlgorithm::Bbr;
    check_table("goodput_bbr.txt", BBR_HEADING, algorithm, Extent::Quarter);
}

#[test]
#[ignore = "a minute"]
fn all_goodput_is_as_it_was() {
    let algorithm = CongestionAlgorithm::Cubic;
    check_table("goodput.txt", HEADING, algorithm, Extent::All);
}

#[test]
#[ignore = "two minutes"]
fn all_goodput_of_bbr_is_as_it_was() {
    let algorithm = CongestionAlgorithm::Bbr;
    check_table("goodput_bbr.txt", BBR_HEADING, algorithm, Extent::All);
}

/// The columns behind the names of all points in a committed table.
fn columns(name: &str) -> Vec<(Point, String)> {
    let text = fs::read_to_string(table(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let columns = |point: Point| {
        let columns = text
            .lines()
            .find_map(|line| line.strip_prefix(&point.name()));
        let columns = columns.unwrap_or_else(|| panic!("{name} lacks {}", point.name()));
        (point, columns.to_owned())
    };
    Point::all().map(columns).collect()
}

/// The goodputs of all points in a committed table.
fn committed(name: &str) -> Vec<(Point, Vec<Goodput>)> {
    let columns = columns(name).into_iter();
    columns
        .map(|(point, columns)| (point, Goodput::parse(&columns)))
        .collect()
}

/// The shares of what was sent again in a committed table, in percent.
fn shares_sent_again(name: &str) -> Vec<(Point, f64)> {
    let share = |(point, columns): (Point, String)| {
        let words: Vec<&str> = columns.split_whitespace().collect();
        let mut percentages = words.windows(2).filter(|pair| pair[1] == "%");
        let share = percentages.nth(1).and_then(|pair| pair[0].parse().ok());
        (point, share.unwrap_or_else(|| panic!("{name}: {columns}")))
    };
    columns(name).into_iter().map(share).collect()
}

/// The engine's goodput is at least nine tenths of what is possible where the link is the limit.
#[test]
fn links_are_used() {
    let mut unused = String::new();
    for (point, goodputs) in committed("goodput.txt") {
        let share = goodputs[0].mean * 125_000.0 / point.bound();
        if point.is_limited_by_link() && share < 0.9 {
            writeln!(unused, "{} {:.1} %", point.name(), share * 100.0).expect("a string");
        }
    }
    assert!(unused.is_empty(), "less than 90 % of the link:\n{unused}");
}

/// BBR does not take losses by chance for congestion.
#[test]
fn bbr_uses_links_that_lose_one_percent() {
    let mut unused = String::new();
    for (point, goodputs) in committed("goodput_bbr.txt") {
        // To a standard error of the mean of three seeds.
        let most = goodputs[0].mean + goodputs[0].standard_error;
        let share = most * 125_000.0 / point.bound();
        let is_meant = point.rate_megabits <= 1_000 && point.trouble.name == "loss 1 %";
        if is_meant && share < 0.85 {
            writeln!(unused, "{} {:.1} %", point.name(), share * 100.0).expect("a string");
        }
    }
    assert!(unused.is_empty(), "less than 85 % of the link:\n{unused}");
}

/// The engine's goodput is at least that of Linux at every point, to the resolution of the
/// measurement; and so it is to the Linux receiver that Linux sent to, to a standard error of the
/// mean of ten seeds.
#[test]
fn goodput_is_at_least_that_of_linux() {
    let linux = committed("goodput_linux.txt");
    let mut slower = String::new();
    for (name, errors) in [("goodput.txt", 0.0), ("goodput_to_linux.txt", 1.0)] {
        for ((point, engine), (_, linux)) in committed(name).iter().zip(&linux) {
            let (engine, linux) = (engine[0], linux[0]);
            let most = engine.mean + errors * engine.standard_error;
            if most < linux.mean * (1.0 - point.resolution()) {
                let (engine, linux) = (engine.format(), linux.format());
                writeln!(
                    slower,
                    "{name}: {} {engine} Mbit/s, Linux {linux}",
                    point.name()
                )
                .expect("a string");
            }
        }
    }
    assert!(slower.is_empty(), "slower than Linux:\n{slower}");
}

/// What the engine sends again is at most one and a half times the share that Linux does, and a
/// fifth of a percentage point.
#[test]
fn no_more_is_sent_again_than_by_linux() {
    let linux = shares_sent_again("goodput_linux.txt");
    let mut wasteful = String::new();
    for ((point, engine), (_, linux)) in shares_sent_again("goodput.txt").iter().zip(&linux) {
        if *engine > linux * 1.5 + 0.2 {
            writeln!(wasteful, "{} {engine} %, Linux {linux} %", point.name()).expect("a string");
        }
    }
    assert!(wasteful.is_empty(), "more sent again:\n{wasteful}");
}

fn difference(before: &str, after: &str) -> String {
    let pairs = before.lines().zip(after.lines());
    let differing = pairs.filter(|(before, after)| before != after);
    differing
        .map(|(before, after)| format!("- {before}\n+ {after}\n"))
        .collect()
}

/// Two connections through one queue share it (Jain's index).
#[test]
fn two_connections_share_a_bottleneck() {
    let point = Point::clean(100, Duration::from_millis(20));
    let links = links(&point, 1);
    // More than they can send.
    let octets = 1_000_000_000;
    let mut pairs = [11, 12].map(|seed| {
        let links = links.each_ref().map(Rc::clone);
        let mut pair = Pair::new(
            ends(octets, seed, CongestionAlgorithm::Cubic),
            links,
            Instant::from_nanos(1),
            Rng::new(seed),
        );
        pair.check = false;
        pair
    });
    let end = Instant::from_nanos(1) + Duration::from_secs(60);
    let mut at_start = None;
    loop {
        let times = pairs
            .each_ref()
            .map(|pair| pair.next_time().expect("they go on"));
        let first = usize::from(times[1] < times[0]);
        if times[first] > end {
            break;
        }
        // Who came first is not to have an advantage for ever; thirty seconds are given to level
        // it. Slow start ends without loss, so that only CUBIC's reductions level: with a half of
        // this path each, one in some five seconds (K of RFC 9438 §4.2).
        if at_start.is_none()
            && times[first].saturating_since(Instant::ZERO) > Duration::from_secs(30)
        {
            at_start = Some(pairs.each_ref().map(|pair| pair.ends[1].read));
        }
        pairs[first].step();
    }
    let at_start = at_start.expect("sixty seconds are more than thirty");
    let shares = [0, 1].map(|index| f64::from(pairs[index].ends[1].read - at_start[index]));
    let sum = shares[0] + shares[1];
    let jain = sum * sum / (2.0 * (shares[0] * shares[0] + shares[1] * shares[1]));
    assert!(jain >= 0.95, "Jain's index is {jain:.3}: {shares:?}");
    let used = sum / 30.0 / point.bound();
    assert!(
        used >= 0.9,
        "only {:.1} % of the link are used",
        used * 100.0
    );
}
