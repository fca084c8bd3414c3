//! A preloaded program under test: where it publishes its statistics, and what they say.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::Duration;
use std::{env, fs, io, process, thread};

use stats::{Reader, SocketSnapshot};

use crate::emulated_verbs::{self, emulated_verbs};
use crate::library::libvma_path;
use crate::namespace::Namespace;
use crate::pause::Patience;
use crate::running::Running;

/// A program that runs with the library.
#[derive(Debug)]
pub struct Accelerated {
    process: Running,
    directory: PathBuf,
}

/// A command with the library preloaded, none of the caller's `VMA_` variables, and its statistics
/// in a directory of the test process.
///
/// # Errors
///
/// The library cannot be built.
pub fn preloaded(namespace: &Namespace, program: &Path) -> io::Result<Command> {
    prepared(namespace.preload(program, &libvma_path()?))
}

/// The same in the test's own network namespace: for what needs no packets, and no privileges.
///
/// # Errors
///
/// As [`preloaded`].
pub fn preloaded_in_place(program: &Path) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", libvma_path()?);
    prepared(command)
}

fn prepared(mut command: Command) -> io::Result<Command> {
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"VMA_") {
            command.env_remove(name);
        }
    }
    static SWEEP: Once = Once::new();
    SWEEP.call_once(remove_stale);
    let directory = statistics_directory();
    fs::create_dir_all(&directory)?;
    command.env("VMA_STATS_SHMEM_DIR", directory);
    command.envs([OPEN_WAIT]);
    if let Some(queues) = emulated_verbs::asked_for() {
        command.envs(emulated_verbs(queues)?);
    }
    Ok(command)
}

/// The name of every statistics directory begins with this, followed by the pid of the test
/// process.
const DIRECTORY_PREFIX: &str = "vmat-stats-";

/// Where the programs of this test process leave their statistics.
pub fn statistics_directory() -> PathBuf {
    env::temp_dir().join(format!("{DIRECTORY_PREFIX}{}", process::id()))
}

/// Removes the directories of test processes that have ended.
fn remove_stale() {
    let Ok(entries) = fs::read_dir(env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(DIRECTORY_PREFIX))
            .and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another test process may have been faster.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

impl Accelerated {
    /// Starts a command made by [`preloaded`], with a standard input that the test writes.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start(command: Command) -> io::Result<Self> {
        Ok(Self {
            process: Running::start_interactive(command)?,
            directory: statistics_directory(),
        })
    }

    /// The process.
    pub fn process(&mut self) -> &mut Running {
        &mut self.process
    }

    /// The process, no longer watched.
    pub fn into_process(self) -> Running {
        self.process
    }

    /// Its sockets as it publishes them.
    ///
    /// # Panics
    ///
    /// If it does not publish any statistics.
    pub fn sockets(&self) -> Vec<SocketSnapshot> {
        self.reader().sockets().expect("the statistics are whole")
    }

    /// The statistics themselves.
    ///
    /// # Panics
    ///
    /// As [`Accelerated::sockets`].
    pub fn reader(&self) -> Reader {
        self.reader_of(self.process.pid())
    }

    /// Those of a process that it has started.
    ///
    /// # Panics
    ///
    /// As [`Accelerated::sockets`].
    pub fn reader_of(&self, pid: u32) -> Reader {
        Reader::open(&self.directory, pid).unwrap_or_else(|error| {
            panic!("no statistics of {pid}: {error}\n{}", self.process.stderr())
        })
    }

    /// The same, if it publishes any by now.
    pub fn try_reader_of(&self, pid: u32) -> Option<Reader> {
        Reader::open(&self.directory, pid).ok()
    }

    /// Packets that its rings have received, for sockets that are closed, too.
    ///
    /// # Panics
    ///
    /// As [`Accelerated::sockets`].
    pub fn received_by_rings(&self) -> u64 {
        let rings = self.reader().rings().expect("the statistics are whole");
        rings.iter().map(|ring| ring.rx_packets).sum()
    }

    /// Packets that its open sockets received and sent past the kernel.
    pub fn packets(&self) -> u64 {
        let of_socket = |socket: &SocketSnapshot| socket.rx_packets + socket.tx_packets;
        self.sockets().iter().map(of_socket).sum()
    }

    /// Packets that its open sockets received and sent through the kernel.
    pub fn kernel_packets(&self) -> u64 {
        let of_socket = |socket: &SocketSnapshot| socket.rx_os_packets + socket.tx_os_packets;
        self.sockets().iter().map(of_socket).sum()
    }

    /// Number of its open descriptors.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn descriptor_count(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.pid()))
            .expect("the process runs")
            .count()
    }
}

/// Has the first socket wait for its interface as long as that takes, so that what tests see does
/// not depend on how busy the machine is.
pub const OPEN_WAIT: (&str, &str) = ("VMA_OPEN_WAIT_MSEC", "60000");

/// How long tests wait for what comes in a moment: a machine that is busy may stand still for long.
pub const SOON: Duration = Duration::from_secs(60);

/// Looks every few milliseconds until `done`; false after `timeout`.
pub fn eventually(timeout: Duration, mut done: impl FnMut() -> bool) -> bool {
    let mut patience = Patience::new(timeout);
    loop {
        if done() {
            return true;
        }
        if patience.runs_out() {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
