//! One step of `cargo xtask test`: how it is run, and what is known of it afterwards.

use std::iter;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::totals::Totals;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::say;
use crate::process::{self, Read};

/// How a step ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// Not run, for this reason.
    Skipped(&'static str),
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    pub(super) time: Duration,
    pub(super) note: String,
}

/// A step that passes if the command succeeds.
pub(super) fn simple_step(name: &'static str, command: Command) -> Result<Step, Failure> {
    step(name, || process::run(command).map(|()| String::new()))
}

/// Runs `work`, whose value is a note for the summary. A failure of the step is no error here.
pub(super) fn step(
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

pub(super) fn skipped(name: &'static str, reason: &'static str) -> Step {
    Step {
        name,
        outcome: Outcome::Skipped(reason),
        time: Duration::ZERO,
        note: String::new(),
    }
}

/// A step that passes if these tests do, at least one.
pub(super) fn tests(
    name: &'static str,
    command: impl Fn() -> Command,
    totals: &mut Totals,
) -> Result<Step, Failure> {
    let mut seen = Totals::default();
    let mut step = step(name, || run(command(), &mut seen, &mut |line| say(line)))?;
    step.note = seen.to_string();
    totals.add(seen);
    Ok(step)
}

/// Such a step with others beside it, which run one after the other; when it has ended before them it takes from these, too. What they
/// say is shown when all have ended.
pub(super) fn tests_beside(
    (name, command): (&'static str, impl Fn() -> Command),
    beside: Vec<(&'static str, Command)>,
    totals: &mut Totals,
) -> Result<Vec<Step>, Failure> {
    let waiting = Mutex::new(beside.into_iter());
    let next = || waiting.lock().ok()?.next();
    let run_quietly = |(name, command)| {
        let begun = Instant::now();
        let (mut seen, mut lines) = (Totals::default(), Vec::new());
        let result = run(command, &mut seen, &mut |line| lines.push(line.to_owned()));
        (name, result, seen, lines, begun.elapsed())
    };
    let run_waiting = || iter::from_fn(next).map(run_quietly).collect::<Vec<_>>();
    thread::scope(|scope| {
        let others = scope.spawn(run_waiting);
        let mut steps = vec![tests(name, command, totals)?];
        let mut done = run_waiting();
        done.extend(others.join().map_err(|_| Failure::new("a panic"))?);
        for (name, result, seen, lines, time) in done {
            let mut done = step(name, || {
                lines.iter().for_each(say);
                result
            })?;
            (done.time, done.note) = (time, seen.to_string());
            totals.add(seen);
            steps.push(done);
        }
        Ok(steps)
    })
}

/// Runs tests, and fails if one does or there is none.
fn run(
    command: Command,
    seen: &mut Totals,
    line_read: &mut dyn FnMut(&str),
) -> Result<String, Failure> {
    let words = process::words(&command);
    let status = process::run_reading(command, Read::StdoutAndStderr, |line| {
        line_read(line);
        seen.note(line);
    })?;
    if !status.success() {
        return Err(Failure::Reason(format!("{words} failed ({status})")));
    }
    if seen.passed == 0 {
        return Err(Failure::new("no test ran"));
    }
    Ok(String::new())
}
