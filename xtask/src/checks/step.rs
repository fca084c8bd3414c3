//! One step of `cargo xtask test`: how it is run, and what is known of it afterwards.

use std::iter;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::failures::Failures;
use super::stuck::{self, Told};
use super::totals::Totals;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, say, tell};
use crate::process;

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
    /// The last that it wrote into the log.
    pub(super) said: String,
    /// Of a step of tests.
    pub(super) tests: Option<Ran>,
}

/// What is known of the tests that a step ran.
#[derive(Debug)]
pub(super) struct Ran {
    totals: Totals,
    failures: Failures,
}

impl Ran {
    fn nothing_yet(command: &Command) -> Self {
        Self {
            totals: Totals::default(),
            failures: Failures::of(command),
        }
    }
}

/// A step that passes if the command succeeds.
pub(super) fn simple_step(name: &'static str, command: Command) -> Result<Step, Failure> {
    step(name, || process::run(command).map(|()| String::new()))
}

/// Runs `work`, whose value is a note for the summary, as is the first line of why it failed. A
/// failure of the step is no error here.
pub(super) fn step(
    name: &'static str,
    work: impl FnOnce() -> Result<String, Failure>,
) -> Result<Step, Failure> {
    let step = silent_step(name, work)?;
    step.announce();
    Ok(step)
}

/// The same, without a word about its end to whoever waits.
fn silent_step(
    name: &'static str,
    work: impl FnOnce() -> Result<String, Failure>,
) -> Result<Step, Failure> {
    say(format_args!("\n=== {name}"));
    let begun = Instant::now();
    let from = output::log_len();
    let result = work();
    interrupt::check()?;
    let (outcome, note) = match result {
        Ok(note) => (Outcome::Passed, note),
        Err(failure) => {
            say(&failure);
            let why = failure.to_string();
            (
                Outcome::Failed,
                why.lines().next().unwrap_or_default().to_owned(),
            )
        }
    };
    Ok(Step {
        name,
        outcome,
        time: begun.elapsed(),
        note,
        said: output::log_tail(from, LINES_OF_FAILURE),
        tests: None,
    })
}

/// So many of its last lines are shown of a step that failed.
const LINES_OF_FAILURE: usize = 60;

pub(super) fn skipped(name: &'static str, reason: &'static str) -> Step {
    Step {
        name,
        outcome: Outcome::Skipped(reason),
        time: Duration::ZERO,
        note: String::new(),
        said: String::new(),
        tests: None,
    }
}

/// A step that passes if these tests do, at least one.
pub(super) fn tests(name: &'static str, command: impl Fn() -> Command) -> Result<Step, Failure> {
    tests_with(stuck::PATIENCE, name, command)
}

/// The same of tests that take minutes each.
pub(super) fn long_tests(
    name: &'static str,
    command: impl Fn() -> Command,
) -> Result<Step, Failure> {
    tests_with(stuck::LONG_PATIENCE, name, command)
}

fn tests_with(
    patience: Duration,
    name: &'static str,
    command: impl Fn() -> Command,
) -> Result<Step, Failure> {
    let command = command();
    let mut ran = Ran::nothing_yet(&command);
    let step = silent_step(name, || {
        run(command, patience, &mut ran, &mut |line| say(line))
    })?;
    let step = step.of_tests(ran);
    step.announce();
    Ok(step)
}

/// So many others run beside a step.
const LANES: usize = 2;

/// Such a step with others beside it, [`LANES`] at a time; when it has ended before them it takes
/// from these, too. What they say is shown when all have ended.
pub(super) fn tests_beside(
    (name, command): (&'static str, impl Fn() -> Command),
    beside: Vec<(&'static str, Command)>,
) -> Result<Vec<Step>, Failure> {
    let waiting = Mutex::new(beside.into_iter());
    let next = || waiting.lock().ok()?.next();
    let run_quietly = |(name, command)| {
        let begun = Instant::now();
        let (mut ran, mut lines) = (Ran::nothing_yet(&command), Vec::new());
        let keep = &mut |line: &str| lines.push(line.to_owned());
        let result = run(command, stuck::PATIENCE, &mut ran, keep);
        (name, result, ran, lines, begun.elapsed())
    };
    let run_waiting = || iter::from_fn(next).map(run_quietly).collect::<Vec<_>>();
    thread::scope(|scope| {
        let lanes = [(); LANES].map(|()| scope.spawn(run_waiting));
        let mut steps = vec![tests(name, command)?];
        let mut done = run_waiting();
        for lane in lanes {
            done.extend(lane.join().map_err(|_| Failure::new("a panic"))?);
        }
        for (name, result, ran, lines, time) in done {
            let mut done = silent_step(name, || {
                lines.iter().for_each(say);
                result
            })?;
            done.time = time;
            let done = done.of_tests(ran);
            done.announce();
            steps.push(done);
        }
        Ok(steps)
    })
}

impl Step {
    fn of_tests(mut self, ran: Ran) -> Self {
        self.note = ran.totals.to_string();
        self.tests = Some(ran);
        self
    }

    /// How it ended, how long it took, and what is to be said of it.
    pub(super) fn line(&self) -> String {
        let (outcome, time, note) = match self.outcome {
            Outcome::Passed => ("ok", Some(self.time), self.note.as_str()),
            Outcome::Failed => ("FAILED", Some(self.time), self.note.as_str()),
            Outcome::Skipped(reason) => ("skipped", None, reason),
        };
        let time = time.map_or_else(String::new, |time| format!("{:.1} s", time.as_secs_f64()));
        let line = format!("{:<13}  {outcome:<7}  {time:>7}  {note}", self.name);
        line.trim_end().to_owned()
    }

    /// Where nobody sees what it says: its line, and why it failed.
    fn announce(&self) {
        if output::log().is_none() {
            return;
        }
        tell(self.line());
        // What failed tests say is in the summary.
        if matches!(self.outcome, Outcome::Failed) && self.said_by_failed().is_empty() {
            tell(&self.said);
        }
    }

    /// If nothing but a few tests failed, runs these once more, alone. The step has passed if they
    /// do, and says which they were.
    pub(super) fn run_failed_again(&mut self) -> Result<(), Failure> {
        let (Outcome::Failed, Some(ran)) = (&self.outcome, &mut self.tests) else {
            return Ok(());
        };
        say(format_args!("\n=== {}: what failed, once more", self.name));
        let Some((names, of_killed)) = ran.failures.pass_alone(&ran.totals)? else {
            return Ok(());
        };
        ran.totals.passed += ran.totals.failed;
        ran.totals.failed = 0;
        ran.totals.add(&of_killed);
        self.outcome = Outcome::Passed;
        self.note = format!("{}; passed only alone: {}", ran.totals, names.join(", "));
        Ok(())
    }

    /// What its failed tests said, also those that passed later.
    pub(super) fn said_by_failed(&self) -> &[String] {
        self.tests.as_ref().map_or(&[], |ran| ran.failures.said())
    }

    pub(super) fn totals(&self) -> Option<&Totals> {
        self.tests.as_ref().map(|ran| &ran.totals)
    }
}

/// Runs tests, and fails if one does or there is none.
fn run(
    command: Command,
    patience: Duration,
    ran: &mut Ran,
    line_read: &mut dyn FnMut(&str),
) -> Result<String, Failure> {
    let words = process::words(&command);
    let status = stuck::run(command, patience, |told| match told {
        Told::Line(line) => {
            line_read(line);
            ran.totals.note(line);
            ran.failures.note(line);
        }
        Told::Killed => ran.failures.note_killed(),
    })?;
    if !status.success() {
        return Err(Failure::Reason(format!("{words} failed ({status})")));
    }
    if ran.totals.passed == 0 {
        return Err(Failure::new("no test ran"));
    }
    Ok(String::new())
}
