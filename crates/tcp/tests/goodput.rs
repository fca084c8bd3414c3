//! How fast the engine is over networks of all kinds, as a committed table (`goodput.txt`): a change of behaviour shows as
//! a difference. `UPDATE_GOODPUT=1` writes the table anew.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::Path as FilePath;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tcp::{Config, Instant, Options, Path};

mod support;

use support::links::{self, PATHS, TROUBLES, Trouble};
use support::network::{Link, Rng};
use support::pair::{End, Ending, Pair, Plan};

/// What a transfer showed.
struct Outcome {
    /// Octets a second of the last three quarters.
    goodput: f64,
    /// Segments sent again, per octet of all.
    retransmitted: f64,
    longest_stall: Duration,
}

const MSS: f64 = 1448.0;

/// Rate at which payload goes over a link of `rate` Mbit/s, in octets a second.
fn bound(rate: u64) -> f64 {
    rate as f64 * 1e6 / 8.0 * MSS / (MSS + 90.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an amount below 2^32"
)]
fn whole(octets: f64) -> u32 {
    octets as u32
}

fn link(rate: u64, rtt: Duration, trouble: Trouble, seed: u64) -> Rc<RefCell<Link>> {
    Rc::new(RefCell::new(Link::new(
        links::conditions(rate, rtt, trouble),
        Rng::new(seed),
    )))
}

fn ends(octets: u32, seed: u64) -> [End; 2] {
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
    plans.map(|plan| {
        let iss = u32::try_from(rng.next() >> 32).expect("half of it");
        let own = Rng::new(rng.next());
        End::new(
            Config::default(),
            Options::default(),
            Path::ipv4(1500),
            iss,
            plan,
            own,
        )
    })
}

fn transfer(rate: u64, rtt: Duration, trouble: Trouble) -> Outcome {
    // A hundred round trips or two seconds, but not more than a test has time for.
    let duration = (rtt * 100).max(Duration::from_secs(2)).as_secs_f64();
    let octets = whole((bound(rate) * duration).min(24e6));
    let seed = 42;
    let no_trouble = Trouble {
        loss: 0,
        burst: 0,
        ..trouble
    };
    let links = [
        link(rate, rtt, trouble, seed),
        link(rate, rtt, no_trouble, seed + 1),
    ];
    let mut pair = Pair::new(
        ends(octets, seed),
        links,
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
        retransmitted: info.octets_retransmitted as f64 / info.octets_sent.max(1) as f64,
        longest_stall: pair.ends[1].longest_stall,
    }
}

/// A line of the table, and what is wrong with it.
fn cell(rate: u64, rtt_micros: u64, trouble: Trouble) -> (String, String) {
    let rtt = Duration::from_micros(rtt_micros);
    let outcome = transfer(rate, rtt, trouble);
    let share = outcome.goodput / bound(rate) * 100.0;
    let line = format!(
        "{rate:>6} Mbit/s {:>7.2} ms  {:<16} {:>9.2} Mbit/s {share:>5.1} %  {:>5.2} %  {:>8.2} ms",
        rtt.as_secs_f64() * 1e3,
        trouble.name,
        outcome.goodput * 8.0 / 1e6,
        outcome.retransmitted * 100.0,
        outcome.longest_stall.as_secs_f64() * 1e3,
    );
    let mut wrong = String::new();
    let is_clean = trouble.loss == 0 && trouble.reorder == 0;
    if is_clean && share < 90.0 {
        writeln!(wrong, "less than 90 % of the link: {line}").expect("a string");
    }
    // An RTO is 200 ms at least. A retransmission that is lost as well doubles it, which is not rare at 3 %.
    let longest = (Duration::from_millis(200) + rtt * 2) * 2;
    if trouble.loss < 30_000 && outcome.longest_stall > longest {
        writeln!(wrong, "stands still for more than two RTO: {line}").expect("a string");
    }
    (line, wrong)
}

const HEADING: &str = "\
# Goodput of one connection (CUBIC, SACK, timestamps, MSS 1448), simulated. Written by tests/goodput.rs.
# rate of link, round trip, trouble, goodput, share of the link, octets sent again, longest time without data
# Goodput is that of the last three quarters of a transfer. More than the link has is data that waited behind a hole before.
";

#[test]
fn goodput_is_as_it_was() {
    let cells: Vec<_> = PATHS
        .iter()
        .flat_map(|(rate, rtt)| TROUBLES.map(|trouble| (*rate, *rtt, trouble)))
        .collect();
    let results = Mutex::new(vec![(String::new(), String::new()); cells.len()]);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((rate, rtt, trouble)) = cells.get(index) else {
                        break;
                    };
                    let result = cell(*rate, *rtt, *trouble);
                    results.lock().expect("no thread panicked")[index] = result;
                }
            });
        }
    });
    let results = results.into_inner().expect("no thread panicked");
    let lines = results.iter().map(|(line, _)| format!("{line}\n"));
    let table = HEADING.to_owned() + &lines.collect::<String>();
    let file = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/goodput.txt");
    if std::env::var_os("UPDATE_GOODPUT").is_some() {
        fs::write(&file, &table).expect("the table can be written");
    }
    let wrong: String = results.iter().map(|(_, wrong)| wrong.as_str()).collect();
    assert!(wrong.is_empty(), "{wrong}");
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == table,
        "the table has changed; if that is meant, run with UPDATE_GOODPUT=1:\n{}",
        difference(&committed, &table)
    );
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
    let (rate, rtt) = (100, Duration::from_millis(20));
    let links = [
        link(rate, rtt, TROUBLES[0], 1),
        link(rate, rtt, TROUBLES[0], 2),
    ];
    // More than they can send.
    let octets = 1_000_000_000;
    let mut pairs = [11, 12].map(|seed| {
        let links = links.each_ref().map(Rc::clone);
        let mut pair = Pair::new(
            ends(octets, seed),
            links,
            Instant::from_nanos(1),
            Rng::new(seed),
        );
        pair.check = false;
        pair
    });
    let end = Instant::from_nanos(1) + Duration::from_secs(30);
    let mut at_start = None;
    loop {
        let times = pairs
            .each_ref()
            .map(|pair| pair.next_time().expect("they go on"));
        let first = usize::from(times[1] < times[0]);
        if times[first] > end {
            break;
        }
        // Who came first is not to have an advantage for ever; ten seconds are given to level it.
        if at_start.is_none()
            && times[first].saturating_since(Instant::ZERO) > Duration::from_secs(10)
        {
            at_start = Some(pairs.each_ref().map(|pair| pair.ends[1].read));
        }
        pairs[first].step();
    }
    let at_start = at_start.expect("thirty seconds are more than ten");
    let shares = [0, 1].map(|index| f64::from(pairs[index].ends[1].read - at_start[index]));
    let sum = shares[0] + shares[1];
    let jain = sum * sum / (2.0 * (shares[0] * shares[0] + shares[1] * shares[1]));
    assert!(jain >= 0.95, "Jain's index is {jain:.3}: {shares:?}");
    let used = sum / 20.0 / bound(rate);
    assert!(
        used >= 0.9,
        "only {:.1} % of the link are used",
        used * 100.0
    );
}
