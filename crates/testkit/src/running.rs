//! A child process that cannot outlive its test.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::pause::Patience;
use crate::sys;

/// How often a waiting call looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A running child and what it has printed so far. Dropping it kills the child with all of its
/// process group (the child is the group's leader).
///
/// Output goes to anonymous memory files: the child never blocks on a reader, and can be read at
/// any time. As for any file, stdio buffers such output until it is full, flushed or the program
/// ends.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
}

/// How a child ended, and what it printed.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit status, or the signal.
    pub status: ExitStatus,
    /// All of standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// All of standard error; bytes that are not UTF-8 are replaced.
    pub stderr: String,
}

impl Running {
    /// Starts `command` with an empty standard input.
    pub fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::null());
        Self::spawn(command)
    }

    /// Starts `command` with a standard input that the test writes: see [`Running::stdin`].
    pub fn start_interactive(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> io::Result<Self> {
        let stdout = sys::memory_file(c"stdout")?;
        let stderr = sys::memory_file(c"stderr")?;
        command
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .process_group(0);
        let child = command.spawn().map_err(|error| {
            let program = command.get_program().display();
            io::Error::new(error.kind(), format!("cannot start {program}: {error}"))
        })?;
        Ok(Self {
            child,
            stdout,
            stderr,
        })
    }

    /// The child's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Takes the writing end of the standard input; dropping it is the end of file. `None` after
    /// the first call and for a child without one.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Sends `signal`, such as `libc::SIGINT`, to the child only.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        sys::kill(self.child.id().cast_signed(), signal)
    }

    /// The status if the child has ended.
    pub fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// What the child has written to standard output so far.
    pub fn stdout(&self) -> String {
        contents(&self.stdout)
    }

    /// What the child has written to standard error so far.
    pub fn stderr(&self) -> String {
        contents(&self.stderr)
    }

    /// Waits until `text` appears in standard output or standard error; false after `timeout`, or
    /// as soon as the child has ended without printing it.
    pub fn wait_for_output(&mut self, text: &str, timeout: Duration) -> bool {
        let mut patience = Patience::new(timeout);
        loop {
            // In this order: what a child printed just before its end is seen.
            let ended = !matches!(self.status(), Ok(None));
            if self.stdout().contains(text) || self.stderr().contains(text) {
                return true;
            }
            if ended || patience.runs_out() {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the child ends by itself. After `timeout` it is killed, and the error (of kind
    /// `TimedOut`) says what it had printed.
    pub fn wait(mut self, timeout: Duration) -> io::Result<Finished> {
        let mut patience = Patience::new(timeout);
        loop {
            if let Some(status) = self.status()? {
                return Ok(Finished {
                    status,
                    stdout: self.stdout(),
                    stderr: self.stderr(),
                });
            }
            if patience.runs_out() {
                let message = format!(
                    "still running after {timeout:?}\nstdout: {}\nstderr: {}",
                    self.stdout(),
                    self.stderr()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends `signal` and waits as [`Running::wait`] does.
    pub fn stop(self, signal: i32, timeout: Duration) -> io::Result<Finished> {
        // A child that has ended is not an error here: its status is what the caller wants.
        drop(self.signal(signal));
        self.wait(timeout)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = -self.child.id().cast_signed();
        // While the leader is not reaped its pid, and so the group's number, cannot be another's. A
        // reaped leader's group is only signalled if it still has members, which keep the number
        // too.
        drop(sys::kill(group, libc::SIGKILL));
        drop(self.child.wait());
    }
}

fn contents(file: &File) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    // Read by position: the file's offset is shared with the child.
    while let Ok(count @ 1..) = file.read_at(&mut chunk, bytes.len() as u64) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_status_of_a_child_are_kept_apart() {
        let child = Running::start(shell("echo out; echo err >&2; exit 3")).unwrap();
        let finished = child.wait(SOON).unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(finished.stdout, "out\n");
        assert_eq!(finished.stderr, "err\n");
    }

    #[test]
    fn output_can_be_read_while_the_child_runs() {
        let mut child = Running::start(shell("echo ready; exec sleep 60")).unwrap();
        assert!(child.wait_for_output("ready", SOON));
        assert!(!child.wait_for_output("never", Duration::from_millis(20)));
        assert_eq!(child.status().unwrap(), None);
    }

    #[test]
    fn waiting_for_output_ends_with_the_child() {
        let mut child = Running::start(shell("echo early")).unwrap();
        let start = Instant::now();
        assert!(!child.wait_for_output("never", Duration::from_secs(60)));
        assert!(start.elapsed() < Duration::from_secs(30));
        assert!(child.wait_for_output("early", SOON));
    }

    #[test]
    fn a_child_that_hangs_is_reported_with_its_output() {
        let child = Running::start(shell("echo stuck here; exec sleep 60")).unwrap();
        let error = child.wait(Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("stuck here"), "{error}");
    }

    #[test]
    fn dropping_kills_grandchildren_too() {
        let mut child = Running::start(shell("sleep 60 & echo $!; wait")).unwrap();
        assert!(child.wait_for_output("\n", SOON));
        let grandchild: i32 = child.stdout().trim().parse().unwrap();
        drop(child);
        let deadline = Instant::now() + SOON;
        while is_alive(grandchild) {
            assert!(Instant::now() < deadline, "{grandchild} outlived its test");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// A killed orphan may stay a zombie where nothing reaps (containers without an init).
    fn is_alive(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    #[test]
    fn an_interactive_child_reads_what_the_test_writes() {
        let mut child = Running::start_interactive(Command::new("cat")).unwrap();
        let mut stdin = child.stdin().unwrap();
        io::Write::write_all(&mut stdin, b"hello").unwrap();
        assert!(child.wait_for_output("hello", SOON));
        drop(stdin);
        assert!(child.wait(SOON).unwrap().status.success());
    }

    #[test]
    fn stop_reports_the_signal() {
        use std::os::unix::process::ExitStatusExt;
        let child = Running::start(shell("exec sleep 60")).unwrap();
        let finished = child.stop(libc::SIGTERM, SOON).unwrap();
        assert_eq!(finished.status.signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Running::start(Command::new("/nonexistent/program")).unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/program"),
            "{error}"
        );
    }
}
