//! The tables.

use std::process::Command;

use super::super::trial::Trial;
use super::SECONDS;
use super::subjects::Subject;
use crate::failure::Failure;
use crate::median::median;
use crate::table::{layout, row};

/// All rounds of one way of doing the work.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: &'static str,
    trials: Vec<Trial>,
    failures: usize,
}

impl Line {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            trials: Vec::new(),
            failures: 0,
        }
    }

    /// `None`: the round has failed.
    pub(super) fn add(&mut self, trial: Option<Trial>) {
        match trial {
            Some(trial) => self.trials.push(trial),
            None => self.failures += 1,
        }
    }

    fn median(&self, value: impl Fn(&Trial) -> f64) -> f64 {
        median(self.trials.iter().map(value))
    }

    fn rate(&self) -> f64 {
        self.median(|trial| trial.rate)
    }

    fn is_kernels(&self) -> bool {
        self.name.starts_with("kernel")
    }

    fn row(&self, best: f64) -> Vec<String> {
        let rates = || self.trials.iter().map(|trial| trial.rate);
        let (least, most) = (
            rates().fold(f64::INFINITY, f64::min),
            rates().fold(0.0, f64::max),
        );
        if self.trials.is_empty() {
            let nothing = row![self.name, "-", "-", "-", "-", "-", "-", self.failures];
            return nothing;
        }
        let p99 = self.median(|trial| trial.p99_usec.unwrap_or(f64::NAN));
        row![
            self.name,
            format!("{:.0}", self.rate()),
            format!("{least:.0}-{most:.0}"),
            format!("{:.2}", self.rate() / best),
            number(p99),
            number(self.median(|trial| trial.server_usec)),
            number(self.median(|trial| trial.client_usec)),
            self.failures
        ]
    }
}

fn number(usec: f64) -> String {
    match usec {
        usec if usec.is_nan() => "-".to_owned(),
        usec => format!("{usec:.1}"),
    }
}

/// `by the best`: of the kernel's ways.
pub(super) fn table(subject: &Subject, lines: &[Line]) -> String {
    let kernels = lines.iter().filter(|line| line.is_kernels());
    let best = kernels.map(Line::rate).fold(f64::NAN, f64::max);
    let mut rows = vec![row![
        subject.title(),
        subject.service.unit,
        "least-most",
        "by the best",
        "p99 us",
        "server us",
        "client us",
        "failed"
    ]];
    rows.extend(lines.iter().map(|line| line.row(best)));
    layout(&rows) + "\n"
}

/// What every table needs to be read, and what ran.
pub(super) fn heading(rounds: u32) -> Result<String, Failure> {
    let mut text = format!(
        "medians of {rounds} rounds of {SECONDS} s, all ways in turn; \"by the best\": rate by that of the kernel's fastest way; p99: of a \
         request; us: CPU time for one. Two CPUs, one for each end, where no more is said. The command lines are in \
         tests/programs/everyday.\n\n"
    );
    let programs: [(&str, &[&str]); 8] = [
        ("uname", &["-sr"]),
        ("sockperf", &["--version"]),
        ("redis-server", &["--version"]),
        ("memcached", &["--version"]),
        ("nginx", &["-v"]),
        ("wrk", &["--version"]),
        ("iperf3", &["--version"]),
        ("ucx_info", &["-v"]),
    ];
    for (program, arguments) in programs {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("PATH", testkit::needs::PATH)
            .env_remove("LD_PRELOAD");
        let said = match command.output() {
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                let said = String::from_utf8_lossy(&said);
                said.lines().next().unwrap_or_default().trim().to_owned()
            }
            Err(_) => "not installed".to_owned(),
        };
        text += &format!("{program:<14} {said}\n");
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_fails_is_counted_and_moves_no_median() {
        let trial = |rate| Trial {
            rate,
            p99_usec: Some(20.0),
            server_usec: 5.0,
            client_usec: 4.0,
            offloaded: 1.0,
            reasons: Vec::new(),
        };
        let mut line = Line::new("kernel");
        for rate in [Some(100.0), None, Some(120.0), Some(140.0)] {
            line.add(rate.map(trial));
        }
        let expected = [
            "kernel", "120", "100-140", "0.60", "20.0", "5.0", "4.0", "1",
        ];
        assert_eq!(line.row(200.0), expected);
        let mut none = Line::new("sockmap");
        none.add(None);
        assert_eq!(none.row(200.0).last().unwrap(), "1");
    }
}
