//! Which tests failed, and a second run of each alone: what fails only beside others on a loaded
//! machine is reported, and is no reason to refuse a change.

use std::ffi::OsString;
use std::process::Command;

use super::totals::Totals;
use crate::cargo;
use crate::failure::Failure;
use crate::output::say;
use crate::process::{self, Read};

/// More than these are no accident.
const MOST: usize = 4;
/// Of what a failed test said, so many lines are kept for the summary: the first ones, and of
/// differences to the kernel.
const LINES_KEPT: usize = 8;
const DIFFERENCES_KEPT: usize = 24;
/// How a test that compares programs marks where they differ.
const DIFFERENCE: &str = " !! ";

/// The failed tests of one run of `cargo test`.
#[derive(Debug, Default)]
pub(super) struct Failures {
    environment: Vec<(OsString, OsString)>,
    targets: Vec<Target>,
    /// Of the test program that is running.
    tests: Vec<String>,
    said: Vec<String>,
    /// How many lines of the report that is being read are still kept.
    to_keep: usize,
    differences_to_keep: usize,
}

/// A test program of which some test failed.
#[derive(Debug, PartialEq)]
struct Target {
    /// As cargo selects it: `-p end-to-end --test udp`.
    selection: Vec<String>,
    tests: Vec<String>,
}

impl Failures {
    /// None yet, of a run in this command's environment.
    pub(super) fn of(command: &Command) -> Self {
        let set = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        Self {
            environment: set.collect(),
            ..Self::default()
        }
    }

    /// Takes in a line of `cargo test`.
    pub(super) fn note(&mut self, line: &str) {
        let failed = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"));
        let target = line
            .strip_prefix("error: test failed, to rerun pass `")
            .and_then(|rest| rest.strip_suffix('`'));
        if let Some(name) = failed {
            let name = name.strip_suffix(" - should panic").unwrap_or(name);
            self.tests.push(name.to_owned());
        } else if let Some(selection) = target {
            self.targets.push(Target {
                selection: selection.split(' ').map(str::to_owned).collect(),
                tests: std::mem::take(&mut self.tests),
            });
        } else if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            (self.to_keep, self.differences_to_keep) = (LINES_KEPT, DIFFERENCES_KEPT);
            self.keep(line);
        } else if line == "failures:" {
            (self.to_keep, self.differences_to_keep) = (0, 0);
        } else if line == "stack backtrace:" {
            self.to_keep = 0;
        } else if !line.is_empty() {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: &str) {
        let budget = if line.starts_with(DIFFERENCE) {
            &mut self.differences_to_keep
        } else {
            &mut self.to_keep
        };
        if let Some(rest) = budget.checked_sub(1) {
            *budget = rest;
            self.said.push(line.to_owned());
        }
    }

    /// What the failed tests said.
    pub(super) fn said(&self) -> &[String] {
        &self.said
    }

    /// Runs each failed test once more, with nothing beside it. Returns their names if they are why
    /// the run failed, and all pass now.
    pub(super) fn pass_alone(&self, seen: &Totals) -> Result<Option<Vec<String>>, Failure> {
        let names: Vec<_> = self
            .targets
            .iter()
            .flat_map(|target| &target.tests)
            .collect();
        // A program that crashed, or did not compile, leaves no names.
        let explained = names.len() as u64 == seen.failed
            && self.targets.iter().all(|target| !target.tests.is_empty());
        if !explained || names.is_empty() || names.len() > MOST {
            return Ok(None);
        }
        for target in &self.targets {
            let mut passed = Totals::default();
            let status =
                process::run_reading(self.once_more(target), Read::StdoutAndStderr, |line| {
                    say(line);
                    passed.note(line);
                })?;
            if !status.success() || passed.passed != target.tests.len() as u64 {
                return Ok(None);
            }
        }
        Ok(Some(names.into_iter().cloned().collect()))
    }

    fn once_more(&self, target: &Target) -> Command {
        let mut command = cargo::command(&["test"]);
        command.args(&target.selection);
        command.args(["--", "--exact", "--include-ignored", "--test-threads=1"]);
        command.args(&target.tests);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running tests/rings.rs (target/debug/deps/rings-0)
running 3 tests
test limits::three ... FAILED
test limits::two ... ok
test stops - should panic ... FAILED

failures:

---- limits::three stdout ----

thread 'limits::three' panicked at tests/udp/rings.rs:10:5:
3 rings
stack backtrace:
   0: std::panicking
 !! kernel : 2

---- stops stdout ----
note: test did not panic as expected

failures:
    limits::three
    stops

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s

error: test failed, to rerun pass `-p end-to-end --test udp`
     Running tests/routes.rs (target/debug/deps/routes-0)
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
error: 1 target failed:
    `-p end-to-end --test udp`";

    fn read(output: &str) -> (Failures, Totals) {
        let (mut failures, mut seen) = (Failures::default(), Totals::default());
        for line in output.lines() {
            failures.note(line);
            seen.note(line);
        }
        (failures, seen)
    }

    #[test]
    fn failed_tests_are_known_by_program_and_name() {
        let (failures, _) = read(OUTPUT);
        let expected = Target {
            selection: ["-p", "end-to-end", "--test", "udp"]
                .map(str::to_owned)
                .into(),
            tests: ["limits::three", "stops"].map(str::to_owned).into(),
        };
        assert_eq!(failures.targets, [expected]);
        let words = process::words(&failures.once_more(&failures.targets[0]));
        let expected = "test -p end-to-end --test udp -- --exact --include-ignored --test-threads=1 limits::three stops";
        assert!(words.ends_with(expected), "{words}");
    }

    #[test]
    fn what_failed_tests_said_is_kept() {
        let (failures, _) = read(OUTPUT);
        assert_eq!(
            failures.said(),
            [
                "---- limits::three stdout ----",
                "thread 'limits::three' panicked at tests/udp/rings.rs:10:5:",
                "3 rings",
                " !! kernel : 2",
                "---- stops stdout ----",
                "note: test did not panic as expected",
            ]
        );
    }

    #[test]
    fn what_no_name_explains_is_not_run_again() {
        let crashed = "error: test failed, to rerun pass `-p end-to-end --test udp`\n";
        let (failures, seen) = read(&(OUTPUT.to_owned() + "\n" + crashed));
        assert_eq!(failures.pass_alone(&seen).unwrap(), None);
        let (failures, seen) = read("error: could not compile `libvma`");
        assert_eq!(failures.pass_alone(&seen).unwrap(), None);
        let many = "test a ... FAILED\n".repeat(MOST + 1);
        let (failures, seen) = read(&(many + crashed));
        assert_eq!(failures.pass_alone(&seen).unwrap(), None);
    }
}
