//! One network namespace: made, used and removed.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::panic;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::pause::Patience;
use crate::skip::Skip;
use crate::sys;

/// Where ip(8) keeps a file for each named namespace.
const NAMESPACE_DIRECTORY: &str = "/var/run/netns";

/// All names begin with this, followed by the pid of the test process.
const NAME_PREFIX: &str = "vmat-";

/// A named network namespace. Dropping it kills what still runs inside and removes it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// Keeps a handle, so that entering needs no look-up by name.
    file: File,
}

impl Namespace {
    /// Makes a namespace with a name of its own that ends in `side`, with `lo` up.
    pub fn create(side: &str) -> Result<Self, Skip> {
        if !sys::is_root() {
            return Err(Skip::new("not root: network namespaces need CAP_SYS_ADMIN"));
        }
        static SWEEP: Once = Once::new();
        SWEEP.call_once(remove_stale_namespaces);

        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{NAME_PREFIX}{}-{number}-{side}", process::id());
        let reason = |error| Skip::new(format!("cannot make a network namespace: {error}"));
        run_ip(&["netns", "add", &name], "").map_err(reason)?;
        let file = File::open(Path::new(NAMESPACE_DIRECTORY).join(&name)).map_err(|error| {
            remove(&name);
            reason(error)
        })?;
        let namespace = Self { name, file };
        namespace.ip(&["link", "set", "lo", "up"]).map_err(reason)?;
        Ok(namespace)
    }

    /// The name by which `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip -n <name> <arguments>` and returns what it printed. The error holds ip's own words.
    pub fn ip(&self, arguments: &[&str]) -> io::Result<String> {
        run_ip(&[&["-n", self.name.as_str()], arguments].concat(), "")
    }

    /// Runs many `ip` commands, one a line without the word "ip", in one process.
    pub fn ip_batch(&self, lines: &str) -> io::Result<String> {
        run_ip(&["-n", &self.name, "-batch", "-"], lines)
    }

    /// A command that runs inside: in this network namespace, with a `/sys` that shows its
    /// interfaces. The child process is the program itself, there is no wrapper.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let file = self
            .file
            .try_clone()
            .expect("a descriptor is left for the namespace");
        sys::start_in_network_namespace(&mut command, file);
        command
    }

    /// As [`Namespace::command`], with `library` (a path) preloaded into the program.
    pub fn preload(&self, program: impl AsRef<OsStr>, library: &Path) -> Command {
        let mut command = self.command(program);
        command.env("LD_PRELOAD", library);
        command
    }

    /// Runs `body` inside, on a thread of its own (a namespace is a property of a thread), and
    /// waits for it. Sockets opened inside stay in this namespace wherever they are used later. A
    /// panic of `body` is the caller's.
    ///
    /// # Panics
    ///
    /// If the thread cannot enter the namespace.
    pub fn enter<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            sys::enter_network_namespace(self.file.as_fd())
                .unwrap_or_else(|error| panic!("cannot enter namespace {}: {error}", self.name));
            body()
        };
        let result = thread::scope(|scope| scope.spawn(inside).join());
        result.unwrap_or_else(|cause| panic::resume_unwind(cause))
    }

    /// The pids of the processes that run inside.
    pub fn pids(&self) -> Vec<i32> {
        pids(&self.name)
    }

    /// Has a link cut and merge segments, or not (`ethtool -K <link> tso gso gro`).
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn set_segmentation(&self, link: &str, on: bool) -> io::Result<()> {
        self.enter(|| sys::set_segmentation(link, on))
    }

    /// Has a link given frames of its MTU, with checksums: nothing is left to it.
    ///
    /// # Errors
    ///
    /// There is no such link.
    pub fn make_whole_frames(&self, link: &str) -> io::Result<()> {
        let name = CString::new(link)?;
        self.enter(|| sys::make_whole_frames(&name))
    }

    /// Waits until interface `link` can carry traffic, which follows "up" with a delay.
    pub fn wait_until_running(&self, link: &str, timeout: Duration) -> io::Result<()> {
        let name = CString::new(link)?;
        let mut patience = Patience::new(timeout);
        self.enter(|| {
            while !sys::interface_is_running(&name)? {
                if patience.runs_out() {
                    let message = format!("{link} has no carrier after {timeout:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Runs `ip` with `input` as its standard input. The error holds what it wrote to stderr.
fn run_ip(arguments: &[&str], input: &str) -> io::Result<String> {
    let describe = |error: io::Error| {
        let hint = if error.kind() == io::ErrorKind::NotFound {
            " (install iproute2)"
        } else {
            ""
        };
        io::Error::new(error.kind(), format!("cannot run ip(8){hint}: {error}"))
    };
    let mut command = Command::new("ip");
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // The tests of a preloaded library must not preload it into ip.
    let mut child = command.env_remove("LD_PRELOAD").spawn().map_err(describe)?;
    if let Some(mut stdin) = child.stdin.take() {
        // An ip that fails early does not read its input: its status says more than a broken pipe.
        drop(io::Write::write_all(&mut stdin, input.as_bytes()));
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "ip {}: {}",
        arguments.join(" "),
        words.trim()
    )))
}

/// Kills what runs in the namespace, then deletes it. Errors are left alone: somebody else may have
/// been faster, and what remains is swept by the next test process.
fn remove(name: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let pids = pids(name);
        // A test process whose main thread is inside must not kill itself.
        let others: Vec<i32> = pids
            .into_iter()
            .filter(|pid| pid.cast_unsigned() != process::id())
            .collect();
        if others.is_empty() || Instant::now() > deadline {
            break;
        }
        for pid in others {
            drop(sys::kill(pid, libc::SIGKILL));
        }
        thread::sleep(Duration::from_millis(5));
    }
    drop(run_ip(&["netns", "delete", name], ""));
}

/// Pids of the processes inside; a zombie has left its namespace and is not among them.
fn pids(name: &str) -> Vec<i32> {
    let listed = run_ip(&["netns", "pids", name], "").unwrap_or_default();
    listed
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

/// Removes the namespaces that killed test processes left behind.
pub fn remove_stale_namespaces() {
    let Ok(directory) = fs::read_dir(NAMESPACE_DIRECTORY) else {
        return;
    };
    for entry in directory.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if owner(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(name);
        }
    }
}

/// The pid in a name that this module made: `vmat-<pid>-<number>-<side>`.
fn owner(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix(NAME_PREFIX)?.split_once('-')?;
    let (number, side) = rest.split_once('-')?;
    let ours = number.parse::<u32>().is_ok() && !side.is_empty();
    if ours { pid.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_made_here_have_an_owner() {
        assert_eq!(owner("vmat-4711-0-a"), Some(4711));
        assert_eq!(owner("vmat-4711-12-b"), Some(4711));
        for other in [
            "vmat-",
            "vmat-4711",
            "vmat-x-0-a",
            "vmat-1-x-a",
            "vmat-1-0-",
            "vma-1-0-a",
            "",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn ip_errors_carry_the_words_of_ip() {
        let error = run_ip(&["netns", "frobnicate"], "");
        if let Err(error) = error {
            assert!(error.to_string().contains("ip"), "{error}");
        } else {
            panic!("ip accepted nonsense");
        }
    }
}
