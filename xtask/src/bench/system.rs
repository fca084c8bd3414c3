//! Where and when numbers were taken, so that they can be compared later.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::busy::Meter;
use crate::cargo;

#[derive(Clone, Debug)]
pub(super) struct System {
    time_unix_sec: u64,
    kernel: String,
    cpu: String,
    cpus: usize,
    /// With other programs, between the rounds; the most that was seen.
    busy_percent: u64,
    commit: String,
    /// Whether there are changes since that commit.
    modified: bool,
    /// Parameters of libvma that were set from outside.
    parameters: BTreeMap<String, String>,
}

impl System {
    /// The present machine, which was as `busy` as that.
    pub(super) fn now(busy: &Meter) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let parameters = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with("VMA_"))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
        Self {
            time_unix_sec: since_1970.as_secs(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: cpu_model(&read("/proc/cpuinfo")).to_owned(),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            busy_percent: busy.most_percent(),
            commit: git(&["rev-parse", "HEAD"]),
            modified: !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty(),
            parameters: parameters.collect(),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "time_unix_sec": self.time_unix_sec,
            "kernel": self.kernel,
            "cpu": self.cpu,
            "cpus": self.cpus,
            "busy_percent": self.busy_percent,
            "commit": self.commit,
            "modified": self.modified,
            "parameters": self.parameters,
        })
    }
}

/// What git says; nothing where there is no git or no repository.
fn git(arguments: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    command.args(arguments).current_dir(cargo::workspace());
    match command.output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
}

/// The first processor's name in `/proc/cpuinfo`.
fn cpu_model(cpuinfo: &str) -> &str {
    cpuinfo
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name")?
                .trim_start()
                .strip_prefix(':')
        })
        .map_or("", str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named() {
        let cpuinfo =
            "processor\t: 0\nmodel\t\t: 106\nmodel name\t: Intel(R) Xeon(R)\nstepping: 6\n";
        assert_eq!(cpu_model(cpuinfo), "Intel(R) Xeon(R)");
        assert_eq!(cpu_model("processor: 0\n"), "");
    }
}
