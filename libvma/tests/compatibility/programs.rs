//! The programs of the matrix.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use testkit::Skip;

use crate::stage::PATH;

/// A line for each program: its name, the Debian package that brings it, and whether that starts a service.
const PACKAGES: &str = include_str!("../programs/packages.txt");

/// One row of the matrix. Its name is also that of its script, `tests/programs/<name>.sh`.
pub(crate) struct Program {
    /// What must be in the PATH, beyond what every Debian system has.
    needs: &'static [&'static str],
    /// A module that Python must have, which Debian's packages do not bring everywhere.
    needs_module: Option<&'static str>,
    /// A program of its that talks UDP over IPv4 with another machine, and must do so past the kernel; "": whichever it is.
    pub(crate) accelerated: Option<&'static str>,
    /// Takes out of its output what differs between two runs.
    pub(crate) normalise: fn(&str) -> String,
}

const fn needs(needs: &'static [&'static str]) -> Program {
    Program {
        needs,
        needs_module: None,
        accelerated: None,
        normalise: str::to_owned,
    }
}

impl Program {
    const fn accelerated(self) -> Self {
        self.accelerated_in("")
    }

    const fn accelerated_in(mut self, program: &'static str) -> Self {
        self.accelerated = Some(program);
        self
    }

    const fn with_module(mut self, module: &'static str) -> Self {
        self.needs_module = Some(module);
        self
    }

    const fn normalised(mut self, normalise: fn(&str) -> String) -> Self {
        self.normalise = normalise;
        self
    }

    /// Whether it can run on this machine.
    pub(crate) fn is_here(&self) -> Result<(), Skip> {
        for need in self.needs {
            let package = PACKAGES
                .lines()
                .filter_map(|line| line.split_once(' '))
                .find_map(|(program, package)| (program == *need).then_some(package))
                .expect("the list has every program of the table");
            if !is_in_path(need) {
                let reason = format!("{need} is not installed (Debian package {package})");
                return Err(Skip::new(reason));
            }
        }
        if let Some(module) = self.needs_module
            && !has_module(module)
        {
            let reason = format!("Python has no module {module} (pip install {module})");
            return Err(Skip::new(reason));
        }
        Ok(())
    }
}

macro_rules! programs {
    ($($name:ident: $program:expr,)*) => {
        pub(crate) const PROGRAMS: &[(&str, Program)] = &[$((stringify!($name), $program)),*];

        mod tests {
            $(#[test] fn $name() { crate::compare(stringify!($name)); })*
        }
    };
}

programs! {
    coreutils: needs(&[]),
    bash: needs(&[]),
    dash: needs(&["dash"]),
    find: needs(&[]),
    archives: needs(&["xz", "bzip2"]),
    python_processes: needs(&["python3"]),
    python_sockets: needs(&["python3"]).accelerated(),
    perl: needs(&["perl"]).accelerated(),
    node: needs(&["node"]).accelerated(),
    java: needs(&["java"]).accelerated(),
    make: needs(&["make", "gcc"]),
    git: needs(&["git"]),
    curl: needs(&["curl", "dnsmasq"]).accelerated(),
    ssh: needs(&["sshd"]),
    rsync: needs(&["rsync"]),
    redis: needs(&["redis-server", "redis-benchmark"]),
    nginx: needs(&["nginx", "curl"]),
    memcached: needs(&["memcached", "python3"]).accelerated(),
    postgres: needs(&["psql"]),
    sqlite: needs(&["sqlite3"]),
    tmux: needs(&["tmux"]),
    strace: needs(&["strace", "python3"]).accelerated(),
    gdb: needs(&["gdb", "gcc"]).accelerated(),
    valgrind: needs(&["valgrind", "gcc"]).normalised(without_unhandled),
    users: needs(&[]),
    sudo: needs(&["sudo"]),
    dns: needs(&["dig", "host", "dnsmasq"]).accelerated(),
    dnsmasq: needs(&["dnsmasq", "dig"]).accelerated_in("dnsmasq"),
    socat: needs(&["socat"]).accelerated(),
    netcat: needs(&["nc.openbsd"]).accelerated(),
    iperf3: needs(&["iperf3"]).accelerated(),
    sockperf: needs(&["sockperf"]).accelerated(),
    busybox: needs(&["busybox", "curl"]),
    openssl: needs(&["openssl"]).accelerated(),
    stunnel: needs(&["stunnel", "openssl"]),
    haproxy: needs(&["haproxy", "curl"]),
    network_tools: needs(&["ping", "tc"]).normalised(without_other_namespaces),
    traceroute: needs(&["traceroute.db"]).accelerated(),
    chrony: needs(&["chronyd"]).accelerated_in("chronyd"),
    unbound: needs(&["unbound", "dig"]).accelerated_in("unbound"),
    knot: needs(&["knotd", "dig"]).accelerated_in("knotd"),
    // Its child serves, while the parent lives that has opened the sockets.
    nsd: needs(&["nsd", "dig"]).accelerated_in("nsd"),
    dnsmasq_daemon: needs(&["dnsmasq", "dig"]).accelerated_in("dnsmasq"),
    openvpn: needs(&["openvpn", "ping", "socat"]).accelerated_in("openvpn"),
    rsyslog: needs(&["rsyslogd", "logger"]).accelerated_in("rsyslogd"),
    gstreamer: needs(&["gst-launch-1.0"]).accelerated_in("gst-launch-1.0"),
    ffmpeg: needs(&["ffmpeg"]).accelerated_in("ffmpeg"),
    aioquic: needs(&["python3", "openssl"]).with_module("aioquic").accelerated(),
    ngtcp2: needs(&["gtlsserver", "gtlsclient", "openssl"]).accelerated_in("gtlsserver"),
}

fn has_module(module: &str) -> bool {
    let import = format!("import {module}");
    let status = Command::new("python3")
        .env("PATH", PATH)
        .args(["-c", &import])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn is_in_path(program: &str) -> bool {
    env::split_paths(OsStr::new(PATH)).any(|directory| {
        fs::metadata(Path::join(&directory, program))
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// Without the words of ip(8) about the namespaces of other tests, which come and go while it looks.
fn without_other_namespaces(output: &str) -> String {
    let output = without(output, "Peer netns reference is invalid");
    without(&output, "Dump was interrupted and may be inconsistent")
}

/// Without the words of valgrind about system calls that it does not know: AF_XDP needs some.
fn without_unhandled(output: &str) -> String {
    without(output, "WARNING: unhandled eBPF command")
}

fn without(output: &str, words: &str) -> String {
    let lines = output.lines().filter(|line| !line.contains(words));
    lines.collect::<Vec<_>>().join("\n")
}
