//! Programs whose sockets all stay the kernel's, for one reason or another: with the library they
//! say the same, and cost no more, as without it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::accelerated::OPEN_WAIT;
use crate::cases::Case;
use crate::comparison::{Variant, difference, log_tail};
use crate::library::{libvma_path, scratch_directory, workspace};
use crate::namespace::Namespace;
use crate::pair::{Namespaces, Pair};
use crate::pause::retry_if_paused;
use crate::running::{Finished, Running};
use crate::scripted_peer::ScriptedPeer;
use crate::skip::{Skip, skip};

/// How long a program may run.
const TIMEOUT: Duration = Duration::from_secs(150);
const HOLDER_START: Duration = Duration::from_secs(60);

/// What the library may add to a program's CPU time while it runs: to load and to log at level
/// debug, with room for a machine that is busy. A wait that spins takes longer.
const CPU_MORE_MAX: Duration = Duration::from_millis(40);
const CPU_FACTOR_MAX: f64 = 1.25;
/// And to each process that it starts, which loads a debug build once more.
const CPU_MORE_PER_PROCESS: Duration = Duration::from_millis(4);
/// What it may add to the number of times that the program slept.
const SLEEPS_MORE_MAX: i64 = 30;
/// The library's own thread looks that often whether an interface has become free, and after other
/// things.
const OWN_THREAD_SLEEPS_PER_SEC: f64 = 10.0;
const SLEEPS_FACTOR_MAX: f64 = 1.5;
/// And to those of each process that it starts, which may look for an interface of its own.
const SLEEPS_MORE_PER_PROCESS: i64 = 10;

/// How often a program may cost too much before that is believed: each time against the most that
/// any run on the kernel cost, which on a busy machine is several times the least.
const ATTEMPTS: u32 = 4;

/// The library's words at level debug when it takes a socket over.
const OFFLOADED: &str = ": offloaded";

/// The settings that differ in how a call waits.
const VARIANTS: &[Variant] = &[
    ("default settings", &[]),
    (
        "VMA_SPEC=latency",
        &[("VMA_SPEC", "latency"), ("VMA_THREAD_MODE", "1")],
    ),
];

const RULES: &str = "application-id * *
use os udp_sender *:*
use os udp_receiver *:*
use os udp_connect *:*
";

/// Why sockets stay the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// They are on loopback, and so is the peer.
    Loopback,
    /// They have an option that the library leaves to the kernel (`SO_PEEK_OFF`, turned off; of TCP
    /// `SO_MARK`, none).
    Option,
    /// A rule in libvma.conf says so.
    Rule,
    /// They are made in a child of the process that has the interface.
    Forked,
    /// The process has no capabilities.
    NoCapability,
    /// Another process has the interface.
    Held,
}

impl Reason {
    /// As the C programs (`CASE_REASON`) and the list of exceptions have it.
    fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Option => "option",
            Self::Rule => "rule",
            Self::Forked => "forked",
            Self::NoCapability => "no_capability",
            Self::Held => "held",
        }
    }

    /// Sockets that are accelerated nevertheless: that of the parent.
    fn accelerated(self) -> usize {
        usize::from(self == Self::Forked)
    }
}

/// Compares a case all of whose sockets stay the kernel's for `reason`, without and with the
/// library: what it says, how it ends, its CPU time, and how often it slept.
///
/// A line `<program> <case> <reason> <why>` in `tests/left_to_kernel.txt` means that it differs:
/// then the test fails if it does not. With `*` for the reason (of every reason), or "not" as the
/// first word of why, the case is not compared. With "costs" as that word, what the case costs is
/// not.
///
/// # Panics
///
/// If anything differs.
pub fn compare_left_to_kernel(case: &Case, reason: Reason) {
    let list = fs::read_to_string(workspace().join("tests/left_to_kernel.txt"))
        .expect("the list is in the repository");
    let known = listed(&list, &[case.program, case.name, reason.name()]);
    let everywhere = listed(&list, &[case.program, case.name, "*"]);
    if everywhere.is_some() || known.is_some_and(|why| why.starts_with("not ")) {
        return;
    }
    let stage = match Stage::new(reason, &scratch_directory()) {
        Ok(stage) => stage,
        Err(reason) => return skip(reason),
    };
    let path = case.build();
    let cost_counts = !known.is_some_and(|why| why.starts_with("costs "));
    let result = retry_if_paused(|| stage.compare(&path, case.name, cost_counts));
    match (known.filter(|_| cost_counts), result) {
        (None, Err(differences)) => panic!("{differences}"),
        (Some(why), Ok(())) => {
            panic!(
                "{} {} {}: no longer differs ({why}); take it off the list",
                case.program,
                case.name,
                reason.name()
            )
        }
        (None, Ok(())) | (Some(_), Err(_)) => {}
    }
}

/// What follows these words in a line of the list.
fn listed<'a>(list: &'a str, words: &[&str]) -> Option<&'a str> {
    let beginning = format!("{} ", words.join(" "));
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| line.strip_prefix(&beginning))
}

/// A pair of namespaces in which all is as `reason` asks. The program runs in `b`.
#[derive(Debug)]
struct Stage {
    pair: Pair,
    library: PathBuf,
    reason: Reason,
    /// With the rule.
    rules: PathBuf,
    _peer: ScriptedPeer,
    _holder: Option<Running>,
}

impl Stage {
    fn new(reason: Reason, directory: &Path) -> Result<Self, Skip> {
        let pair = Namespaces::pair()?;
        let library = libvma_path().unwrap_or_else(|error| panic!("{error}"));
        // Else the ICMP errors of one run leave none for the next.
        pair.a
            .enter(|| fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0"))
            .expect("root may change the namespace's limits");
        let peer = if reason == Reason::Loopback {
            ScriptedPeer::start_at(&pair.b, [127, 0, 0, 1])
        } else {
            ScriptedPeer::start(&pair.a)
        };
        let rules = rules_file(directory);
        let holder = (reason == Reason::Held).then(|| holder(&pair.b, &library));
        Ok(Self {
            pair,
            library,
            reason,
            rules,
            _peer: peer.expect("the fresh namespace has its ports free"),
            _holder: holder,
        })
    }

    fn compare(&self, program: &Path, case: &str, cost_counts: bool) -> Result<(), String> {
        let shown = format!("{} {case} ({})", program.display(), self.reason.name());
        let expected = self
            .run(program, case, None)
            .map_err(|error| format!("{shown} on the kernel: {error}"))?;
        if !expected.status.success() || expected.stdout.is_empty() {
            return Err(format!(
                "{shown} fails on the kernel itself ({}):\n{}{}",
                expected.status, expected.stdout, expected.stderr
            ));
        }
        let mut differences = String::new();
        for (name, environment) in VARIANTS {
            let told = self
                .try_variant(program, case, &expected, environment, cost_counts)
                .unwrap_or_else(|error| error.to_string());
            if !told.is_empty() {
                differences += &format!("\n== {shown}, {name}:\n{told}");
            }
        }
        if differences.is_empty() {
            Ok(())
        } else {
            Err(differences)
        }
    }

    /// What is different, in words; what it costs is believed when it is too much again and again.
    fn try_variant(
        &self,
        program: &Path,
        case: &str,
        expected: &Finished,
        environment: &[(&str, &str)],
        cost_counts: bool,
    ) -> io::Result<String> {
        let mut kernel = Usage::of(&expected.stderr);
        let mut library: Option<Usage> = None;
        let mut told = String::new();
        for _ in 0..ATTEMPTS {
            let begun = Instant::now();
            let seen = self.run(program, case, Some(environment))?;
            let time = begun.elapsed();
            told = self.differences(expected, &seen);
            if !told.is_empty() {
                return Ok(told + &log_tail(&seen.stderr));
            }
            if !cost_counts {
                break;
            }
            let (Some(most), Some(now)) = (kernel, Usage::of(&seen.stderr)) else {
                return Ok(told);
            };
            let least = library.map_or(now, |before| before.least(now));
            told = least.above(most, time);
            if told.is_empty() {
                break;
            }
            library = Some(least);
            kernel =
                Usage::of(&self.run(program, case, None)?.stderr).map(|again| most.most(again));
        }
        Ok(told)
    }

    fn differences(&self, expected: &Finished, seen: &Finished) -> String {
        let mut told = String::new();
        if seen.status != expected.status || seen.stdout != expected.stdout {
            told += &format!("{}\n", seen.status);
            told += &difference(&expected.stdout, &seen.stdout);
        }
        let accelerated = seen.stderr.matches(OFFLOADED).count();
        if accelerated > self.reason.accelerated() {
            told += &format!("{accelerated} sockets were accelerated\n");
        }
        told
    }

    /// Runs the program on the kernel, or with the library and these variables.
    fn run(
        &self,
        program: &Path,
        case: &str,
        environment: Option<&[(&str, &str)]>,
    ) -> io::Result<Finished> {
        let mut command = if self.reason == Reason::NoCapability {
            let mut command = self.pair.b.command("setpriv");
            command.args(["--bounding-set=-all", "--inh-caps=-all", "--"]);
            command.arg(program);
            command
        } else {
            self.pair.b.command(program)
        };
        remove_variables(&mut command);
        command.arg(case).env("CASE_REASON", self.reason.name());
        if let Some(environment) = environment {
            command
                .env("LD_PRELOAD", &self.library)
                .env("VMA_TRACELEVEL", "debug")
                .envs([OPEN_WAIT])
                .envs(environment.iter().copied());
            if self.reason == Reason::Rule {
                command.env("VMA_CONFIG_FILE", &self.rules);
            }
        }
        Running::start(command)?.wait(TIMEOUT)
    }
}

/// Rules that leave everything to the kernel. Written once: programs of other tests may be reading.
fn rules_file(directory: &Path) -> PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let write = || {
        let file = directory.join(format!("left_to_kernel.{}.conf", process::id()));
        fs::write(&file, RULES).expect("the directory is the test's own");
        file
    };
    FILE.get_or_init(write).clone()
}

/// What the caller's environment says to the library is not part of the test.
fn remove_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"VMA_") {
            command.env_remove(name);
        }
    }
}

/// A process that has the interface: a shell with a socket.
fn holder(namespace: &Namespace, library: &Path) -> Running {
    let mut command = namespace.preload("/bin/bash", library);
    remove_variables(&mut command);
    let script = format!(
        "exec 3<>/dev/udp/{}/9; echo >&3; sleep 600 3>&-",
        Pair::ADDRESS_A
    );
    command.args(["-c", &script]).env("VMA_TRACELEVEL", "debug");
    let mut holder = Running::start(command).expect("every machine has bash");
    assert!(
        holder.wait_for_output(OFFLOADED, HOLDER_START),
        "{}",
        holder.stderr()
    );
    holder
}

/// What a program says of itself at its end:
/// `usage: <microseconds of CPU time> <times that it slept> <processes that it started>`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usage {
    cpu: Duration,
    sleeps: i64,
    processes: u32,
}

impl Usage {
    fn of(stderr: &str) -> Option<Self> {
        let line = stderr
            .lines()
            .find_map(|line| line.strip_prefix("usage: "))?;
        let mut words = line.split(' ');
        Some(Self {
            cpu: Duration::from_micros(words.next()?.parse().ok()?),
            sleeps: words.next()?.parse().ok()?,
            processes: words.next()?.parse().ok()?,
        })
    }

    fn least(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.min(other.cpu),
            sleeps: self.sleeps.min(other.sleeps),
            ..self
        }
    }

    fn most(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.max(other.cpu),
            sleeps: self.sleeps.max(other.sleeps),
            ..self
        }
    }

    /// How this costs too much beside what the kernel does in about the same `time`; nothing if it
    /// does not.
    fn above(self, kernel: Self, time: Duration) -> String {
        let mut told = String::new();
        let cpu_more_max = CPU_MORE_MAX + CPU_MORE_PER_PROCESS * self.processes;
        if self.cpu > kernel.cpu.mul_f64(CPU_FACTOR_MAX) + cpu_more_max {
            told += &format!("CPU time {:?}, not {:?}\n", self.cpu, kernel.cpu);
        }
        let sleeps_more_max = SLEEPS_MORE_MAX + SLEEPS_MORE_PER_PROCESS * i64::from(self.processes);
        let sleeps_max = kernel.sleeps as f64 * SLEEPS_FACTOR_MAX
            + sleeps_more_max as f64
            + time.as_secs_f64() * OWN_THREAD_SLEEPS_PER_SEC;
        if self.sleeps as f64 > sleeps_max {
            told += &format!("slept {} times, not {}\n", self.sleeps, kernel.sleeps);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_for_one_case() {
        let list = "# program case reason why\nwait poll_one loopback 0.2\n";
        assert_eq!(listed(list, &["wait", "poll_one", "loopback"]), Some("0.2"));
        assert_eq!(listed(list, &["wait", "poll_one", "loop"]), None);
        assert_eq!(listed(list, &["wait", "poll", "loopback"]), None);
        assert_eq!(listed(list, &["#", "program", "case"]), None);
    }

    #[test]
    fn more_than_the_tolerance_is_told() {
        let usage_of = |cpu_msec: u32, sleeps, processes| {
            let line = format!("usage: {} {sleeps} {processes}", cpu_msec * 1000);
            Usage::of(&format!("log\n{line}\n")).unwrap()
        };
        let usage = |cpu_msec, sleeps| usage_of(cpu_msec, sleeps, 0);
        let kernel = usage(10, 100);
        let second = Duration::from_secs(1);
        assert_eq!(usage(50, 190).above(kernel, second), "");
        assert_eq!(
            usage(60, 100).above(kernel, second),
            "CPU time 60ms, not 10ms\n"
        );
        assert_eq!(usage_of(60, 100, 3).above(kernel, second), "");
        assert_eq!(
            usage(10, 191).above(kernel, second),
            "slept 191 times, not 100\n"
        );
        assert_eq!(usage(60, 181).least(kernel), kernel);
        assert_eq!(kernel.most(usage(9, 181)), usage(10, 181));
        assert_eq!(Usage::of("nothing"), None);
    }
}
