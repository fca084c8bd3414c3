//! Everything that this program has started, directly or not, is known by a variable in its
//! environment, and ends with it: cargo's end is not that of the test programs, nor theirs that of
//! the servers that they have started.

use std::fs;
use std::process::{self, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Inherited by all; holds the id of this process.
const MARK: &str = "LIBVMA_XTASK";

/// How long they may take to end by themselves.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long they may take when they are killed.
const KILLED: Duration = Duration::from_secs(10);

/// Makes the command, and what it starts, one of us.
pub(crate) fn mark(command: &mut Command) {
    command.env(MARK, process::id().to_string());
}

/// Ends all of them, and removes the network namespaces that they have made.
pub(crate) fn end() {
    end_marked(&format!("{MARK}={}", process::id()));
    testkit::remove_stale_namespaces();
}

fn end_marked(mark: &str) {
    let begun = Instant::now();
    let mut signal = Signal::TERM;
    loop {
        let found = marked(mark);
        if found.is_empty() || begun.elapsed() > PATIENCE + KILLED {
            return;
        }
        if signal == Signal::TERM || begun.elapsed() > PATIENCE {
            for pid in found {
                // It may have ended by now.
                let _ = kill_process(pid, signal);
            }
            signal = Signal::KILL;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The processes with this in their environment, but this one. Those that have ended and wait for
/// their parent have none.
fn marked(mark: &str) -> Vec<Pid> {
    let own = process::id().cast_signed();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_mark = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == mark.as_bytes())
    };
    pids.filter(|pid| *pid != own)
        .filter(has_mark)
        .filter_map(Pid::from_raw)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn grandchildren_in_sessions_of_their_own_end_too() {
        // One ends when it is asked to, one does not hear of it.
        let script = "setsid sh -c 'sleep 300' & trap '' TERM; setsid sh -c 'trap \"\" TERM; echo there; \
                      while :; do sleep 1; done' & sleep 300";
        let own = format!("family-{}", process::id());
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .env(MARK, &own)
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let mark = format!("{MARK}={own}");
        assert!(marked(&mark).len() >= 4, "{:?}", marked(&mark));
        end_marked(&mark);
        assert_eq!(marked(&mark), []);
        child.wait().unwrap();
    }
}
