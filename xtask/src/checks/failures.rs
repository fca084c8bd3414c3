//! Which tests failed, and a second run of each alone: what fails only beside others on a loaded
//! machine is reported, and is no reason to refuse a change.

use std::ffi::{OsStr, OsString};
use std::mem;
use std::process::Command;

use super::stuck::{self, Told};
use super::totals::Totals;
use crate::cargo;
use crate::failure::Failure;
use crate::output::say;

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
    /// What cargo hands to the test programs, and with which features it builds them.
    arguments: Vec<OsString>,
    features: Vec<OsString>,
    targets: Vec<Target>,
    /// Of the test program that is running.
    tests: Vec<String>,
    was_killed: bool,
    said: Vec<String>,
    /// How many lines of the report that is being read are still kept.
    to_keep: usize,
    differences_to_keep: usize,
}

/// A test program of which some test failed.
#[derive(Debug, PartialEq)]
struct Target {
    /// As cargo says it: `-p end-to-end --test udp`.
    selection: Vec<String>,
    tests: Vec<String>,
    /// It said nothing any more: which tests have not run is not known.
    was_killed: bool,
}

impl Target {
    /// For whoever reads the summary.
    fn names(&self) -> Vec<String> {
        if self.was_killed {
            vec![format!("{} (killed in silence)", self.selection.join(" "))]
        } else {
            self.tests.clone()
        }
    }
}

impl Failures {
    /// None yet, of a run in this command's environment.
    pub(super) fn of(command: &Command) -> Self {
        let set = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let arguments = command.get_args().skip_while(|word| *word != "--").skip(1);
        let is_feature = |word: &&OsStr| word.as_encoded_bytes().starts_with(b"--features=");
        let features = command.get_args().filter(is_feature);
        Self {
            environment: set.collect(),
            arguments: arguments.map(OsStr::to_owned).collect(),
            features: features.map(OsStr::to_owned).collect(),
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
                tests: mem::take(&mut self.tests),
                was_killed: mem::take(&mut self.was_killed),
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

    /// The test program that is running was killed, for it had said nothing for too long.
    pub(super) fn note_killed(&mut self) {
        self.was_killed = true;
    }

    /// What the failed tests said.
    pub(super) fn said(&self) -> &[String] {
        &self.said
    }

    /// Runs each failed test once more, with nothing beside it, and programs that were killed as a
    /// whole. If nothing else is why the run failed, and all pass now: their names, and the sum of
    /// those programs, which nobody has counted yet.
    pub(super) fn pass_alone(
        &self,
        seen: &Totals,
    ) -> Result<Option<(Vec<String>, Totals)>, Failure> {
        let ended = || self.targets.iter().filter(|target| !target.was_killed);
        let names: Vec<_> = ended().flat_map(|target| &target.tests).collect();
        // A program that crashed, or did not compile, leaves no names.
        let explained =
            names.len() as u64 == seen.failed && ended().all(|target| !target.tests.is_empty());
        if !explained || self.targets.is_empty() || names.len() > MOST {
            return Ok(None);
        }
        let mut of_killed = Totals::default();
        for target in &self.targets {
            let mut passed = Totals::default();
            let status = stuck::run(self.once_more(target), stuck::PATIENCE, |told| {
                if let Told::Line(line) = told {
                    say(line);
                    passed.note(line);
                }
            })?;
            let all_ran = target.was_killed || passed.passed == target.tests.len() as u64;
            if !status.success() || !all_ran {
                return Ok(None);
            }
            if target.was_killed {
                of_killed.add(&passed);
            }
        }
        let names = self.targets.iter().flat_map(Target::names);
        Ok(Some((names.collect(), of_killed)))
    }

    fn once_more(&self, target: &Target) -> Command {
        let mut command = cargo::command(&["test"]);
        // With the crates as they were compiled, see `targets`.
        command.arg("--workspace").args(&self.features);
        command.args(target.selection.iter().skip(2)).arg("--");
        if target.was_killed {
            command.args(&self.arguments);
        } else {
            command.args(["--exact", "--include-ignored", "--test-threads=1"]);
            command.args(&target.tests);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

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
            was_killed: false,
        };
        assert_eq!(failures.targets, [expected]);
        let words = process::words(&failures.once_more(&failures.targets[0]));
        let expected = "test --workspace --test udp -- --exact --include-ignored --test-threads=1 limits::three stops";
        assert!(words.ends_with(expected), "{words}");
    }

    /// Whatever it had said of its tests until then.
    #[test]
    fn a_program_that_was_killed_runs_again_as_a_whole() {
        let mut failures = Failures::of(&process::through(
            &["nice"],
            &cargo::command(&["test", "--features=vmad/x", "--", "--skip", "slow::"]),
        ));
        failures.note("test limits::three ... FAILED");
        failures.note_killed();
        failures.note("error: test failed, to rerun pass `-p vmad --test resets`");
        failures.note("test a ... FAILED");
        failures.note("error: test failed, to rerun pass `-p vmad --bin vmad`");
        let again = failures
            .targets
            .iter()
            .map(|target| failures.once_more(target));
        let words: Vec<_> = again.map(|command| process::words(&command)).collect();
        assert!(
            words[0].ends_with("test --workspace --features=vmad/x --test resets -- --skip slow::"),
            "{words:?}"
        );
        assert!(words[1].ends_with("--test-threads=1 a"), "{words:?}");
        let names = failures.targets.iter().flat_map(Target::names);
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["-p vmad --test resets (killed in silence)", "a"]
        );
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
        assert!(failures.pass_alone(&seen).unwrap().is_none());
        let (failures, seen) = read("error: could not compile `libvma`");
        assert!(failures.pass_alone(&seen).unwrap().is_none());
        let many = "test a ... FAILED\n".repeat(MOST + 1);
        let (failures, seen) = read(&(many + crashed));
        assert!(failures.pass_alone(&seen).unwrap().is_none());
    }
}
