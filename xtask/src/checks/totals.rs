//! The sum over what many test programs report.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    ignored: u64,
    measured: u64,
    filtered_out: u64,
    /// How often tests gave each reason why this machine cannot run them.
    skips: BTreeMap<String, u64>,
}

impl Totals {
    /// Takes in a line of `cargo test`.
    pub(crate) fn note(&mut self, line: &str) {
        if let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        {
            counts.split(';').for_each(|part| self.count(part.trim()));
        } else if let Some(reason) = skip_reason(line) {
            *self.skips.entry(reason.to_owned()).or_default() += 1;
        }
    }

    /// Of a part such as `5 passed`; others, such as `finished in 0.1s`, are no counts.
    fn count(&mut self, part: &str) {
        let Some((number, what)) = part.split_once(' ') else {
            return;
        };
        let counter = match what {
            "passed" => &mut self.passed,
            "failed" => &mut self.failed,
            "ignored" => &mut self.ignored,
            "measured" => &mut self.measured,
            "filtered out" => &mut self.filtered_out,
            _ => return,
        };
        *counter += number.parse::<u64>().unwrap_or(0);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.measured += other.measured;
        self.filtered_out += other.filtered_out;
        for (reason, count) in &other.skips {
            *self.skips.entry(reason.clone()).or_default() += count;
        }
    }

    pub(crate) fn skips(&self) -> impl Iterator<Item = (&str, u64)> {
        self.skips
            .iter()
            .map(|(reason, &count)| (reason.as_str(), count))
    }

    /// In the words of `cargo test`, for programs that look for them.
    pub(crate) fn result_line(&self, passed: bool, time: Duration) -> String {
        format!(
            "\ntest result: {}. {} passed; {} failed; {} ignored; {} measured; {} filtered out; \
             finished in {:.2}s\n",
            if passed { "ok" } else { "FAILED" },
            self.passed,
            self.failed,
            self.ignored,
            self.measured,
            self.filtered_out,
            time.as_secs_f64()
        )
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(formatter, ", {} ignored", self.ignored)?;
        }
        let skipped: u64 = self.skips.values().sum();
        if skipped > 0 {
            write!(formatter, ", {skipped} skipped")?;
        }
        Ok(())
    }
}

/// Of a line that a test printed to say that this machine cannot run it, alone or behind its own
/// name.
fn skip_reason(line: &str) -> Option<&str> {
    let (before, reason) = line.split_once("skipped: ")?;
    let own_line = before.is_empty() || (before.starts_with("test ") && before.ends_with(" ... "));
    own_line.then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_added() {
        let mut totals = Totals::default();
        for _ in 0..2 {
            let mut step = Totals::default();
            step.note("test result: ok. 1 passed; 2 failed; 3 ignored; 4 measured; 5 filtered out; finished in 0.10s");
            step.note("skipped: not root");
            totals.add(&step);
        }
        assert_eq!(
            totals.result_line(true, Duration::ZERO),
            "\ntest result: ok. 2 passed; 4 failed; 6 ignored; 8 measured; 10 filtered out; finished in 0.00s\n"
        );
        assert_eq!(totals.skips().collect::<Vec<_>>(), [("not root", 2)]);
    }

    #[test]
    fn results_of_many_programs_are_summed() {
        let mut totals = Totals::default();
        for line in [
            "running 6 tests",
            "test a ... ok",
            "test result: ok. 5 passed; 0 failed; 1 ignored; 2 measured; 3 filtered out; finished in 0.10s",
            "skipped: not root",
            "test b ... skipped: not root",
            "skipped: no IPv6",
            "this was skipped: not by a test",
            "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
            "test result: nonsense",
        ] {
            totals.note(line);
        }
        assert_eq!(
            totals.to_string(),
            "12 passed, 2 failed, 1 ignored, 3 skipped"
        );
        assert_eq!(
            totals.skips().collect::<Vec<_>>(),
            [("no IPv6", 1), ("not root", 2)]
        );
        assert_eq!(
            totals.result_line(false, Duration::from_millis(1500)),
            "\ntest result: FAILED. 12 passed; 2 failed; 1 ignored; 2 measured; 3 filtered out; \
             finished in 1.50s\n"
        );
    }
}
