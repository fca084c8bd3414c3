//! Nothing breaks under preload: ordinary programs say and return the same with the library as
//! without it.
//!
//! Each program is a script in `tests/programs`, run by bash with the library preloaded into bash
//! and all that it starts.

mod programs;

use std::fmt::Write;
use std::path::Path;

use crate::evidence::PastKernel;
use crate::stage::{Run, Stage};
use programs::{PROGRAMS, Program};
use testkit::{Finished, Skip, or_skip};

/// Fewer than this on a Debian machine with root, and the matrix says too little.
const PROGRAMS_MIN: usize = 25;

/// Datagrams past the kernel that a program which talks UDP over IPv4 has at least.
const ACCELERATED_DATAGRAMS_MIN: u64 = 2;

/// What the log says of an end of a connection that goes through memory.
const SHARES_MEMORY: &str = "through memory that the peer shares";

/// A way to run with the library.
struct Way {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// Whether standard error must be the same, too: the library says nothing there.
    quiet: bool,
}

const WAYS: [Way; 3] = [
    Way {
        name: "default settings",
        environment: &[],
        quiet: false,
    },
    Way {
        name: "VMA_SPEC=latency",
        environment: &[("VMA_TRACELEVEL", "0"), ("VMA_SPEC", "latency")],
        quiet: true,
    },
    Way {
        name: "connections within the host through memory, a debug log in a file",
        environment: &[("VMA_TRACELEVEL", "debug"), ("VMA_SHM", "1")],
        quiet: true,
    },
];

fn compare(name: &'static str) {
    compare_on(name, |name| Stage::new(name, None));
}

fn compare_on(name: &'static str, stage: impl FnOnce(&'static str) -> Result<Stage, Skip>) {
    let (_, program) = PROGRAMS
        .iter()
        .find(|(other, _)| *other == name)
        .expect("the test comes from the table");
    or_skip!(program.is_here());
    let stage = or_skip!(stage(name));
    testkit::retry_if_paused(|| differences(name, program, &stage))
        .unwrap_or_else(|differences| panic!("{differences}"));
}

/// Runs the program without the library, and with it in every way.
fn differences(name: &str, program: &Program, stage: &Stage) -> Result<(), String> {
    let bare = stage
        .run(None)
        .map_err(|error| format!("{name} without the library: {error}"))?;
    if !bare.finished.status.success() || bare.finished.stdout.is_empty() {
        return Err(format!(
            "{name} fails without the library: {:#?}",
            bare.finished
        ));
    }
    let mut differences = String::new();
    for way in &WAYS {
        let told = match stage.run(Some(way.environment)) {
            Ok(seen) => judge(program, way, &bare.finished, &seen),
            Err(error) => error.to_string(),
        };
        if !told.is_empty() {
            let _ = write!(differences, "\n=== {name}, {}\n{told}", way.name);
        }
    }
    if differences.is_empty() {
        Ok(())
    } else {
        Err(differences)
    }
}

/// What is different, in words; nothing if nothing is.
fn judge(program: &Program, way: &Way, bare: &Finished, seen: &Run) -> String {
    let mut told = String::new();
    if seen.finished.status != bare.status {
        let _ = writeln!(told, "{}, not {}", seen.finished.status, bare.status);
    }
    let mut compare = |stream: &str, expected: &str, got: &str| {
        let (expected, got) = ((program.normalise)(expected), (program.normalise)(got));
        if expected != got {
            let difference = testkit::difference(&expected, &got);
            let _ = writeln!(told, "{stream}:\n{difference}");
        }
    };
    compare("standard output", &bare.stdout, &seen.finished.stdout);
    if way.quiet {
        compare("standard error", &bare.stderr, &seen.finished.stderr);
    }
    let PastKernel { packets, datagrams } = &seen.past_kernel;
    if let Some(accelerated) = program.accelerated {
        // Some say behind their name what the process does: "nsd: server 1".
        let first = |name: &str| name.split(':').next() == Some(accelerated);
        let is_it = |name: &str| accelerated.is_empty() || first(name);
        let counts = datagrams.iter().filter(|(name, _)| is_it(name));
        if counts.map(|(_, count)| count).sum::<u64>() < ACCELERATED_DATAGRAMS_MIN {
            let _ = writeln!(
                told,
                "too few datagrams past the kernel: {datagrams:?}; {packets} packets"
            );
        }
    }
    // Only the last way's log is there.
    let shared = seen.log.matches(SHARES_MEMORY).count();
    if !seen.log.is_empty() && shared < program.shared_min {
        let _ = writeln!(told, "only {shared} ends of connections share memory");
    }
    if !seen.left_over.is_empty() {
        let _ = writeln!(told, "left behind: {:?}", seen.left_over);
    }
    if !told.is_empty() {
        let words = [seen.finished.stderr.as_str(), &seen.log].concat();
        let _ = writeln!(told, "log:\n{}", testkit::log_tail(&words));
    }
    told
}

/// Between IPv6 addresses.
mod over_real_ipv6 {
    use super::{Stage, compare_on};

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn unbound() {
        compare_on("unbound", Stage::over_ipv6);
    }

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn knot() {
        compare_on("knot", Stage::over_ipv6);
    }

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn iperf3() {
        compare_on("iperf3", Stage::over_ipv6);
    }
}

/// Skips must not empty the matrix where all of it can run: a Debian machine with root.
#[test]
fn enough_programs_are_here() {
    let here: Vec<_> = PROGRAMS
        .iter()
        .filter(|(_, program)| program.is_here().is_ok())
        .map(|(name, _)| name)
        .collect();
    let must = testkit::is_root() && Path::new("/etc/debian_version").exists();
    assert!(
        !must || here.len() >= PROGRAMS_MIN,
        "only {} programs are here: {here:?} (cargo xtask setup)",
        here.len()
    );
}
