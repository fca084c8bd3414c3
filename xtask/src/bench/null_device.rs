//! The socket layer alone, on a device that costs nothing.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::failure::Failure;
use crate::process::{self, Read};

/// What one case costs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cost {
    /// `receive` or `send`, and how.
    pub(super) name: String,
    /// Of one message.
    pub(super) nsec: f64,
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
            "null_device printed no result: {output}"
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
