//! `cargo xtask test`: everything that a change must pass.

mod totals;

use std::process::Command;
use std::time::{Duration, Instant};

use crate::cargo;
use crate::failure::Failure;
use crate::fuzz;
use crate::instructions;
use crate::interrupt;
use crate::needs::Purpose;
use crate::output::{print, say};
use crate::process::{self, Read};
use crate::setup;
use totals::Totals;

/// How a step ended.
#[derive(Debug)]
enum Outcome {
    Passed,
    Failed,
    /// Not run, for this reason.
    Skipped(&'static str),
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    outcome: Outcome,
    time: Duration,
    note: String,
}

/// Runs every step, also after one has failed, so that one run shows all there is to mend.
pub(crate) fn run(quick: bool) -> Result<(), Failure> {
    let begun = Instant::now();
    setup::ensure(Purpose::Testing)?;
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
    if !quick {
        let mut documents = cargo::command(&[
            "doc",
            "--workspace",
            "--no-deps",
            "--keep-going",
            "--document-private-items",
        ]);
        documents.env("RUSTDOCFLAGS", "-D warnings");
        steps.push(simple_step("documentation", documents)?);
        steps.push(licences()?);
    }
    let mut totals = Totals::default();
    steps.push(tests(quick, &mut totals)?);
    if !quick {
        steps.push(models(&mut totals)?);
        steps.push(step("fuzzing", || fuzz::run_targets(None))?);
        steps.push(instruction_counts()?);
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

/// A step that passes if the command succeeds.
fn simple_step(name: &'static str, command: Command) -> Result<Step, Failure> {
    step(name, || process::run(command).map(|()| String::new()))
}

/// Runs `work`, whose value is a note for the summary. A failure of the step is no error here.
fn step(
    name: &'static str,
    work: impl FnOnce() -> Result<String, Failure>,
) -> Result<Step, Failure> {
    say(format_args!("\n=== {name}"));
    let begun = Instant::now();
    let result = work();
    interrupt::check()?;
    let (outcome, note) = match result {
        Ok(note) => (Outcome::Passed, note),
        Err(failure) => {
            say(&failure);
            (Outcome::Failed, String::new())
        }
    };
    Ok(Step {
        name,
        outcome,
        time: begun.elapsed(),
        note,
    })
}

fn licences() -> Result<Step, Failure> {
    if setup::has_subcommand("deny") {
        return simple_step("licences", cargo::command(&["deny", "check"]));
    }
    Ok(skipped(
        "licences",
        "cargo-deny is not installed (cargo install cargo-deny)",
    ))
}

fn instruction_counts() -> Result<Step, Failure> {
    if let Some(reason) = instructions::missing() {
        return Ok(skipped("instructions", reason));
    }
    step("instructions", instructions::check)
}

fn skipped(name: &'static str, reason: &'static str) -> Step {
    Step {
        name,
        outcome: Outcome::Skipped(reason),
        time: Duration::ZERO,
        note: String::new(),
    }
}

/// All tests of the workspace, or only those inside its crates.
fn tests(quick: bool, totals: &mut Totals) -> Result<Step, Failure> {
    let mut arguments = vec!["test", "--workspace", "--no-fail-fast"];
    if quick {
        arguments.extend(["--lib", "--bins"]);
    }
    let command = || cargo::command(&arguments);
    let mut step = step("tests", || {
        let status = process::run_reading(command(), Read::StdoutAndStderr, |line| {
            say(line);
            totals.note(line);
        })?;
        process::success(&command(), status)?;
        if totals.passed == 0 {
            return Err(Failure::new("no test ran"));
        }
        Ok(String::new())
    })?;
    step.note = totals.to_string();
    Ok(step)
}

/// The models of `models/`: what threads share without locks, in every order.
fn models(totals: &mut Totals) -> Result<Step, Failure> {
    let directory = cargo::workspace().join("models");
    let here = |arguments: &[&str]| {
        let mut command = cargo::command(arguments);
        command.current_dir(&directory);
        command
    };
    let test = || {
        let mut command = here(&["test", "--locked", "--target-dir"]);
        command.arg(cargo::target_directory().join("models"));
        command
    };
    let before = totals.passed;
    let mut step = step("models", || {
        process::run(here(&["fmt", "--check"]))?;
        let status = process::run_reading(test(), Read::StdoutAndStderr, |line| {
            say(line);
            totals.note(line);
        })?;
        process::success(&test(), status)?;
        if totals.passed == before {
            return Err(Failure::new("no model ran"));
        }
        Ok(String::new())
    })?;
    step.note = format!("{} passed", totals.passed - before);
    Ok(step)
}

/// A line for each step; last, the sum of all tests in the words of `cargo test`.
fn summary(steps: &[Step], totals: &Totals, passed: bool, time: Duration) -> String {
    let mut text = String::from("\n");
    for (reason, count) in totals.skips() {
        text += &format!("skipped on this machine ({count}x): {reason}\n");
    }
    for step in steps {
        let (outcome, time, note) = match step.outcome {
            Outcome::Passed => ("ok", Some(step.time), step.note.as_str()),
            Outcome::Failed => ("FAILED", Some(step.time), step.note.as_str()),
            Outcome::Skipped(reason) => ("skipped", None, reason),
        };
        let time = time.map_or_else(String::new, |time| format!("{:.1} s", time.as_secs_f64()));
        let line = format!("{:<13}  {outcome:<7}  {time:>7}  {note}", step.name);
        text += line.trim_end();
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
