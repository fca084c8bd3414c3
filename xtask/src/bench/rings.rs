//! Threads that send or receive, each by a socket of its own: by one ring together, and by rings of
//! their own.

use std::ffi::OsString;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use testkit::{Namespace, Namespaces, Pair, Running};

use crate::arguments::BenchOptions;
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::median::median;
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use crate::table::{layout, row};

const QUEUES: u32 = 8;
const PORT: u16 = 7000;
const MSEC: &str = "500";
const TIMEOUT: Duration = Duration::from_secs(30);
const THREADS: [&str; 4] = ["1", "2", "4", "8"];

type Environment = &'static [(&'static str, &'static str)];

/// What the threads send by: nothing for the kernel's sockets, else the environment of the library.
const CASES: [(&str, Option<Environment>); 5] = [
    ("kernel", None),
    ("one ring", Some(&[])),
    (
        "2 rings",
        Some(&[PER_THREAD, ("VMA_RING_LIMIT_PER_INTERFACE", "2")]),
    ),
    (
        "4 rings",
        Some(&[PER_THREAD, ("VMA_RING_LIMIT_PER_INTERFACE", "4")]),
    ),
    ("8 rings", Some(&[PER_THREAD])),
];
const PER_THREAD: (&str, &str) = ("VMA_RING_ALLOCATION_LOGIC_TX", "20");

/// The same for threads that receive.
const RECEIVING: [(&str, Option<Environment>); 5] = [
    ("kernel", None),
    ("one ring", Some(&[])),
    (
        "2 rings",
        Some(&[RECEIVES_PER_THREAD, ("VMA_RING_LIMIT_PER_INTERFACE", "2")]),
    ),
    (
        "4 rings",
        Some(&[RECEIVES_PER_THREAD, ("VMA_RING_LIMIT_PER_INTERFACE", "4")]),
    ),
    ("8 rings", Some(&[RECEIVES_PER_THREAD])),
];
const RECEIVES_PER_THREAD: (&str, &str) = ("VMA_RING_ALLOCATION_LOGIC_RX", "20");
/// Longer than receivers take to come and to measure.
const SENDER_MSEC: &str = "20000";

/// What is measured with.
struct Bench {
    library: PathBuf,
    home: TempDir,
    sender: PathBuf,
    receiver: PathBuf,
    pair: Pair,
}

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    setup::ensure(Whom::Measuring)?;
    let built = cargo::build(&["build", "--release", "--package", "libvma"])?;
    let home = tempfile::Builder::new().prefix("vma-rings-").tempdir()?;
    let compile = |name: &str| cargo::c_program(name, home.path(), &[]);
    let pair = Namespaces::new().queues(QUEUES).create();
    let bench = Bench {
        library: built.path("vma")?.to_owned(),
        sender: compile("ring_load")?,
        receiver: compile("ring_receive_load")?,
        pair: pair.map_err(|skip| Failure::Reason(skip.to_string()))?,
        home,
    };
    let sent = bench.table(options, &CASES, Bench::sent)?;
    let received = bench.table(options, &RECEIVING, Bench::received)?;
    let rounds = options.rounds;
    print(&format!(
        "\n{rounds} rounds of {MSEC} ms, a socket for each thread, 64 octets, veth with {QUEUES} queues. Threads that send:\n\n{sent}\n\
         Threads that receive what as many send by a queue each:\n\n{received}"
    ))
}

impl Bench {
    /// The rates of all cases with all numbers of threads, measured in turn.
    fn table(
        &self,
        options: &BenchOptions,
        cases: &[(&str, Option<Environment>)],
        measure: impl Fn(&Self, Option<Environment>, &str) -> Result<f64, Failure>,
    ) -> Result<String, Failure> {
        let mut rates = vec![vec![Vec::new(); THREADS.len()]; cases.len()];
        for number in 1..=options.rounds {
            for ((_, environment), rates) in cases.iter().zip(&mut rates) {
                for (threads, rates) in THREADS.iter().zip(rates) {
                    interrupt::check()?;
                    rates.push(measure(self, *environment, threads)?);
                }
            }
            say(format_args!("  round {number} of {}", options.rounds));
        }
        let mut rows = vec![row!["thousand datagrams/s", "1 thread", "2", "4", "8"]];
        for ((name, _), rates) in cases.iter().zip(&rates) {
            let of =
                |threads: usize| format!("{:.0}", median(rates[threads].iter().copied()) / 1e3);
            rows.push(row![*name, of(0), of(1), of(2), of(3)]);
        }
        Ok(layout(&rows))
    }

    fn command(
        &self,
        namespace: &Namespace,
        environment: Option<Environment>,
        program: &Path,
    ) -> Command {
        let mut command = namespace.command("env");
        if let Some(environment) = environment {
            let mut preload = OsString::from("LD_PRELOAD=");
            preload.push(&self.library);
            command.arg(preload).envs(environment.iter().copied());
        }
        command
            .arg(program)
            .env("VMA_STATS_SHMEM_DIR", self.home.path())
            .env("VMA_TRACELEVEL", "error");
        command
    }

    /// Datagrams a second, to a socket that nobody reads: what is too much for its queue is
    /// dropped.
    fn sent(&self, environment: Option<Environment>, threads: &str) -> Result<f64, Failure> {
        let bind = || UdpSocket::bind((Pair::ADDRESS_A, PORT));
        let _peer = self.pair.a.enter(bind)?;
        let mut sender = self.command(&self.pair.b, environment, &self.sender);
        let (to, port) = (Pair::ADDRESS_A.to_string(), PORT.to_string());
        sender.args([&to, &port, threads, MSEC]);
        let finished = Running::start(sender)?.wait(TIMEOUT)?;
        let rate: Result<f64, _> = finished.stdout.trim().parse();
        rate.map_err(|_| Failure::Reason(format!("{finished:?}")))
    }

    /// The same of what is received. The senders have a queue each, and so has what they send to a
    /// thread.
    fn received(&self, environment: Option<Environment>, threads: &str) -> Result<f64, Failure> {
        let mut receiver = self.command(&self.pair.b, environment, &self.receiver);
        let port = PORT.to_string();
        receiver.args([&port, threads, MSEC]);
        let mut receiver = Running::start(receiver)?;
        if !receiver.wait_for_output("bound", TIMEOUT) {
            return Err(Failure::Reason(receiver.stderr()));
        }
        let mut sender = self.command(&self.pair.a, Some(&[PER_THREAD]), &self.sender);
        let to = Pair::ADDRESS_B.to_string();
        sender.args([&to, &port, threads, SENDER_MSEC, "apart"]);
        let sender = Running::start(sender)?;
        let finished = receiver.wait(TIMEOUT)?;
        drop(sender);
        let rate = finished
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("rate "));
        rate.and_then(|rate| rate.trim().parse().ok())
            .ok_or_else(|| Failure::Reason(format!("{finished:?}")))
    }
}
