//! Round trips through each of the calls that receive a datagram, and how long each takes to wake
//! from a sleep.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Namespaces, Pair, Running};

use crate::arguments::BenchOptions;
use crate::bench::floor;
use crate::bench::streams::Preload;
use crate::bench::verdict::{self, Limit, Verdict};
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::median::median;
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use crate::table::{layout, row};

const PORT: &str = "7000";
const TIMEOUT: Duration = Duration::from_secs(20);
const CALLS: [&str; 4] = ["recvfrom", "select", "poll", "epoll"];
const BYTES: &str = "64";
const PING_MSEC: &str = "500";
const WAKE_MSEC: &str = "600";
/// Between two datagrams that wake: whoever has got one sleeps again long before the next.
const PAUSE_USEC: &str = "500";
/// Wakes that are worth a median.
const WAKES_MIN: f64 = 500.0;

/// Whose sockets both ends have, on which CPUs, and how they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) name: &'static str,
    sender_has_library: bool,
    receiver_has_library: bool,
    cpus: [&'static str; 2],
    spins: bool,
    environment: &'static [(&'static str, &'static str)],
}

const KERNEL: Ends = Ends {
    name: "kernel",
    sender_has_library: false,
    receiver_has_library: false,
    cpus: ["0", "1"],
    spins: false,
    environment: &[],
};
/// The kernel's line is the best of these.
pub(super) const KERNELS: [Ends; 3] = [
    KERNEL,
    Ends {
        name: "kernel, one CPU",
        cpus: ["1", "1"],
        ..KERNEL
    },
    Ends {
        name: "kernel, spinning",
        spins: true,
        ..KERNEL
    },
];
pub(super) const LIBVMA: Ends = Ends {
    name: "libvma",
    sender_has_library: true,
    receiver_has_library: true,
    ..KERNEL
};
/// Who sends is the kernel's, and does not wake anybody else.
const ASLEEP: Ends = Ends {
    name: "libvma, asleep",
    receiver_has_library: true,
    environment: &[("VMA_RX_POLL", "0"), ("VMA_SELECT_POLL", "0")],
    ..KERNEL
};

/// The program, and where it runs.
pub(super) struct Stage {
    pair: Pair,
    program: PathBuf,
    library: PathBuf,
    home: tempfile::TempDir,
}

/// What an end says of itself, as names and numbers.
#[derive(Clone, Debug)]
pub(super) struct Said(String);

impl Said {
    pub(super) fn number(&self, name: &str) -> Result<f64, Failure> {
        let mut words = self.0.split_whitespace();
        let number = words.find(|word| *word == name).and_then(|_| words.next());
        let number = number.and_then(|word| word.parse().ok());
        number.ok_or_else(|| Failure::Reason(format!("no {name} in {:?}", self.0)))
    }
}

impl Stage {
    pub(super) fn new() -> Result<Self, Failure> {
        setup::ensure(Whom::Measuring)?;
        let built = cargo::build(&["build", "--release", "--package", "libvma"])?;
        let home = tempfile::Builder::new().prefix("vma-calls-").tempdir()?;
        Ok(Self {
            pair: Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?,
            program: cargo::c_program("calls", home.path(), &["-O2"])?,
            library: built.path("vma")?.to_owned(),
            home,
        })
    }

    /// Runs both ends, `receiver` and `sender` being their roles and calls. Returns what they say,
    /// the sender first. An echo is killed, and says nothing.
    pub(super) fn run(
        &self,
        ends: &Ends,
        sender: [&str; 2],
        receiver: [&str; 2],
        [bytes, msec, pause_usec]: [&str; 3],
    ) -> Result<[Said; 2], Failure> {
        interrupt::check()?;
        let address = Pair::ADDRESS_B.to_string();
        let command = |namespace, cpu, has_library: bool, [role, call]: [&str; 2]| {
            let preload = Preload {
                library: has_library.then_some(&*self.library),
                home: self.home.path(),
            };
            let mut command = preload.command(namespace, cpu, &self.program);
            command
                .args([role, &address, PORT, call, bytes, msec, pause_usec])
                .args(ends.spins.then_some("spin"))
                .envs(ends.environment.iter().copied());
            command
        };
        let (pair, [sender_cpu, receiver_cpu]) = (&self.pair, ends.cpus);
        let has_library = ends.receiver_has_library;
        let mut peer = Running::start(command(&pair.b, receiver_cpu, has_library, receiver))?;
        if !peer.wait_for_output("ready", TIMEOUT) {
            return Err(Failure::Reason(format!("{}: {}", ends.name, peer.stderr())));
        }
        let has_library = ends.sender_has_library;
        let sent = Running::start(command(&pair.a, sender_cpu, has_library, sender))?;
        let sent = sent.wait(TIMEOUT)?;
        let received = match receiver[0] {
            "echo" => String::new(),
            _ => peer.wait(TIMEOUT)?.stdout,
        };
        Ok([Said(sent.stdout), Said(received)])
    }

    /// Half a round trip in microseconds, median and 99th percentile.
    fn ping(&self, ends: &Ends, call: &str) -> Result<[f64; 2], Failure> {
        let times = [BYTES, PING_MSEC, "0"];
        let [said, _] = self.run(ends, ["ping", call], ["echo", call], times)?;
        Ok([said.number("p50")? / 1e3, said.number("p99")? / 1e3])
    }

    /// From the send call to the return of a receive call that has slept, in microseconds: the
    /// median. And the CPU time of each.
    fn wake(&self, ends: &Ends, call: &str) -> Result<[f64; 2], Failure> {
        let times = [BYTES, WAKE_MSEC, PAUSE_USEC];
        let [_, said] = self.run(ends, ["send", "sendto"], ["sink", call], times)?;
        let received = said.number("received")?;
        if received < WAKES_MIN {
            let reason = format!("{}, {call}: only {received} received", ends.name);
            return Err(Failure::Reason(reason));
        }
        Ok([
            said.number("p50")? / 1e3,
            said.number("cpu")? / received / 1e3,
        ])
    }

    fn floor(&self, program: &Path) -> Result<[f64; 2], Failure> {
        let latency = floor::measure(program, &self.pair, 1)?;
        Ok([latency.p50_usec, latency.p99_usec])
    }
}

/// Two numbers of each round.
type Rounds = Vec<[f64; 2]>;

fn middle(rounds: &Rounds, which: usize) -> f64 {
    median(rounds.iter().map(|round| round[which]))
}

/// The median of the ratios of each round's `which`, since the machine's mood changes from round to
/// round.
fn ratio(ours: &Rounds, which: usize, theirs: &Rounds) -> f64 {
    let pairs = ours.iter().zip(theirs);
    median(pairs.map(|(ours, theirs)| ours[which] / theirs[which]))
}

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    let stage = Stage::new()?;
    let example = ["--package", "dev-xdp", "--example", "floor"];
    let floor = cargo::build(&[&["build", "--release"], &example[..]].concat())?;
    let floor = floor.path("floor")?;
    let ends = [KERNELS[0], KERNELS[1], KERNELS[2], LIBVMA];
    let sleepers = [KERNEL, ASLEEP];
    let mut floors = Rounds::new();
    let mut pings = vec![vec![Rounds::new(); ends.len()]; CALLS.len()];
    let mut wakes = vec![vec![Rounds::new(); sleepers.len()]; CALLS.len()];
    for number in 1..=options.rounds {
        floors.push(stage.floor(floor)?);
        for (call, (pings, wakes)) in CALLS.iter().zip(pings.iter_mut().zip(&mut wakes)) {
            for (ends, pings) in ends.iter().zip(pings) {
                pings.push(stage.ping(ends, call)?);
            }
            for (ends, wakes) in sleepers.iter().zip(wakes) {
                wakes.push(stage.wake(ends, call)?);
            }
        }
        say(format_args!("  round {number} of {}", options.rounds));
    }
    let mut rows = vec![row![
        "half round trip",
        "call",
        "p50 us",
        "p99 us",
        "of the floor's p50"
    ]];
    let show = |rounds: &Rounds, which| format!("{:.2}", middle(rounds, which));
    rows.push(row!["floor", "", show(&floors, 0), show(&floors, 1)]);
    for (call, pings) in CALLS.iter().zip(&pings) {
        for (ends, pings) in ends.iter().zip(pings) {
            let by_floor = format!("{:.2}", ratio(pings, 0, &floors));
            rows.push(row![
                ends.name,
                *call,
                show(pings, 0),
                show(pings, 1),
                by_floor
            ]);
        }
    }
    let head = [
        "from send to a sleeping receiver",
        "call",
        "p50 us",
        "CPU us each",
        "of the kernel's",
    ];
    rows.push(Vec::new());
    rows.push(head.map(str::to_owned).to_vec());
    for (call, wakes) in CALLS.iter().zip(&wakes) {
        for (ends, rounds) in sleepers.iter().zip(wakes) {
            let by_kernel = format!("{:.2}", ratio(rounds, 0, &wakes[0]));
            rows.push(row![
                ends.name,
                *call,
                show(rounds, 0),
                show(rounds, 1),
                by_kernel
            ]);
        }
    }
    let verdicts = verdicts(&floors, &pings, &wakes);
    print(&format!(
        "\n{} rounds, {BYTES} bytes, a CPU for each end\n\n{}\n{}\n",
        options.rounds,
        layout(&rows),
        verdict::lines(&verdicts)
    ))?;
    verdict::require(options.check, &verdicts)
}

fn verdicts(floors: &Rounds, pings: &[Vec<Rounds>], wakes: &[Vec<Rounds>]) -> Vec<Verdict> {
    let ours = || pings.iter().filter_map(|pings| pings.last());
    let dearest = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NAN, f64::max);
    let medians: Vec<f64> = ours().map(|rounds| middle(rounds, 0)).collect();
    let cheapest = medians.iter().copied().fold(f64::NAN, f64::min);
    vec![
        Verdict {
            name: "p50, dearest call / floor",
            value: dearest(&mut ours().map(|rounds| ratio(rounds, 0, floors))),
            limit: Limit::AtMost(1.2),
        },
        Verdict {
            name: "p50, dearest call / cheapest",
            value: dearest(&mut medians.iter().copied()) / cheapest,
            limit: Limit::AtMost(1.1),
        },
        Verdict {
            name: "waking, dearest call / kernel",
            value: dearest(&mut wakes.iter().map(|wakes| ratio(&wakes[1], 0, &wakes[0]))),
            limit: Limit::AtMost(1.3),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_tells_its_numbers() {
        let said = Said("ready\nreceived 8 cpu 4000 p50 1500 p99 x\n".to_owned());
        assert_eq!(said.number("p50").unwrap(), 1500.0);
        assert!(said.number("p99").is_err() && said.number("wall").is_err());
    }

    #[test]
    fn ratios_are_those_of_the_rounds() {
        let (ours, theirs) = (vec![[2.0, 0.0], [30.0, 0.0]], vec![[1.0, 0.0], [10.0, 0.0]]);
        assert_eq!(ratio(&ours, 0, &theirs), 2.5);
    }
}
