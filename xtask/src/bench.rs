//! `cargo xtask bench`: libvma against the kernel's sockets and against the bare device.

mod calls;
mod cost;
mod everyday;
mod feed;
mod floor;
mod gate;
mod many;
mod report;
mod rings;
mod services;
mod short;
mod streams;
mod system;
mod throughput;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};

use crate::arguments::{BenchOptions, Subject};
use crate::busy::Meter;
use crate::cargo::{self, Artifacts};
use crate::failure::Failure;
use crate::interrupt;
use crate::measure::{self, Protocol, Sockets, Stage, Throughput};
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use crate::sockperf::Latency;
use cost::Cost;
pub(crate) use everyday::{compare, gate as everyday_gate, long_gate as long_everyday_gate};
pub(crate) use gate::gate;
use system::System;

/// Time of one sockperf measurement and of one of the floor.
const SECONDS: u32 = 2;

/// Everything that is measured once a round, one after the other, so that a change of the machine's
/// mood meets them all.
#[derive(Clone, Debug)]
struct Round {
    kernel: Latency,
    one_cpu: Latency,
    libvma: Latency,
    floor: Latency,
    kernel_throughput: Throughput,
    libvma_throughput: Throughput,
    /// The socket layer alone.
    costs: Vec<Cost>,
    /// Hooks, on descriptors that are not libvma's.
    hooks: Vec<Cost>,
    /// Epoll sets with few and with many members.
    epoll: Vec<Cost>,
}

pub(crate) fn run(options: &BenchOptions) -> Result<(), Failure> {
    measure::require_root("bench")?;
    match options.subject {
        Subject::Sockets => {}
        Subject::Services => return services::run(options),
        Subject::Everyday => return everyday::run(options),
        Subject::Streams => return streams::run(options),
        Subject::Short => return short::run(options),
        Subject::Feed => return feed::run(options),
        Subject::Rings => return rings::run(options),
        Subject::Many => return many::run(options),
        Subject::Calls => return calls::run(options),
        Subject::Throughput => return throughput::run(options),
    }
    setup::ensure(Whom::Measuring)?;
    let library = cargo::build(&["build", "--release", "--package", "libvma"])?;
    let library = library.path("vma")?;
    let floor = cargo::build(&[
        "build",
        "--release",
        "--package",
        "dev-xdp",
        "--example",
        "floor",
    ])?;
    let alone = Alone {
        null_device: build_bench("engine", "null_device")?,
        hooks: build_bench("libvma", "hooks")?,
        epoll: build_bench("engine", "epoll")?,
    };

    let stage = Stage::new(library.to_owned())?;
    say(format_args!("{} rounds of about 30 s each", options.rounds));
    let mut rounds = Vec::new();
    let mut busy = Meter::default();
    for number in 1..=options.rounds {
        busy.look()?;
        let round = measure_round(&stage, &floor, &alone)
            .map_err(|failure| failure.during(format_args!("round {number}")))?;
        say(format_args!(
            "  round {number} of {}: {}",
            options.rounds,
            report::progress(&round)
        ));
        rounds.push(round);
    }
    drop(stage);

    let medians = report::Medians::of(&rounds);
    let system = System::now(&busy);
    let verdicts = verdict::all(&medians);
    print(&report::table(&medians, &verdicts))?;
    let path = options
        .json
        .clone()
        .unwrap_or_else(|| default_path(library));
    write(&path, &report::json(&system, &rounds, &medians, &verdicts))?;
    busy.warn();
    say(format_args!("JSON: {}", path.display()));
    verdict::require(options.check, &verdicts)
}

/// Benchmarks of a part by itself.
struct Alone {
    null_device: Artifacts,
    hooks: Artifacts,
    epoll: Artifacts,
}

fn build_bench(package: &str, name: &str) -> Result<Artifacts, Failure> {
    cargo::build(&["bench", "--no-run", "--package", package, "--bench", name])
}

fn measure_round(stage: &Stage, floor: &Artifacts, alone: &Alone) -> Result<Round, Failure> {
    interrupt::check()?;
    let (kernel, _) = stage.ping_pong(Protocol::Udp, Sockets::Kernel, SECONDS)?;
    let (one_cpu, _) = stage.ping_pong(Protocol::Udp, Sockets::KernelOneCpu, SECONDS)?;
    let (libvma, _) = stage.ping_pong(Protocol::Udp, Sockets::Libvma, SECONDS)?;
    let floor = floor::measure(floor.path("floor")?, &stage.pair, SECONDS)?;
    let kernel_throughput = stage.throughput(Sockets::Kernel, SECONDS)?;
    let libvma_throughput = stage.throughput(Sockets::Libvma, SECONDS)?;
    let costs = cost::measure(alone.null_device.path("null_device")?)?;
    let hooks = cost::measure(alone.hooks.path("hooks")?)?;
    let epoll = cost::measure(alone.epoll.path("epoll")?)?;
    Ok(Round {
        kernel,
        one_cpu,
        libvma,
        floor,
        kernel_throughput,
        libvma_throughput,
        costs,
        hooks,
        epoll,
    })
}

/// `bench.json` in cargo's target directory, which holds `release/libvma.so`.
fn default_path(library: &Path) -> PathBuf {
    let target = library.ancestors().nth(2).unwrap_or_else(|| Path::new("."));
    target.join("bench.json")
}

fn write(path: &Path, document: &serde_json::Value) -> Result<(), Failure> {
    fs::write(path, format!("{document:#}\n"))
        .map_err(|error| Failure::Reason(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_go_beside_the_profile_directories() {
        let path = default_path(Path::new("/w/target/release/libvma.so"));
        assert_eq!(path, Path::new("/w/target/bench.json"));
    }
}
