//! Test programs that say nothing any more: what they wait for is told, and they are killed. A test
//! that waits for ever would hold up the whole run, until somebody ends that without a word of why.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;
use crate::process::{self, Read, Seen};

/// Usual steps: libtest writes a line at the end of each test, and of each that takes a minute.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// Tests that take minutes each.
pub(super) const LONG_PATIENCE: Duration = Duration::from_secs(1800);

/// A stack trace of one process: so many of its lines.
const LINES_OF_TRACE: usize = 200;

/// A process below cargo.
#[derive(Debug, PartialEq)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
}

/// What is known of tests that run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told<'a> {
    Line(&'a str),
    /// Their program was killed.
    Killed,
}

/// Runs `command`, a `cargo test`, and kills its test programs after such a silence.
pub(super) fn run(
    command: Command,
    patience: Duration,
    mut tell: impl FnMut(Told<'_>),
) -> Result<ExitStatus, Failure> {
    process::run_watching(
        command,
        Read::StdoutAndStderr,
        patience,
        |seen| match seen {
            Seen::Line(line) => tell(Told::Line(line)),
            Seen::Silence(cargo) => {
                let lines = explain_and_kill(cargo, patience);
                lines.iter().for_each(|line| tell(Told::Line(line)));
                tell(Told::Killed);
            }
        },
    )
}

/// Ends the test program that this cargo runs, and what that has started. Returns what they did.
fn explain_and_kill(cargo: u32, silent: Duration) -> Vec<String> {
    let all = processes();
    let found = descendants(cargo, &all);
    let seconds = silent.as_secs();
    let mut lines = vec![format!("xtask: no word for {seconds} s; these are killed:")];
    lines.extend(found.iter().map(|process| describe(process)));
    if let Some(program) = found.first() {
        lines.extend(trace(program.pid));
    }
    for process in found {
        if let Some(pid) = Pid::from_raw(process.pid.cast_signed()) {
            // It may have ended by now.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    lines
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| parse(&fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect()
}

/// A line of `/proc/PID/stat`: `1 (name) S 0 ...`.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    Some(Process {
        pid: pid.parse().ok()?,
        parent: rest.split(' ').nth(1)?.parse().ok()?,
        name: name.to_owned(),
    })
}

/// All below `ancestor`, parents first.
fn descendants(ancestor: u32, all: &[Process]) -> Vec<&Process> {
    let mut found: Vec<&Process> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|process| process.parent == parent);
        for child in children {
            parents.push(child.pid);
            found.push(child);
        }
    }
    found
}

/// What it is, and where in the kernel its threads are.
fn describe(process: &Process) -> String {
    let place = Path::new("/proc").join(process.pid.to_string());
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let arguments = read(&place.join("cmdline")).replace('\0', " ");
    let threads = fs::read_dir(place.join("task"))
        .into_iter()
        .flatten()
        .flatten();
    let waits = threads.map(|thread| {
        let thread = thread.path();
        format!(
            "{} {}",
            read(&thread.join("comm")).trim(),
            read(&thread.join("wchan"))
        )
    });
    format!(
        "  {} {}: {arguments}[{}]",
        process.pid,
        process.name,
        waits.collect::<Vec<_>>().join(", ")
    )
}

/// Where the threads of the test program are, if gdb is there.
fn trace(pid: u32) -> Vec<String> {
    let mut gdb = Command::new("timeout");
    gdb.args([
        "60",
        "gdb",
        "--batch",
        "--nx",
        "-ex",
        "thread apply all bt 24",
        "-p",
    ]);
    gdb.arg(pid.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = gdb.output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    let lines = text.lines().filter(|line| line.starts_with(['#', 'T']));
    lines.take(LINES_OF_TRACE).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_line_of_stat_may_have_any_name() {
        let parsed = parse("12 (a) b (c) S 3 12 12 0").unwrap();
        let expected = Process {
            pid: 12,
            parent: 3,
            name: "a) b (c".to_owned(),
        };
        assert_eq!(parsed, expected);
        assert_eq!(parse("12"), None);
    }

    #[test]
    fn what_is_below_is_described_and_killed() {
        // In the place of cargo a shell, of the test program another.
        let mut cargo = Command::new("sh")
            .args(["-c", "sh -c 'sleep 300; :'; exit 7"])
            .spawn()
            .unwrap();
        let lines = loop {
            let all = processes();
            if descendants(cargo.id(), &all).len() == 2 {
                break explain_and_kill(cargo.id(), PATIENCE);
            }
            assert_eq!(cargo.try_wait().unwrap(), None);
        };
        assert!(lines[0].contains("no word for 300 s"), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.contains("sleep 300")),
            "{lines:?}"
        );
        let status = cargo.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(7), None));
    }
}
