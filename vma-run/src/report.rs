//! What the facts mean for acceleration, and how to mend what is missing. Pure.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::facts::Facts;

mod interfaces;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// As it should be.
    Fine,
    /// Costs speed, or some interface.
    Worse,
    /// No socket is accelerated.
    Missing,
}

impl Weight {
    fn mark(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Worse => "note",
            Self::Missing => "MISSING",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) weight: Weight,
    subject: String,
    text: String,
    /// How to mend it.
    remedy: Option<String>,
}

impl Finding {
    fn fine(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            weight: Weight::Fine,
            subject: subject.into(),
            text: text.into(),
            remedy: None,
        }
    }

    fn worse(subject: impl Into<String>, text: impl Into<String>, remedy: &str) -> Self {
        Self {
            weight: Weight::Worse,
            remedy: Some(remedy.to_owned()),
            ..Self::fine(subject, text)
        }
    }

    fn missing(subject: impl Into<String>, text: impl Into<String>, remedy: &str) -> Self {
        Self {
            weight: Weight::Missing,
            ..Self::worse(subject, text, remedy)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.subject, self.text)?;
        match &self.remedy {
            Some(remedy) => write!(formatter, ". {remedy}"),
            None => Ok(()),
        }
    }
}

/// Everything that was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// Whether sockets can be accelerated.
    pub(crate) fn is_ready(&self) -> bool {
        self.missing().next().is_none()
    }

    /// For programs: what [`fmt::Display`] says to people.
    pub(crate) fn json(&self) -> Value {
        let finding = |it: &Finding| {
            json!({
                "weight": it.weight.mark(),
                "subject": it.subject,
                "text": it.text,
                "remedy": it.remedy,
            })
        };
        let findings: Vec<_> = self.findings.iter().map(finding).collect();
        json!({ "ready": self.is_ready(), "findings": findings })
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.weight == Weight::Missing)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Finding {
                weight,
                subject,
                text,
                remedy,
            } = finding;
            writeln!(formatter, "{:<8} {subject:<14} {text}", weight.mark())?;
            if let Some(remedy) = remedy {
                writeln!(formatter, "{:<23} {remedy}", "")?;
            }
        }
        formatter.write_str(if self.is_ready() {
            "\nUDP and TCP sockets can be accelerated here.\n"
        } else {
            "\nSockets cannot be accelerated here: programs run on the kernel.\n"
        })
    }
}

pub(crate) fn judge(facts: &Facts, library: Option<&PathBuf>) -> Report {
    let mut findings = vec![
        match library {
            Some(path) => Finding::fine("library", path.display().to_string()),
            None => Finding::missing(
                "library",
                "libvma.so is not installed",
                "Install the package libvma, or name a file with --library.",
            ),
        },
        kernel(facts),
    ];
    findings.extend(capabilities(facts));
    findings.push(locked_memory(facts));
    findings.extend(interfaces::judge(facts));
    findings.push(processors(facts));
    findings.extend(governor(facts));
    Report { findings }
}

const LEAST_KERNEL: (u32, u32) = (5, 9);
/// From here on, CAP_BPF is enough for native mode.
const NO_PERFMON_KERNEL: (u32, u32) = (5, 18);

fn kernel(facts: &Facts) -> Finding {
    let Some((major, minor)) = facts.kernel else {
        return Finding::worse("kernel", "unknown release", "Linux 5.9 or later is needed.");
    };
    let text = format!("Linux {major}.{minor}");
    if (major, minor) < LEAST_KERNEL {
        return Finding::missing("kernel", text, "Linux 5.9 or later is needed.");
    }
    if !facts.has_btf {
        return Finding::worse(
            "kernel",
            format!("{text} without BTF (/sys/kernel/btf/vmlinux): no generic mode"),
            "Drivers without native XDP need a kernel with CONFIG_DEBUG_INFO_BTF.",
        );
    }
    Finding::fine("kernel", text)
}

/// Name and number (capabilities(7)).
const NET_ADMIN: (&str, u32) = ("CAP_NET_ADMIN", 12);
const NET_RAW: (&str, u32) = ("CAP_NET_RAW", 13);
const IPC_LOCK: (&str, u32) = ("CAP_IPC_LOCK", 14);
const SYS_ADMIN: (&str, u32) = ("CAP_SYS_ADMIN", 21);
const PERFMON: (&str, u32) = ("CAP_PERFMON", 38);
const BPF: (&str, u32) = ("CAP_BPF", 39);

const GIVE_CAPABILITIES: &str = "Run as root, or give them as ambient capabilities: \
setpriv --inh-caps=+net_raw,+net_admin,+bpf,+perfmon,+ipc_lock --ambient-caps=(the same), or AmbientCapabilities= in a \
systemd unit.";

impl Facts {
    /// Whether XDP in generic mode can be had, which most drivers need.
    fn has_generic_mode(&self) -> bool {
        self.has_btf && (self.has(PERFMON) || self.has(SYS_ADMIN))
    }

    fn has(&self, (_, number): (&str, u32)) -> bool {
        self.capabilities
            .is_some_and(|capabilities| capabilities >> number & 1 == 1)
    }
}

fn capabilities(facts: &Facts) -> Vec<Finding> {
    let has = |capability| facts.has(capability) || (capability.1 >= 38 && facts.has(SYS_ADMIN));
    let lacking: Vec<&str> = [NET_RAW, NET_ADMIN, BPF]
        .into_iter()
        .filter(|capability| !has(*capability))
        .map(|(name, _)| name)
        .collect();
    if !lacking.is_empty() {
        let text = format!("without {}", lacking.join(", "));
        return vec![Finding::missing("capabilities", text, GIVE_CAPABILITIES)];
    }
    if !has(PERFMON) {
        let text = "without CAP_PERFMON: no generic mode";
        let is_old = facts
            .kernel
            .is_some_and(|kernel| kernel < NO_PERFMON_KERNEL);
        return vec![if is_old {
            Finding::missing("capabilities", text, GIVE_CAPABILITIES)
        } else {
            Finding::worse("capabilities", text, GIVE_CAPABILITIES)
        }];
    }
    vec![Finding::fine("capabilities", "all that are needed")]
}

/// For the frames of one interface and what the kernel keeps beside them.
const LEAST_LOCKED: u64 = 16 << 20;

fn locked_memory(facts: &Facts) -> Finding {
    match facts.locked_memory {
        None => Finding::fine("memlock", "no limit"),
        Some(limit) if facts.has(IPC_LOCK) => Finding::fine(
            "memlock",
            format!("{} KiB, which CAP_IPC_LOCK lifts", limit >> 10),
        ),
        Some(limit) if limit > LEAST_LOCKED => {
            Finding::fine("memlock", format!("{} MiB", limit >> 20))
        }
        Some(limit) => {
            let text = format!("{} KiB, more than 16 MiB are needed", limit >> 10);
            let remedy = "Join the group vma (/etc/security/limits.d/30-libvma.conf) and log in again, use ulimit -l \
                          unlimited, LimitMEMLOCK=infinity in a systemd unit, or CAP_IPC_LOCK.";
            Finding::missing("memlock", text, remedy)
        }
    }
}

fn processors(facts: &Facts) -> Finding {
    let text = match facts.isolated_cpus.as_str() {
        "" => format!("{} to run on, none isolated", facts.cpus),
        list => format!("{} to run on, isolated: {list}", facts.cpus),
    };
    if facts.cpus < 2 {
        return Finding::worse(
            "processors",
            text,
            "A thread that waits with VMA_SPEC=latency takes a whole one.",
        );
    }
    if facts.isolated_cpus.is_empty() {
        return Finding::worse(
            "processors",
            text,
            "For the lowest tail latency, isolcpus= and nohz_full= on the kernel's command line keep others away.",
        );
    }
    Finding::fine("processors", text)
}

fn governor(facts: &Facts) -> Option<Finding> {
    if facts.governors.is_empty() {
        // A virtual machine, mostly.
        return None;
    }
    let names: Vec<&str> = facts.governors.iter().map(String::as_str).collect();
    let text = names.join(", ");
    Some(if names == ["performance"] {
        Finding::fine("governor", text)
    } else {
        Finding::worse(
            "governor",
            text,
            "cpupower frequency-set -g performance keeps processors from slowing down between packets.",
        )
    })
}

#[cfg(test)]
mod tests;
