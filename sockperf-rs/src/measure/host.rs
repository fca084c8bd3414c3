//! Facts about the machine that belong to a measurement.

use std::env;
use std::fs;
use std::thread;

use serde::Serialize;

use crate::sys::affinity;

/// The machine and what influences a measurement on it. What cannot be found out is absent.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// Name of the machine.
    pub hostname: String,
    /// Operating system and release.
    pub kernel: String,
    /// Instruction set.
    pub machine: String,
    /// Model of the CPU.
    pub cpu_model: Option<String>,
    /// CPUs that the process could use at most.
    pub cpu_count: Option<usize>,
    /// CPUs that the measuring thread may run on.
    pub affinity: Vec<usize>,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
    /// What the kernel takes its time from.
    pub clock_source: Option<String>,
    /// Whether this is a virtual machine, as far as the CPU tells.
    pub is_virtual: Option<bool>,
    /// The variable LD_PRELOAD.
    pub ld_preload: Option<String>,
}

impl Host {
    /// Looks around. Reads a few files; not for use during a test.
    pub fn observe() -> Self {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            cpu_info
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().to_owned())
        };
        Self {
            hostname: text(uname.nodename()),
            kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
            machine: text(uname.machine()),
            cpu_model: field("model name"),
            cpu_count: thread::available_parallelism().ok().map(usize::from),
            affinity: affinity::current_cpus(),
            governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: first_line(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            is_virtual: field("flags")
                .map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            ld_preload: env::var("LD_PRELOAD").ok(),
        }
    }
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_a_name_and_cpus() {
        let host = Host::observe();
        assert!(host.kernel.starts_with("Linux "), "{}", host.kernel);
        assert!(!host.hostname.is_empty() && !host.affinity.is_empty());
    }
}
