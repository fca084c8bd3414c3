//! A feed handler: 200 multicast groups on one epoll set, at the highest rate that the kernel
//! receives without loss.

use std::path::PathBuf;
use std::time::Duration;

use testkit::{Namespaces, Pair, Running};

use crate::arguments::BenchOptions;
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::median::median;
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use crate::table::{layout, row};

const GROUPS: &str = "200";
const PORT: &str = "7000";
const TIMEOUT: Duration = Duration::from_secs(20);
/// Time of a measurement, and of one that looks for the rate.
const MSEC: u32 = 2000;
const SEARCH_MSEC: u32 = 1000;
/// The first rate that is tried, in datagrams a second, and the step to the next.
const FIRST_RATE: u64 = 50_000;
const STEP_PERCENT: u64 = 15;

/// Whose sockets the receiver has, and how it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    name: &'static str,
    has_library: bool,
    spins: bool,
    environment: &'static [(&'static str, &'static str)],
}

const fn case(name: &'static str, has_library: bool, spins: bool) -> Case {
    Case {
        name,
        has_library,
        spins,
        environment: &[],
    }
}

const KERNEL: Case = case("kernel", false, false);
const CASES: [Case; 6] = [
    KERNEL,
    case("kernel, spinning", false, true),
    case("libvma", true, false),
    Case {
        environment: &[("VMA_SELECT_POLL", "0")],
        ..case("libvma, sleeping at once", true, false)
    },
    Case {
        environment: &[("VMA_SELECT_POLL", "0"), ("VMA_CQ_MODERATION_ENABLE", "0")],
        ..case("the same, woken by each", true, false)
    },
    Case {
        environment: &[("VMA_SELECT_POLL", "0"), ("VMA_XDP_POOL_FRAMES", "131072")],
        ..case("sleeping at once, 131,072 frames", true, false)
    },
];

/// What a receiver says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Feed {
    received: u64,
    sent: u64,
    p50_usec: f64,
    p99_usec: f64,
    /// CPU time of the receiving process for each datagram, in nanoseconds.
    cpu_nsec: f64,
    /// Datagrams a second that were sent.
    rate: u64,
}

struct Stage {
    pair: Pair,
    program: PathBuf,
    library: PathBuf,
    home: tempfile::TempDir,
}

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    setup::ensure(Whom::Measuring)?;
    let built = cargo::build(&["build", "--release", "--package", "libvma"])?;
    let home = tempfile::Builder::new().prefix("vma-feed-").tempdir()?;
    let pair = Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?;
    let raise = "/proc/sys/net/ipv4/igmp_max_memberships";
    pair.b.enter(|| std::fs::write(raise, "1000"))?;
    let stage = Stage {
        pair,
        program: cargo::c_program("feed", home.path(), &[])?,
        library: built.path("vma")?.to_owned(),
        home,
    };
    let rate = stage.highest_rate()?;
    let mut feeds = vec![Vec::new(); CASES.len()];
    for number in 1..=options.rounds {
        for (case, feeds) in CASES.iter().zip(&mut feeds) {
            interrupt::check()?;
            feeds.push(stage.measure(case, rate, MSEC)?);
        }
        say(format_args!("  round {number} of {}", options.rounds));
    }
    let mut rows = vec![row![
        "200 groups, one epoll set",
        "lost",
        "most lost",
        "CPU ns each",
        "p50 us",
        "p99 us",
        "sent a second"
    ]];
    for (case, feeds) in CASES.iter().zip(&feeds) {
        let of = |value: fn(&Feed) -> f64| median(feeds.iter().map(value));
        let lost = feeds
            .iter()
            .map(|feed| feed.sent.saturating_sub(feed.received));
        rows.push(row![
            case.name,
            lost.clone().sum::<u64>().to_string(),
            lost.max().unwrap_or(0).to_string(),
            format!("{:.0}", of(|feed| feed.cpu_nsec)),
            format!("{:.1}", of(|feed| feed.p50_usec)),
            format!("{:.1}", of(|feed| feed.p99_usec)),
            format!("{:.0}", of(|feed| feed.rate as f64))
        ]);
    }
    print(&format!(
        "\n{} rounds of {MSEC} ms, a CPU for each end\n\n{}",
        options.rounds,
        layout(&rows)
    ))
}

impl Stage {
    /// Datagrams a second. The last rate before two in turn with which something was lost, or that
    /// the sender did not reach.
    fn highest_rate(&self) -> Result<u64, Failure> {
        let (mut highest, mut missed, mut rate) = (FIRST_RATE, 0, FIRST_RATE);
        while missed < 2 {
            interrupt::check()?;
            let feed = self.measure(&KERNEL, rate, SEARCH_MSEC)?;
            if feed.received == feed.sent && feed.rate as f64 > 0.97 * rate as f64 {
                (highest, missed) = (rate, 0);
            } else {
                missed += 1;
            }
            rate += rate * STEP_PERCENT / 100;
        }
        say(format_args!(
            "the kernel loses nothing up to {highest} a second"
        ));
        Ok(highest)
    }

    fn measure(&self, case: &Case, rate: u64, msec: u32) -> Result<Feed, Failure> {
        let address = Pair::ADDRESS_B.to_string();
        let mut receiver = self.pair.b.command("taskset");
        receiver.args(["-c", "1"]);
        if case.has_library {
            let mut preload = std::ffi::OsString::from("LD_PRELOAD=");
            preload.push(&self.library);
            receiver.arg("env").arg(preload);
        }
        receiver
            .arg(&self.program)
            .args(["receive", &address, GROUPS, PORT])
            .args(case.spins.then_some("spin"))
            .env("VMA_STATS_SHMEM_DIR", self.home.path())
            .env("VMA_TRACELEVEL", "error")
            .envs(case.environment.iter().copied());
        let mut receiver = Running::start(receiver)?;
        if !receiver.wait_for_output("ready", TIMEOUT) {
            let said = receiver.stderr();
            return Err(Failure::Reason(format!("{}: {said}", case.name)));
        }
        let mut sender = self.pair.a.command("taskset");
        sender.args(["-c", "0"]).arg(&self.program).args([
            "send",
            &Pair::ADDRESS_A.to_string(),
            GROUPS,
            PORT,
            &rate.to_string(),
            &msec.to_string(),
        ]);
        let sender = Running::start(sender)?.wait(TIMEOUT)?;
        let receiver = receiver.wait(TIMEOUT)?;
        feed(&receiver.stdout, &sender.stdout)
            .ok_or_else(|| Failure::Reason(format!("{}: {receiver:?} {sender:?}", case.name)))
    }
}

/// Of what both ends have said.
fn feed(receiver: &str, sender: &str) -> Option<Feed> {
    let number = |text: &str, name: &str| {
        let mut words = text.split_whitespace();
        words.find(|word| *word == name)?;
        words.next()?.parse::<u64>().ok()
    };
    let of = |name: &str| number(receiver, name);
    let received = of("received")?;
    Some(Feed {
        received,
        sent: of("sent")?,
        p50_usec: of("p50")? as f64 / 1e3,
        p99_usec: of("p99")? as f64 / 1e3,
        cpu_nsec: of("cpu")? as f64 / received.max(1) as f64,
        rate: number(sender, "rate")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_tell_their_part() {
        let receiver = "ready\nreceived 8 sent 10 p50 1500 p99 2500 cpu 4000 wall 7\n";
        let expected = Feed {
            received: 8,
            sent: 10,
            p50_usec: 1.5,
            p99_usec: 2.5,
            cpu_nsec: 500.0,
            rate: 77,
        };
        assert_eq!(feed(receiver, "rate 77\n"), Some(expected));
        assert_eq!(feed("ready\n", "rate 77\n"), None);
        assert_eq!(feed(receiver, ""), None);
    }
}
