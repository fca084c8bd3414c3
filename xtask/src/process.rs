//! Child processes that share this program's terminal, and that end with it.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::family;
use crate::interrupt::{self, POLL_INTERVAL};
use crate::output;

/// How long an interrupted child, which got the Ctrl-C too, may take to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Which of a child's streams [`run_reading`] reads; the others are this program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Stdout,
    /// Both, in the order in which the child wrote.
    StdoutAndStderr,
}

/// Runs `command` with this program's streams and fails unless it succeeds.
pub(crate) fn run(mut command: Command) -> Result<(), Failure> {
    if let (Some(first), Some(second)) = (output::log(), output::log()) {
        command.stdout(first).stderr(second);
    }
    let mut child = Guard::spawn(&mut command)?;
    let status = child.wait()?;
    success(&command, status)
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen<'a> {
    Line(&'a str),
    /// It, by its process id, has been silent for as long as is allowed, or again so long.
    Silence(u32),
}

/// Runs `command`, hands each line that it writes to `line`, and returns how it ended.
pub(crate) fn run_reading(
    command: Command,
    read: Read,
    mut line: impl FnMut(&str),
) -> Result<ExitStatus, Failure> {
    run_watching(command, read, Duration::MAX, |seen| {
        if let Seen::Line(text) = seen {
            line(text);
        }
    })
}

/// The same, where a silence of `patience` is told, too.
pub(crate) fn run_watching(
    mut command: Command,
    read: Read,
    patience: Duration,
    mut see: impl FnMut(Seen<'_>),
) -> Result<ExitStatus, Failure> {
    let (reader, writer) = io::pipe()?;
    if read == Read::StdoutAndStderr {
        command.stderr(writer.try_clone()?);
    } else if let Some(log) = output::log() {
        command.stderr(log);
    }
    command.stdout(writer);
    let mut child = Guard::spawn(&mut command)?;
    // The command keeps writing ends of the pipe: without them, the end of the child is the end of
    // file.
    drop(command);

    let (line_tx, line_rx) = mpsc::channel();
    // Not joined: descendants of an interrupted child may hold the pipe longer than anybody wants
    // to wait.
    thread::spawn(move || {
        for bytes in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if line_tx.send(bytes).is_err() {
                break;
            }
        }
    });
    let mut heard = Instant::now();
    loop {
        match line_rx.recv_timeout(POLL_INTERVAL) {
            Ok(bytes) => {
                see(Seen::Line(&String::from_utf8_lossy(&bytes)));
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) if heard.elapsed() >= patience => {
                see(Seen::Silence(child.0.id()));
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return child.wait(),
        }
        if interrupt::check().is_err() {
            return child.wait();
        }
    }
}

/// Fails unless `status` is a success.
pub(crate) fn success(command: &Command, status: ExitStatus) -> Result<(), Failure> {
    if status.success() {
        return Ok(());
    }
    let words = words(command);
    Err(Failure::Reason(format!("{words} failed ({status})")))
}

/// The command as one would type it.
pub(crate) fn words(command: &Command) -> String {
    let words: Vec<_> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    words.join(" ")
}

/// The same command, started by another one, such as `nice`.
pub(crate) fn through(starter: &[&str], command: &Command) -> Command {
    let mut through = Command::new(starter.first().unwrap_or(&"env"));
    through
        .args(starter.iter().skip(1))
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        through.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => through.env(name, value),
            None => through.env_remove(name),
        };
    }
    through
}

/// A child that is killed if it is left.
struct Guard(Child);

impl Guard {
    fn spawn(command: &mut Command) -> Result<Self, Failure> {
        family::mark(command);
        let child = command.stdin(Stdio::null()).spawn().map_err(|error| {
            Failure::Reason(format!(
                "cannot run {}: {error}",
                command.get_program().display()
            ))
        })?;
        Ok(Self(child))
    }

    /// Waits for the end; an interruption lets the child end for a moment first.
    fn wait(&mut self) -> Result<ExitStatus, Failure> {
        let mut interrupted_at = None;
        loop {
            if let Some(status) = self.0.try_wait()? {
                interrupt::check()?;
                return Ok(status);
            }
            if interrupt::check().is_err() {
                let since = *interrupted_at.get_or_insert_with(Instant::now);
                if since.elapsed() > END_TIMEOUT {
                    return Err(Failure::Interrupted);
                }
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Both do nothing to a child that has ended and was waited for.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn lines(script: &str, read: Read) -> (ExitStatus, Vec<String>) {
        let mut lines = Vec::new();
        let status = run_reading(shell(script), read, |line| lines.push(line.to_owned())).unwrap();
        (status, lines)
    }

    #[test]
    fn both_streams_are_read_in_order() {
        let script = "echo 1; echo 2 >&2; echo 3; printf 4 >&2; exit 5";
        let (status, read) = lines(script, Read::StdoutAndStderr);
        assert_eq!(read, ["1", "2", "3", "4"]);
        assert_eq!(status.code(), Some(5));
    }

    #[test]
    fn standard_output_alone_is_read() {
        let (status, read) = lines("echo 1; : >&2; echo 3", Read::Stdout);
        assert_eq!(read, ["1", "3"]);
        assert!(status.success());
    }

    #[test]
    fn a_silence_is_told_as_often_as_it_lasts_so_long() {
        let script = shell("echo 1; exec sleep 60");
        let mut silences = 0;
        let patience = Duration::from_millis(300);
        let status = run_watching(script, Read::Stdout, patience, |seen| match seen {
            Seen::Line(line) => assert_eq!(line, "1"),
            Seen::Silence(pid) => {
                silences += 1;
                if silences == 2 {
                    let killed = Pid::from_raw(pid.cast_signed()).unwrap();
                    kill_process(killed, Signal::KILL).unwrap();
                }
            }
        });
        assert_eq!(status.unwrap().signal(), Some(9));
        assert_eq!(silences, 2);
    }

    #[test]
    fn a_failure_names_the_command() {
        let error = run(shell("exit 3")).unwrap_err().to_string();
        assert!(
            error.contains("sh -c exit 3 failed (exit status: 3)"),
            "{error}"
        );
        let error = run(Command::new("/nonexistent/program"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nonexistent/program"), "{error}");
        run(shell("exit 0")).unwrap();
    }
}
