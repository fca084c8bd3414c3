//! Threads that send, each by a socket of its own: by one ring together, and by rings of their own.

use std::path::Path;
use std::time::Duration;

use testkit::{Namespaces, Pair, Running};

use crate::arguments::BenchOptions;
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::median::median;
use crate::needs::Purpose;
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

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    setup::ensure(Purpose::Measuring)?;
    let built = cargo::build(&["build", "--release", "--package", "libvma"])?;
    let library = built.path("vma")?;
    let home = tempfile::Builder::new().prefix("vma-rings-").tempdir()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libvma/tests/c/ring_load.c");
    let program = testkit::compile_c(&source, home.path())?;
    let pair = Namespaces::new().queues(QUEUES).create();
    let pair = pair.map_err(|skip| Failure::Reason(skip.to_string()))?;
    // Nobody reads it: what is too much for its queue is dropped.
    let _peer = pair
        .a
        .enter(|| std::net::UdpSocket::bind((Pair::ADDRESS_A, PORT)))?;
    let mut rates = vec![vec![Vec::new(); THREADS.len()]; CASES.len()];
    for number in 1..=options.rounds {
        for ((name, environment), rates) in CASES.iter().zip(&mut rates) {
            for (threads, rates) in THREADS.iter().zip(rates) {
                interrupt::check()?;
                let mut sender = pair.b.command("env");
                if let Some(environment) = environment {
                    let mut preload = std::ffi::OsString::from("LD_PRELOAD=");
                    preload.push(library);
                    sender.arg(preload).envs(environment.iter().copied());
                }
                sender
                    .arg(&program)
                    .args([
                        &Pair::ADDRESS_A.to_string(),
                        &PORT.to_string(),
                        *threads,
                        MSEC,
                    ])
                    .env("VMA_STATS_SHMEM_DIR", home.path())
                    .env("VMA_TRACELEVEL", "error");
                let finished = Running::start(sender)?.wait(TIMEOUT)?;
                let rate: Result<f64, _> = finished.stdout.trim().parse();
                rates.push(rate.map_err(|_| Failure::Reason(format!("{name}: {finished:?}")))?);
            }
        }
        say(format_args!("  round {number} of {}", options.rounds));
    }
    let mut rows = vec![row!["thousand datagrams/s", "1 thread", "2", "4", "8"]];
    for ((name, _), rates) in CASES.iter().zip(&rates) {
        let of = |threads: usize| format!("{:.0}", median(rates[threads].iter().copied()) / 1e3);
        rows.push(row![*name, of(0), of(1), of(2), of(3)]);
    }
    print(&format!(
        "\n{} rounds of {MSEC} ms, a socket for each thread, 64 octets, veth with {QUEUES} queues\n\n{}",
        options.rounds,
        layout(&rows)
    ))
}
