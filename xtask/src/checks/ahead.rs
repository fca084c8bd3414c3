//! Compiles what later steps run while tests are running, most of which sleep most of the time.
//!
//! In the scheduling class that gets a CPU only when nobody else wants it. What fails here fails
//! again in its step, where it is seen.

use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use crate::family;
use crate::interrupt::{self, POLL_INTERVAL};
use crate::process;

/// Builds under way.
#[derive(Debug)]
pub(super) struct Ahead(JoinHandle<()>);

impl Ahead {
    /// Begins with these builds, one after the other.
    pub(super) fn begin(builds: Vec<Command>) -> Self {
        Self(thread::spawn(move || {
            for build in &builds {
                let mut build = when_idle(build);
                family::mark(&mut build);
                let Ok(child) = build.spawn() else {
                    return;
                };
                wait(child);
            }
        }))
    }

    /// Waits for their end.
    pub(super) fn end(self) {
        // A panic there would be one of a build that its step does again.
        drop(self.0.join());
    }
}

fn wait(mut child: Child) {
    while matches!(child.try_wait(), Ok(None)) {
        if interrupt::check().is_err() {
            drop(child.kill());
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// The same command in the class of idle processes (sched(7), `SCHED_IDLE`), silent.
fn when_idle(build: &Command) -> Command {
    let mut command = process::through(&["chrt", "--idle", "0"], build);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn builds_run_one_after_the_other_when_nobody_else_wants_the_cpu() {
        let directory = tempfile::tempdir().unwrap();
        let build = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(&directory);
            command.env("ONE", "1").env_remove("HOME");
            command
        };
        let policy = "cut -d' ' -f41 /proc/self/stat >policy; echo $ONE $HOME >variables";
        Ahead::begin(vec![build(policy), build("false"), build("mv policy seen")]).end();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        // SCHED_IDLE
        assert_eq!(read("seen"), "5\n");
        assert_eq!(read("variables"), "1\n");
    }
}
