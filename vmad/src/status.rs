//! What the daemon watches and has done: a file that anybody may read.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use stats::BrokerStatus;

use crate::cli::Options;

/// The document in the status file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) version: String,
    /// Seconds since 1970.
    pub(crate) updated: u64,
    pub(crate) processes: Vec<ProcessLine>,
    pub(crate) counters: Counters,
    /// Redirected to or from TAP devices.
    #[serde(default)]
    pub(crate) flows: usize,
    /// The network namespace that it sends from.
    #[serde(default)]
    pub(crate) namespace: Option<String>,
}

/// A process that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessLine {
    pub(crate) pid: u32,
    pub(crate) user: Option<u32>,
    /// Statistics are published by this project's library, messages come from the original one.
    pub(crate) statistics: bool,
    pub(crate) messages: bool,
    /// Those that it told of.
    pub(crate) connections: usize,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub(crate) processes_ended: u64,
    pub(crate) processes_ended_uncleanly: u64,
    pub(crate) resets_sent: u64,
    pub(crate) probes_sent: u64,
    /// Connections of the dead that were left alone, because somebody has them or the address is
    /// gone.
    pub(crate) spared: u64,
    pub(crate) unknown_to_peer: u64,
    pub(crate) unanswered: u64,
    pub(crate) files_removed: u64,
    pub(crate) messages: u64,
    /// Malformed, from a stranger, or a claim to what somebody else has.
    pub(crate) messages_refused: u64,
    /// Beyond the limits.
    pub(crate) messages_dropped: u64,
    /// Connections of the dead in network namespaces that the daemon is not in.
    #[serde(default)]
    pub(crate) elsewhere: u64,
}

impl Counters {
    const NAMES: &'static str = "processes that ended|  without a word|resets sent|probes sent|connections spared|\
                                 unknown to the peer|unanswered|files removed|messages|  refused|  dropped|\
                                 in other namespaces";

    fn values(&self) -> [u64; 12] {
        [
            self.processes_ended,
            self.processes_ended_uncleanly,
            self.resets_sent,
            self.probes_sent,
            self.spared,
            self.unknown_to_peer,
            self.unanswered,
            self.files_removed,
            self.messages,
            self.messages_refused,
            self.messages_dropped,
            self.elsewhere,
        ]
    }
}

impl Status {
    /// For a person.
    fn render(&self, now: u64) -> String {
        let mut text = format!(
            "vmad {} runs, process {}; this is {} seconds old\n\n",
            self.version,
            self.pid,
            now.saturating_sub(self.updated)
        );
        for (name, value) in Counters::NAMES.split('|').zip(self.counters.values()) {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{name:<22} {value:>10}");
        }
        let _ = writeln!(text, "{:<22} {:>10}", "flows redirected", self.flows);
        if self.processes.is_empty() {
            return text + "\nNo process is watched.\n";
        }
        text += "\n    PID   USER  CONNECTIONS  FOUND BY\n";
        for process in &self.processes {
            let user = process
                .user
                .map_or_else(|| "?".to_owned(), |user| user.to_string());
            let found = match (process.statistics, process.messages) {
                (true, true) => "statistics, messages",
                (true, false) => "statistics",
                _ => "messages",
            };
            let _ = writeln!(
                text,
                "{:>7} {user:>6} {:>12}  {found}",
                process.pid, process.connections
            );
        }
        text
    }
}

/// Replaces the file in one step, so that a reader never sees a part.
pub(crate) fn write_document(document: &impl Serialize, path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(directory)?;
    let fresh = path.with_extension("new");
    let text = serde_json::to_string(document)?;
    fs::write(&fresh, text + "\n")?;
    fs::rename(&fresh, path)
}

pub(crate) fn unix_time() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// Everything, for programs.
#[derive(Debug, Serialize)]
struct Document {
    daemon: Option<Status>,
    broker: Option<BrokerStatus>,
}

/// `vmad --status`: of the daemon, and of the broker, if they run.
pub(crate) fn show(options: &Options) -> ExitCode {
    let daemon = read(&options.status_file);
    let broker = BrokerStatus::read(&options.broker_socket, |bytes| {
        serde_json::from_slice(bytes)
    });
    if let (Err(daemon), Err(broker)) = (&daemon, &broker) {
        // There is nowhere to report that the stream is closed, here and below.
        let _ = writeln!(io::stderr().lock(), "vmad: {daemon}\nvmad: {broker}");
        return ExitCode::FAILURE;
    }
    let text = if options.json {
        let document = Document {
            daemon: daemon.ok(),
            broker: broker.ok(),
        };
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    } else {
        let now = unix_time();
        let parts = [
            daemon.ok().map(|it| it.render(now)),
            broker.ok().map(|it| it.render(now)),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        parts.join("\n")
    };
    let _ = io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// The network namespace that the daemon with this file sends from, if it says so.
pub(crate) fn namespace(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    serde_json::from_str::<Status>(&text).ok()?.namespace
}

fn read(path: &Path) -> Result<Status, String> {
    let text = fs::read_to_string(path).map_err(|error| {
        format!(
            "no daemon has left its status in {}: {error}",
            path.display()
        )
    })?;
    let status: Status = serde_json::from_str(&text)
        .map_err(|error| format!("{} is no status: {error}", path.display()))?;
    if stats::process_start_time_ticks(status.pid) != Some(status.start_ticks) {
        return Err(format!(
            "process {} that left its status in {} has ended",
            status.pid,
            path.display()
        ));
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    fn status() -> Status {
        Status {
            pid: process::id(),
            start_ticks: stats::process_start_time_ticks(process::id()).unwrap(),
            version: "1.2.3".to_owned(),
            updated: 100,
            processes: vec![ProcessLine {
                pid: 77,
                user: Some(1000),
                statistics: true,
                messages: false,
                connections: 3,
            }],
            counters: Counters {
                resets_sent: 42,
                messages_dropped: 7,
                ..Counters::default()
            },
            flows: 2,
            namespace: None,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmad/status.json");
        write_document(&status(), &path).unwrap();
        assert_eq!(read(&path), Ok(status()));
    }

    #[test]
    fn a_dead_daemon_has_no_status() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("status.json");
        assert!(read(&path).unwrap_err().contains("no daemon"));
        let dead = Status {
            start_ticks: 1,
            ..status()
        };
        write_document(&dead, &path).unwrap();
        assert!(read(&path).unwrap_err().contains("has ended"));
        fs::write(&path, "{").unwrap();
        assert!(read(&path).unwrap_err().contains("is no status"));
    }

    #[test]
    fn every_counter_has_a_line() {
        let text = status().render(160);
        assert!(text.starts_with(&format!(
            "vmad 1.2.3 runs, process {}; this is 60",
            process::id()
        )));
        assert_eq!(
            Counters::NAMES.split('|').count(),
            Counters::default().values().len()
        );
        assert!(
            text.contains("resets sent                    42\n"),
            "{text}"
        );
        assert!(
            text.contains("  dropped                       7\n"),
            "{text}"
        );
        assert!(
            text.contains("     77   1000            3  statistics\n"),
            "{text}"
        );
    }
}
