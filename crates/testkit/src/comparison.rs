//! Runs a program on the kernel and with the library, and compares what it says.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::accelerated::OPEN_WAIT;
use crate::library::libvma_path;
use crate::namespace::Namespace;
use crate::pair::{Namespaces, Pair};
use crate::pause::retry_if_paused;
use crate::running::{Finished, Running};
use crate::scripted_peer::ScriptedPeer;
use crate::skip::Skip;

/// How long a compared program may run.
const TIMEOUT: Duration = Duration::from_secs(150);
/// How often a program is run whose interface a process that has ended still holds, and how long
/// after the last time.
const ATTEMPTS_WHILE_BUSY: usize = 10;
const WAIT_WHILE_BUSY: Duration = Duration::from_millis(500);

/// A way to run the library: a name for messages, and environment variables.
pub type Variant = (&'static str, &'static [(&'static str, &'static str)]);

/// The ways that every behaviour is compared in.
pub const VARIANTS: &[Variant] = &[
    DEFAULT,
    ("VMA_SPEC=latency", &[("VMA_SPEC", "latency")]),
    SLEEPING,
];

/// The ways for programs with several threads: not the latency profile's own thread mode, which
/// allows one.
pub const THREADED_VARIANTS: &[Variant] = &[
    DEFAULT,
    (
        "VMA_SPEC=latency",
        &[("VMA_SPEC", "latency"), ("VMA_THREAD_MODE", "1")],
    ),
    SLEEPING,
];

/// The ways for programs that fork: those of threaded ones, and the latency profile with its own
/// thread mode. A program that has several threads breaks that promise of its own.
pub const FORKING_VARIANTS: &[Variant] = &[
    DEFAULT,
    (
        "VMA_SPEC=latency for one thread",
        &[("VMA_SPEC", "latency")],
    ),
    THREADED_VARIANTS[1],
    SLEEPING,
];

/// The ways for programs whose threads use one socket: every thread mode that allows it.
pub const THREAD_MODE_VARIANTS: &[Variant] = &[
    ("mutexes", &[("VMA_THREAD_MODE", "2")]),
    ("more threads than cores", &[("VMA_THREAD_MODE", "3")]),
    THREADED_VARIANTS[0],
    THREADED_VARIANTS[1],
    THREADED_VARIANTS[2],
];

const DEFAULT: Variant = ("default settings", &[]);
const SLEEPING: Variant = (
    "sleeping at once",
    &[("VMA_RX_POLL", "0"), ("VMA_SELECT_POLL", "0")],
);

/// A pair of namespaces with a [`ScriptedPeer`] in `a`; the compared program runs in `b`.
#[derive(Debug)]
pub struct Comparison {
    /// The namespaces.
    pub pair: Pair,
    library: PathBuf,
    /// What the compared program is told.
    pub(crate) told: &'static [(&'static str, &'static str)],
    _peers: Vec<ScriptedPeer>,
}

impl Comparison {
    /// Makes the namespaces, builds the library and starts the peer.
    ///
    /// # Errors
    ///
    /// What this machine does not offer.
    ///
    /// # Panics
    ///
    /// If the library cannot be built or the peer cannot be started.
    pub fn new() -> Result<Self, Skip> {
        Ok(Self::over(Namespaces::pair()?))
    }

    /// The same over namespaces of the caller's.
    ///
    /// # Panics
    ///
    /// As [`Comparison::new`].
    pub fn over(pair: Pair) -> Self {
        let library = libvma_path().unwrap_or_else(|error| panic!("{error}"));
        // Else the ICMP errors of one run leave none for the next.
        pair.a
            .enter(|| std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0"))
            .expect("root may change the namespace's limits");
        let peer = ScriptedPeer::start(&pair.a).expect("the fresh namespace has its ports free");
        Self {
            pair,
            library,
            told: &[],
            _peers: vec![peer],
        }
    }

    /// The same over IPv6 addresses, which the header of the C programs puts in place of the
    /// others.
    ///
    /// # Errors
    ///
    /// As [`Comparison::new`].
    ///
    /// # Panics
    ///
    /// As [`Comparison::new`].
    pub fn over_real_ipv6() -> Result<Self, Skip> {
        let mut comparison = Self::over(Namespaces::new().ipv6().create()?);
        let peer = ScriptedPeer::start_at(&comparison.pair.a, Pair::IPV6_ADDRESS_A);
        let peer = peer.expect("the fresh namespace has its ports free");
        comparison._peers.push(peer);
        comparison.told = &[("CASE_OVER_IPV6", "real")];
        // Else the ICMP errors of one run leave none for the next.
        comparison
            .pair
            .a
            .enter(|| std::fs::write("/proc/sys/net/ipv6/icmp/ratelimit", "0"))
            .expect("root may change the namespace's limits");
        Ok(comparison)
    }

    /// The same for programs whose sockets are to be of `AF_INET6`, as the header of the C programs
    /// makes them.
    ///
    /// # Errors
    ///
    /// As [`Comparison::new`].
    pub fn over_ipv6() -> Result<Self, Skip> {
        Ok(Self {
            told: &[("CASE_OVER_IPV6", "1")],
            ..Self::new()?
        })
    }

    /// What the compared program is told by its environment.
    pub fn told(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.told.iter().copied()
    }

    /// Runs `program` on the kernel.
    ///
    /// # Errors
    ///
    /// It could not be started or did not end in time.
    pub fn on_kernel(&self, program: &Path, arguments: &[&str]) -> io::Result<Finished> {
        let mut command = self.pair.b.command(program);
        command.args(arguments).envs(self.told.iter().copied());
        Running::start(command)?.wait(TIMEOUT)
    }

    /// Runs `program` with the library, which logs at level debug.
    ///
    /// # Errors
    ///
    /// As [`Comparison::on_kernel`].
    pub fn preloaded(
        &self,
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> io::Result<Finished> {
        let mut command = preload_with_debug_log(&self.pair.b, program, &self.library);
        let environment = environment.iter().chain(self.told);
        command.args(arguments).envs(environment.copied());
        Running::start(command)?.wait(TIMEOUT)
    }

    /// [`Comparison::preloaded`], again while the kernel still holds the interface for a process
    /// that has ended: it releases the memory of AF_XDP sockets later, under the lock of all
    /// network namespaces, for which other tests wait, too.
    fn preloaded_when_free(
        &self,
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> io::Result<Finished> {
        for _ in 1..ATTEMPTS_WHILE_BUSY {
            let seen = self.preloaded(program, arguments, environment)?;
            if is_accelerated(&seen) || !seen.stderr.contains("Device or resource busy") {
                return Ok(seen);
            }
            // Seen also when the test passes in the end.
            drop(io::stderr().write_all(b"again: the interface was not released yet\n"));
            thread::sleep(WAIT_WHILE_BUSY);
        }
        self.preloaded(program, arguments, environment)
    }

    /// Runs `program` on the kernel and in every variant, and asserts that what it writes to
    /// standard output and how it ends are the same, and that the library did accelerate a socket.
    ///
    /// # Panics
    ///
    /// If anything differs, with both outputs.
    pub fn assert_same(&self, program: &Path, arguments: &[&str], variants: &[Variant]) {
        retry_if_paused(|| self.compare(program, arguments, variants))
            .unwrap_or_else(|differences| panic!("{differences}"));
    }

    fn compare(
        &self,
        program: &Path,
        arguments: &[&str],
        variants: &[Variant],
    ) -> Result<(), String> {
        let shown = format!("{} {}", program.display(), arguments.join(" "));
        let expected = self
            .on_kernel(program, arguments)
            .map_err(|error| format!("{shown} on the kernel: {error}"))?;
        if !expected.status.success() || expected.stdout.is_empty() {
            return Err(format!(
                "{shown} fails on the kernel itself ({}):\n{}{}",
                expected.status, expected.stdout, expected.stderr
            ));
        }
        let mut differences = String::new();
        let mut told = Vec::new();
        for (name, environment) in variants {
            let seen = match self.preloaded_when_free(program, arguments, environment) {
                Ok(seen) => seen,
                Err(error) => {
                    differences += &format!("\n== {shown}, {name}: {error}\n");
                    continue;
                }
            };
            let accelerated = is_accelerated(&seen);
            if seen.status != expected.status || seen.stdout != expected.stdout {
                differences += &format!("\n== {shown}, {name}: {}\n", seen.status);
                if let Some((other, _)) = told.iter().find(|(_, text)| *text == seen.stdout) {
                    differences += &format!("the same output as with {other}\n");
                } else {
                    differences += &difference(&expected.stdout, &seen.stdout);
                    told.push((name, seen.stdout));
                }
                differences += &log_tail(&seen.stderr);
            }
            if !accelerated {
                differences += &format!("\n== {shown}, {name}: no socket was accelerated\n");
                differences += &log_tail(&seen.stderr);
            }
        }
        if differences.is_empty() {
            Ok(())
        } else {
            Err(differences)
        }
    }
}

/// Whether the library said, at level debug, that it takes a socket over: datagrams, or a
/// connection.
fn is_accelerated(seen: &Finished) -> bool {
    seen.stderr.contains(": offloaded") || seen.stderr.contains(": past the kernel by ")
}

fn preload_with_debug_log(
    namespace: &Namespace,
    program: &Path,
    library: &Path,
) -> std::process::Command {
    let mut command = namespace.preload(program, library);
    // What the caller's environment says to the library is not part of the test.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"VMA_") {
            command.env_remove(name);
        }
    }
    command.env("VMA_TRACELEVEL", "debug").envs([OPEN_WAIT]);
    command
}

/// The lines of both outputs, those that differ marked.
pub fn difference(expected: &str, seen: &str) -> String {
    let (expected, seen): (Vec<_>, Vec<_>) = (expected.lines().collect(), seen.lines().collect());
    // Length of the longest common subsequence of what is left from each pair of lines on.
    let mut common = vec![vec![0_u32; seen.len() + 1]; expected.len() + 1];
    for (i, line) in expected.iter().enumerate().rev() {
        for (j, other) in seen.iter().enumerate().rev() {
            common[i][j] = if line == other {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut text = String::new();
    loop {
        match (expected.get(i), seen.get(j)) {
            (None, None) => return text,
            (Some(line), Some(other)) if line == other => {
                text += &format!("    {line}\n");
                (i, j) = (i + 1, j + 1);
            }
            (Some(line), other) if other.is_none() || common[i + 1][j] >= common[i][j + 1] => {
                text += &format!(" !! kernel : {line}\n");
                i += 1;
            }
            (_, Some(other)) => {
                text += &format!(" !! library: {other}\n");
                j += 1;
            }
            (Some(_), None) => unreachable!("covered by the arm with `other.is_none()`"),
        }
    }
}

/// The end of the program's errors and the library's log, without its banner.
pub fn log_tail(log: &str) -> String {
    const LINES: usize = 25;
    let is_banner = |line: &&str| line.contains("VMA DETAILS:") || line.contains("VMA INFO:");
    let lines: Vec<_> = log.lines().filter(|line| !is_banner(line)).collect();
    let tail = &lines[lines.len().saturating_sub(LINES)..];
    format!("log:\n{}\n", tail.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_every_line_once() {
        let text = difference("a\nb\nc\n", "a\nx\nc\nd\n");
        let expected = "    a\n !! kernel : b\n !! library: x\n    c\n !! library: d\n";
        assert_eq!(text, expected);
        assert_eq!(difference("a\n", ""), " !! kernel : a\n");
        assert_eq!(difference("", ""), "");
    }
}
