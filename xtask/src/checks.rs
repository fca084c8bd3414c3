//! `cargo xtask test`: everything that a change must pass.

mod ahead;
mod autogroup;
mod commands;
mod failures;
mod step;
mod stuck;
mod targets;
mod totals;

use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::arguments::{BenchOptions, Extent, Subject};
use crate::bench;
use crate::cargo;
use crate::failure::Failure;
use crate::fresh;
use crate::fuzz;
use crate::instructions;
use crate::licences;
use crate::machine;
use crate::needs::Whom;
use crate::output::{self, Loudness, print};
use crate::package::{self, Libc};
use crate::process;
use crate::setup;
use ahead::Ahead;
use commands::{
    POSIX, SERVICES, SHIPPED, WORKSPACE, by_verbs, debug_pass, everything, in_the_background,
    left_to_kernel, models_build, models_test, selected, shipped, suites, tested, tls,
};
use step::{Outcome, Step, long_tests, simple_step, skipped, step, tests, tests_beside};
use targets::Targets;
use totals::Totals;

/// The suites of the whole product, in `tests`.
const END_TO_END: &str = "end-to-end";
/// Its tests take time in simulations.
const TCP_ENGINE: &str = "tcp";
/// Those that load the machine.
const SUITES: &[&str] = &["faults", "processes", "tcp", "tools", "udp"];
/// What is measured, with nothing beside it.
const COSTS: &str = "costs";
/// It mostly sleeps, too.
const MULTICAST: &str = "multicast";

/// Modules of the suites that wait for timers most of their time, the kernel's and the library's.
const SLEEPING: &[&str] = &[
    "destroyed::",
    "held_listeners::",
    "link_errors::",
    "remains::",
    "seldom::",
    "stream_calls::",
    "stream_states::",
    "within_host::",
];

/// Their sockets poll, or what they compare depends on when it happens.
const CASES_AT_ONCE: &str = "--test-threads=4";

/// Of the POSIX cases those all of whose sockets stay the kernel's, for one reason or for all of
/// them, those of dual-stack sockets, and some over IPv6 addresses.
const LEFT_FOR_AN_OPTION: &[&str] = &["::option"];
const LEFT_OR_OVER_IPV6: &[&str] = &[
    "left_to_kernel::",
    "over_ipv6::",
    "over_real_ipv6::connect_errors",
    "over_real_ipv6::errors",
    "over_real_ipv6::many",
    "over_real_ipv6::queued",
    "over_real_ipv6::refused",
];
/// Tests that are not for every change: they take minutes each.
const LONG_TESTS: &[&[&str]] = &[
    &[WORKSPACE, "--test=costs", "readers::"],
    &[WORKSPACE, "--test=faults", "path_mtu::"],
    &[WORKSPACE, "--test=faults", "routes::"],
    &[WORKSPACE, "--test=faults", "stress::"],
    &[WORKSPACE, "--test=multicast"],
    &[WORKSPACE, "--test=processes", "hand_overs::"],
    &[WORKSPACE, "--test=services", "over_real_ipv6::"],
    &[WORKSPACE, "--test=services", "own_suites::"],
    &[WORKSPACE, "--test=udp", "integrity::"],
    &[WORKSPACE, "--test=udp", "rings::"],
    &[WORKSPACE, "--test=preloaded"],
    &[WORKSPACE, "--test=fairness", "--test=goodput"],
    &[WORKSPACE, "--test=linux", "transfer"],
];

/// Runs every step, also after one has failed, so that one run shows all there is to mend.
pub(crate) fn run(extent: Extent, loudness: Loudness) -> Result<(), Failure> {
    let begun = Instant::now();
    setup::ensure(Whom::Testing)?;
    if loudness == Loudness::Line {
        let path = cargo::target_directory().join("test.log");
        output::tell(format_args!(
            "what cargo and the tests say: {}",
            path.display()
        ));
        output::log_to(&path)?;
    }
    let _off = autogroup::Off::begin();
    // Beside what is compiled for the tests: the two share nothing, and each has minutes in which
    // it uses one CPU.
    let library = (extent != Extent::Quick).then(|| thread::spawn(cargo::release_library));
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--keep-going",
        "--",
        "-D",
        "warnings",
    ];
    let mut steps = vec![
        simple_step("format", cargo::command(&["fmt", "--all", "--check"]))?,
        simple_step("lints", cargo::command(&lints))?,
    ];
    if let Some(library) = library {
        steps.extend(usual_steps(library)?);
    } else {
        let command = || {
            let inside = ["--workspace", "--no-fail-fast", "--lib", "--bins"];
            cargo::command(&[&["test"][..], &inside].concat())
        };
        steps.push(tests("tests", command)?);
    }
    if extent == Extent::Long {
        steps.extend(long_steps()?);
    }

    for step in &mut steps {
        step.run_failed_again()?;
    }
    let mut totals = Totals::default();
    for step in &steps {
        step.totals().into_iter().for_each(|ran| totals.add(ran));
    }
    let passed = !steps
        .iter()
        .any(|step| matches!(step.outcome, Outcome::Failed));
    print(&summary(&steps, &totals, passed, begun.elapsed()))?;
    if passed {
        Ok(())
    } else {
        Err(Failure::new("a step failed, see above"))
    }
}

fn usual_steps(built: JoinHandle<Result<PathBuf, Failure>>) -> Result<Vec<Step>, Failure> {
    let mut documents = cargo::command(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--keep-going",
        "--document-private-items",
    ]);
    documents.env("RUSTDOCFLAGS", "-D warnings");
    let mut steps = vec![
        simple_step("documentation", documents)?,
        step("licences", licences::check)?,
    ];
    steps.push(simple_step("compile", everything())?);
    let mut library = None;
    steps.push(step("library", || {
        library = Some(built.join().map_err(|_| Failure::new("a panic"))??);
        Ok(String::new())
    })?);
    let later = [fuzz::build(), Ok(instructions::build()), Ok(models_build())];
    let ahead = Ahead::begin(later.into_iter().filter_map(Result::ok).collect());
    // What ships is the release build.
    if let Some(library) = &library {
        let skipped = SLEEPING.iter().flat_map(|name| ["--skip", name]);
        let mut sleeping = suites(library, SUITES);
        sleeping.args(["--", CASES_AT_ONCE]).args(SLEEPING);
        let mut multicast = suites(library, &[MULTICAST]);
        multicast.args(["--", CASES_AT_ONCE]);
        let mut services = suites(library, &[SERVICES]);
        services.args(["--", "--skip", SHIPPED]);
        let targets = Targets::read()?;
        let mut others = vec!["--lib".to_owned(), "--bins".to_owned()];
        others.extend(targets.but_of(&[END_TO_END, TCP_ENGINE]));
        // Of two that run at a time one mostly sleeps.
        let beside = [
            ("others", selected(library, &others)),
            ("sleeping", sleeping),
            ("multicast", multicast),
            ("kernel's", left_to_kernel(library, LEFT_FOR_AN_OPTION)),
            ("services", services),
            ("TCP engine", selected(library, &targets.of(TCP_ENGINE))),
            ("examples", selected(library, &["--doc".to_owned()])),
        ];
        let beside = beside.map(|(name, command)| (name, in_the_background(command)));
        let own = || {
            let mut command = suites(library, SUITES);
            command.arg("--").args(skipped.clone());
            command
        };
        steps.extend(tests_beside(("suites", own), beside.into())?);
        steps.push(tests("costs", || suites(library, &[COSTS]))?);
        let cases = || {
            let mut command = suites(library, &[POSIX]);
            command.args(["--", CASES_AT_ONCE]);
            command
        };
        // Both sleep more than they run.
        let beside = vec![("debug library", in_the_background(debug_pass()))];
        steps.extend(tests_beside(("POSIX", cases), beside)?);
        steps.push(tests("as shipped", || shipped(library))?);
    }
    steps.push(tests("TLS", tls)?);
    ahead.end();
    steps.push(models()?);
    steps.push(step("fuzzing", || fuzz::run_targets(None))?);
    steps.push(instruction_counts()?);
    if let Some(library) = &library {
        steps.push(step("gain", || bench::gate(library))?);
        steps.push(step("everyday", || bench::everyday_gate(library))?);
    }
    Ok(steps)
}

fn long_steps() -> Result<Vec<Step>, Failure> {
    let library = cargo::release_library()?;
    let mut steps = vec![step("cargo-deny", || {
        setup::ensure_cargo_deny()?;
        // Without the advisories, whose data base is in a git repository that not every machine
        // reaches.
        let parts = ["deny", "check", "licenses", "bans", "sources"];
        process::run(cargo::command(&parts)).map(|()| String::new())
    })?];
    steps.push(step("packages", || package::try_out(Libc::Own))?);
    steps.push(step("fresh machine", fresh::try_out)?);
    steps.push(step("machines", machine::try_out)?);
    steps.push(step("rates", || bench::long_everyday_gate(&library))?);
    let left = || left_to_kernel(&library, LEFT_OR_OVER_IPV6);
    steps.push(tests("kernel's", left)?);
    for device in ["verbs", "mlx5"] {
        steps.push(tests(device, || by_verbs(&library, device))?);
    }
    for arguments in LONG_TESTS {
        let ignored = || {
            let mut command = tested(&library, arguments);
            command.args(["--", "--ignored"]);
            command
        };
        steps.push(long_tests("long tests", ignored)?);
    }
    // In debug builds these judge a tenth.
    let costs = || {
        let optimised = ["test", "--release", "--package", "vma-stats"];
        cargo::command(&[&optimised[..], &["--test", "cost"]].concat())
    };
    steps.push(tests("statistics", costs)?);
    let options = BenchOptions {
        check: true,
        ..BenchOptions::default()
    };
    let services = BenchOptions {
        subject: Subject::Services,
        ..options.clone()
    };
    for (name, options) in [("bench", options), ("services", services)] {
        steps.push(step(name, || bench::run(&options).map(|()| String::new()))?);
    }
    Ok(steps)
}

fn instruction_counts() -> Result<Step, Failure> {
    if let Some(reason) = instructions::missing() {
        return Ok(skipped("instructions", reason));
    }
    step("instructions", instructions::check)
}

/// The models of `models/`: what threads share without locks, in every order.
fn models() -> Result<Step, Failure> {
    let mut format = cargo::command(&["fmt", "--check"]);
    format.current_dir(cargo::workspace().join("models"));
    if let Err(failure) = process::run(format) {
        return step("models", || Err(failure));
    }
    tests("models", models_test)
}

/// What failed tests said, and a line for each step; last, the sum of all tests in the words of
/// `cargo test`.
fn summary(steps: &[Step], totals: &Totals, passed: bool, time: Duration) -> String {
    let mut text = String::from("\n");
    for (reason, count) in totals.skips() {
        text += &format!("skipped on this machine ({count}x): {reason}\n");
    }
    for step in steps {
        for line in step.said_by_failed() {
            text += &format!("{}: {line}\n", step.name);
        }
    }
    for step in steps {
        text += &step.line();
        text.push('\n');
    }
    text += &totals.result_line(passed, time);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_ends_with_the_sum_of_all_tests() {
        let mut totals = Totals::default();
        totals.note("skipped: not root");
        totals.note("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s");
        let step = |name, outcome, note: &str| Step {
            name,
            outcome,
            time: Duration::from_millis(1500),
            note: note.to_owned(),
            said: String::new(),
            tests: None,
        };
        let steps = [
            step("format", Outcome::Failed, ""),
            step("licences", Outcome::Skipped("no tool"), ""),
            step("tests", Outcome::Passed, "5 passed"),
        ];
        let text = summary(&steps, &totals, false, Duration::from_secs(61));
        let expected = "
skipped on this machine (1x): not root
format         FAILED     1.5 s
licences       skipped           no tool
tests          ok         1.5 s  5 passed

test result: FAILED. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 61.00s
";
        assert_eq!(text, expected);
    }
}
