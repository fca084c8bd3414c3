//! Where a program runs: a namespace joined to its peer's, a directory of its own, and an
//! environment that is the same every time.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;
use std::{env, fs, io};

use testkit::{Echo, Finished, Namespaces, Pair, Running, Skip, eventually, needs};

use crate::evidence::{self, PastKernel};

/// Longest time that one run may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long processes that the program does not wait for may take to end.
const GRACE: Duration = Duration::from_secs(20);

/// The namespaces and the directory of one program. The directory holds `home`, made anew for each
/// run, `log` and `statistics`, and a copy of the library.
#[derive(Debug)]
pub(crate) struct Stage {
    pair: Pair,
    _echo: Echo,
    scripts: PathBuf,
    name: &'static str,
    /// Of the program, and of its peer.
    addresses: [IpAddr; 2],
    library: PathBuf,
    directory: PathBuf,
    /// A program of the workspace's that it runs.
    own_program: Option<PathBuf>,
}

/// What a run said and did.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) finished: Finished,
    pub(crate) past_kernel: PastKernel,
    /// Command lines of processes that still ran at its end.
    pub(crate) left_over: Vec<String>,
    /// The library's log files, one after the other.
    pub(crate) log: String,
}

impl Stage {
    /// Makes the namespaces and the directory. `own_program`: a program of the workspace's that the
    /// script runs.
    ///
    /// # Panics
    ///
    /// If the library cannot be built or copied, or the program cannot be built.
    pub(crate) fn new(name: &'static str, own_program: Option<&str>) -> Result<Self, Skip> {
        let addresses = [Pair::ADDRESS_B, Pair::ADDRESS_A].map(IpAddr::from);
        let mut stage = Self::over(Namespaces::pair()?, name, addresses, base().join(name))?;
        stage.own_program = own_program
            .map(|package| testkit::own_program(package).unwrap_or_else(|error| panic!("{error}")));
        Ok(stage)
    }

    /// The same, and the two ends have IPv6 addresses.
    ///
    /// # Panics
    ///
    /// As [`Stage::new`].
    pub(crate) fn over_ipv6(name: &'static str) -> Result<Self, Skip> {
        let addresses = [Pair::IPV6_ADDRESS_B, Pair::IPV6_ADDRESS_A].map(IpAddr::from);
        let pair = Namespaces::new().ipv6().create()?;
        // Else the ICMP errors of one run leave none for the next.
        pair.a
            .enter(|| fs::write("/proc/sys/net/ipv6/icmp/ratelimit", "0"))
            .expect("root may change the namespace's limits");
        Self::over(pair, name, addresses, base().join(format!("{name}-6")))
    }

    fn over(
        pair: Pair,
        name: &'static str,
        addresses: [IpAddr; 2],
        directory: PathBuf,
    ) -> Result<Self, Skip> {
        fs::create_dir_all(&directory).expect("the test may write to the temporary directory");
        let echo =
            Echo::start(&pair.a, Pair::ADDRESS_A).expect("the fresh namespace has its ports free");
        // Else the ICMP errors of one run leave none for the next.
        pair.a
            .enter(|| fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0"))
            .expect("root may change the namespace's limits");
        let stage = Self {
            pair,
            _echo: echo,
            scripts: Path::new(env!("CARGO_MANIFEST_DIR")).join("programs"),
            name,
            addresses,
            library: copy_library(&directory),
            directory,
            own_program: None,
        };
        Ok(stage)
    }

    /// Runs the program: without the library, or with it and these variables.
    ///
    /// # Errors
    ///
    /// It did not end in time.
    pub(crate) fn run(&self, environment: Option<&[(&str, &str)]>) -> io::Result<Run> {
        let [home, log, statistics] = ["home", "log", "statistics"].map(|name| {
            let directory = self.directory.join(name);
            // The first run finds nothing to remove.
            drop(fs::remove_dir_all(&directory));
            fs::create_dir_all(&directory).expect("the directory above is ours");
            // Some programs run as another user.
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("as above");
            directory
        });
        let mut command = self.command(&home);
        if let Some(environment) = environment {
            command
                .env("LD_PRELOAD", &self.library)
                .env("VMA_STATS_SHMEM_DIR", &statistics)
                // Most of them are over before their interface would be open.
                .envs([testkit::OPEN_WAIT])
                .envs(environment.iter().copied());
            if environment.contains(&("VMA_TRACELEVEL", "debug")) {
                command.env("VMA_LOG_FILE", log.join("%d"));
            }
        }
        let run = || Running::start(command)?.wait(TIMEOUT);
        let (finished, past_kernel) = evidence::past_kernel(&statistics, run);
        let left_over = self.end_left_over();
        Ok(Run {
            finished: finished?,
            past_kernel,
            left_over,
            log: contents(&log),
        })
    }

    fn command(&self, home: &Path) -> Command {
        let [own, peer] = self.addresses;
        // As it stands in a URL.
        let host = match own {
            IpAddr::V4(own) => own.to_string(),
            IpAddr::V6(own) => format!("[{own}]"),
        };
        let mut command = self.pair.b.command("/bin/bash");
        command
            .args(["-e", "-u", "-o", "pipefail"])
            .arg(self.scripts.join(format!("{}.sh", self.name)))
            .env_clear()
            .current_dir(home)
            .envs([("PATH", needs::PATH), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")])
            .envs([("HOME", home), ("PROGRAMS", &self.scripts)])
            .env("PYTHONPATH", needs::python_modules())
            .env("BASH_ENV", self.scripts.join("common.bash"))
            .env("SELF", own.to_string())
            .env("PEER", peer.to_string())
            .env("HOST", host)
            .env("PEER_NETNS", self.pair.a.name());
        if let Some(program) = &self.own_program {
            command.env("OWN_PROGRAM", program);
        }
        command
    }

    /// Ends what still runs in the namespaces after a moment, and says what it was.
    fn end_left_over(&self) -> Vec<String> {
        let pids = || [self.pair.a.pids(), self.pair.b.pids()].concat();
        if eventually(GRACE, || pids().is_empty()) {
            return Vec::new();
        }
        let end = |pid: i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            // SAFETY: kill takes plain integers.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            String::from_utf8_lossy(&words).replace('\0', " ")
        };
        let left_over = pids().into_iter().map(end).collect();
        // Else their sockets are in the next run's way.
        eventually(GRACE, || pids().is_empty());
        left_over
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What remains is in the temporary directory, under the name of an ended process.
        drop(fs::remove_dir_all(&self.directory));
        drop(fs::remove_dir(base()));
    }
}

fn base() -> PathBuf {
    env::temp_dir().join(format!("vmat-programs-{}", process::id()))
}

/// Copies the library into `directory`, where every user may read it.
fn copy_library(directory: &Path) -> PathBuf {
    let built = testkit::libvma_path().unwrap_or_else(|error| panic!("{error}"));
    let copy = directory.join("libvma.so");
    fs::copy(built, &copy).expect("the test may write to the temporary directory");
    copy
}

/// All files of a directory.
fn contents(directory: &Path) -> String {
    let files = fs::read_dir(directory).expect("made by this run").flatten();
    let read = |file: fs::DirEntry| fs::read(file.path()).unwrap_or_default();
    let texts = files.map(|file| String::from_utf8_lossy(&read(file)).into_owned());
    texts.collect()
}
