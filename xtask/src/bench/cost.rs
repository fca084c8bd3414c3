//! What calls cost by themselves: the socket layer on a device that costs nothing, and hooks before
//! calls that do nothing.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::failure::Failure;
use crate::process::{self, Read};

/// What one case costs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cost {
    /// `receive` or `send`, and how; of a hook `<family>: <call>`; of an epoll set `<call>:
    /// <members>`.
    pub(super) name: String,
    /// Of one message.
    pub(super) nsec: f64,
}

impl Cost {
    /// The dearest of each family, in the families' order.
    pub(super) fn dearest_of_families(costs: &[Self]) -> Vec<&Self> {
        let mut dearest: Vec<&Self> = Vec::new();
        for cost in costs {
            match dearest
                .iter_mut()
                .find(|other| other.family() == cost.family())
            {
                Some(other) if cost.nsec > other.nsec => *other = cost,
                Some(_) => {}
                None => dearest.push(cost),
            }
        }
        dearest
    }

    /// How many times its first case each family's dearest costs, at most.
    pub(super) fn growth(costs: &[Self]) -> f64 {
        let first_of = |family: &str| costs.iter().find(|cost| cost.family() == family);
        let ratio = |cost: &Self| Some(cost.nsec / first_of(cost.family())?.nsec);
        costs.iter().filter_map(ratio).fold(f64::NAN, f64::max)
    }

    fn family(&self) -> &str {
        self.name
            .split_once(':')
            .map_or(&self.name, |(family, _)| family)
    }
}

/// Runs the benchmark once.
pub(super) fn measure(program: &Path) -> Result<Vec<Cost>, Failure> {
    let command = || {
        let mut command = Command::new(program);
        // What cargo passes to every benchmark.
        command.arg("--bench").env_remove("LD_PRELOAD");
        command
    };
    let mut output = String::new();
    let status = process::run_reading(command(), Read::Stdout, |line| {
        output += line;
        output.push('\n');
    })?;
    process::success(&command(), status)?;
    let costs: Vec<Cost> = output.lines().filter_map(cost).collect();
    if costs.is_empty() {
        return Err(Failure::Reason(format!(
            "{} printed no result: {output}",
            program.display()
        )));
    }
    Ok(costs)
}

/// Of a line such as `{"name":"receive","nsec":33.1}`.
fn cost(line: &str) -> Option<Cost> {
    let line: Value = serde_json::from_str(line).ok()?;
    Some(Cost {
        name: line["name"].as_str()?.to_owned(),
        nsec: line["nsec"].as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_shows_its_dearest() {
        let cost = |name: &str, nsec| Cost {
            name: name.to_owned(),
            nsec,
        };
        let costs = [
            cost("a: x", 1.0),
            cost("b: y", 2.0),
            cost("a: z", 3.0),
            cost("a: w", 2.5),
        ];
        let dearest = Cost::dearest_of_families(&costs);
        assert_eq!(dearest, [&costs[2], &costs[1]]);
    }

    #[test]
    fn growth_is_that_of_the_family_that_grows_most() {
        let cost = |name: &str, nsec| Cost {
            name: name.to_owned(),
            nsec,
        };
        let costs = [
            cost("add: 10", 100.0),
            cost("add: 10000", 120.0),
            cost("wait: 10", 10.0),
            cost("wait: 10000", 14.0),
        ];
        assert!((Cost::growth(&costs) - 1.4).abs() < 1e-9);
        assert!(Cost::growth(&[]).is_nan());
    }

    #[test]
    fn lines_without_a_cost_are_left_out() {
        let expected = Cost {
            name: "send".to_owned(),
            nsec: 61.2,
        };
        assert_eq!(cost(r#"{"name":"send","nsec":61.2}"#), Some(expected));
        assert_eq!(cost(r#"{"name":"send"}"#), None);
        assert_eq!(cost("running 0 tests"), None);
    }
}
