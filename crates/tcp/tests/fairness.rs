//! How two connections share a bottleneck that drops what its queue has no room for, by algorithm
//! and length of the queue, as a committed table (`fairness.txt`). `UPDATE_FAIRNESS=1`
//! with `--ignored` writes it anew.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tcp::CongestionAlgorithm::{Bbr, Cubic};
use tcp::{Config, CongestionAlgorithm, Instant, Options, SocketOption};

mod support;

use support::network::{Link, Rng};
use support::pair::{End, Ending, Pair, Plan};

const RATE_MEGABITS: u64 = 40;
const RTT: Duration = Duration::from_millis(30);
/// They find their shares first.
const WARM_UP: Duration = Duration::from_secs(20);
const MEASURED: Duration = Duration::from_secs(40);
/// Octets of payload in those of a packet on the link.
const PAYLOAD_SHARE: f64 = 1448.0 / 1538.0;

fn links(queue_octets: u64) -> [Rc<RefCell<Link>>; 2] {
    let conditions = testkit::link::Conditions {
        rate_bits_per_second: Some(RATE_MEGABITS * 1_000_000),
        delay: RTT / 2,
        queue_octets,
        ..testkit::link::Conditions::default()
    };
    [1, 2].map(|seed| Rc::new(RefCell::new(Link::new(conditions.into(), seed))))
}

fn ends(algorithm: CongestionAlgorithm, seed: u64) -> [End; 2] {
    let mut rng = Rng::new(seed);
    let mut options = Options::default();
    let choice = options.set(SocketOption::Congestion(algorithm));
    choice.expect("every algorithm can be chosen");
    [1_500_000_000, 0].map(|to_send| {
        let plan = Plan {
            to_send,
            write_size: 200_000,
            read_size: 200_000,
            write_rest: Duration::ZERO,
            read_rest: Duration::ZERO,
            ending: Ending::HalfClose,
            takes_payloads: false,
            changes_options: false,
        };
        let iss = u32::try_from(rng.next() >> 32).expect("half of it");
        let (config, path) = (Config::default(), tcp::Path::ipv4(1500));
        End::new(
            config,
            options.clone(),
            path,
            iss,
            plan,
            Rng::new(rng.next()),
        )
    })
}

/// The shares of the link that both have, and how much of what they sent they sent again.
struct Shares {
    of_link: [f64; 2],
    sent_again: f64,
}

impl Shares {
    fn jain(&self) -> f64 {
        let [a, b] = self.of_link;
        (a + b).powi(2) / (2.0 * (a * a + b * b))
    }
}

fn share(algorithms: [CongestionAlgorithm; 2], queue_octets: u64) -> Shares {
    let links = links(queue_octets);
    let mut seed = 10;
    let mut pairs = algorithms.map(|algorithm| {
        seed += 1;
        let links = links.each_ref().map(Rc::clone);
        let start = Instant::from_nanos(1);
        let mut pair = Pair::new(ends(algorithm, seed), links, start, Rng::new(seed));
        pair.check = false;
        pair
    });
    let mut at_start = None;
    loop {
        let times = pairs
            .each_ref()
            .map(|pair| pair.next_time().expect("they go on"));
        let first = usize::from(times[1] < times[0]);
        let elapsed = times[first].saturating_since(Instant::ZERO);
        if elapsed > WARM_UP + MEASURED {
            break;
        }
        if elapsed > WARM_UP {
            at_start.get_or_insert_with(|| pairs.each_ref().map(|pair| pair.ends[1].read));
        }
        pairs[first].step();
    }
    let at_start = at_start.expect("it is longer than that");
    let link = RATE_MEGABITS as f64 * 125_000.0 * PAYLOAD_SHARE * MEASURED.as_secs_f64();
    let infos = pairs.each_ref().map(|pair| {
        let connection = pair.ends[0].connection.as_ref().expect("side 0 connected");
        connection.info(pair.now)
    });
    let again: u64 = infos.iter().map(|info| info.octets_retransmitted).sum();
    let sent: u64 = infos.iter().map(|info| info.octets_sent).sum();
    Shares {
        of_link: [0, 1].map(|it| f64::from(pairs[it].ends[1].read - at_start[it]) / link),
        sent_again: again as f64 / sent as f64,
    }
}

const HEADING: &str = "\
# Two connections over 40 Mbit/s and 30 ms, from 20 s to 60 s. Written by tests/fairness.rs.
# both algorithms, length of the queue as a multiple of what the path holds, shares of the link, Jain's index, octets sent again.
";

/// Lengths of the queue in halves of what the path holds: every change meets two of them.
const ALL: [u64; 4] = [1, 2, 4, 8];
const SOME: [u64; 2] = [2, 8];

/// Lines of the table; those that are not fair are added to `unfair`.
fn lines(queues: &[u64], unfair: &mut String) -> String {
    let product = RATE_MEGABITS * 125 * u64::try_from(RTT.as_millis()).expect("short");
    let mut table = String::new();
    for algorithms in [[Cubic, Cubic], [Bbr, Cubic], [Bbr, Bbr]] {
        for halves in queues {
            let shares = share(algorithms, product * halves / 2);
            let [a, b] = shares.of_link;
            let line = format!(
                "{:>5} {:>5}  {:.1} BDP  {:>5.1} % {:>5.1} %  {:.3}  {:>5.2} %\n",
                algorithms[0].name(),
                algorithms[1].name(),
                *halves as f64 / 2.0,
                a * 100.0,
                b * 100.0,
                shares.jain(),
                shares.sent_again * 100.0,
            );
            // Nobody is starved, two of a kind share alike, and the link is used.
            let is_of_a_kind = algorithms[0] == algorithms[1];
            let least = if is_of_a_kind { 0.9 } else { 0.0 };
            if shares.jain() < least || a.min(b) < 0.05 || a + b < 0.85 {
                *unfair += &line;
            }
            table += &line;
        }
    }
    table
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fairness.txt")
}

#[test]
fn two_connections_share_a_bottleneck() {
    let mut unfair = String::new();
    let lines = lines(&SOME, &mut unfair);
    assert!(unfair.is_empty(), "unfair:\n{unfair}");
    let committed = fs::read_to_string(file()).unwrap_or_default();
    for line in lines.lines() {
        let is_known = committed.lines().any(|known| known == line);
        assert!(
            is_known,
            "the table has changed; if that is meant, run with UPDATE_FAIRNESS=1 and --ignored:\n{line}"
        );
    }
}

#[test]
#[ignore = "takes a minute"]
fn the_table_is_current() {
    let mut unfair = String::new();
    let table = HEADING.to_owned() + &lines(&ALL, &mut unfair);
    if std::env::var_os("UPDATE_FAIRNESS").is_some() {
        fs::write(file(), &table).expect("the table can be written");
    }
    assert!(unfair.is_empty(), "unfair:\n{unfair}");
    let committed = fs::read_to_string(file()).unwrap_or_default();
    assert!(
        committed == table,
        "the table has changed; if that is meant, run with UPDATE_FAIRNESS=1:\n{table}"
    );
}
