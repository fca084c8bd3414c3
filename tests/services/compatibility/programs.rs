//! The programs of the matrix.

use testkit::{Skip, needs};

/// One row of the matrix. Its name is also that of its script, `tests/programs/<name>.sh`.
pub(crate) struct Program {
    /// What it needs beyond what every Debian system has: lines of `testkit::needs`.
    needs: &'static [&'static str],
    /// A program of its that talks UDP over IPv4 with another machine, and must do so past the
    /// kernel; "": whichever it is.
    pub(crate) accelerated: Option<&'static str>,
    /// Ends of its connections that go through memory which two processes share, at least.
    pub(crate) shared_min: usize,
    /// Takes out of its output what differs between two runs.
    pub(crate) normalise: fn(&str) -> String,
}

const fn needs(needs: &'static [&'static str]) -> Program {
    Program {
        needs,
        accelerated: None,
        shared_min: 0,
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

    const fn shares_memory(mut self, ends_min: usize) -> Self {
        self.shared_min = ends_min;
        self
    }

    const fn normalised(mut self, normalise: fn(&str) -> String) -> Self {
        self.normalise = normalise;
        self
    }

    /// Whether it can run on this machine.
    pub(crate) fn is_here(&self) -> Result<(), Skip> {
        needs::require(self.needs)
    }
}

macro_rules! programs {
    ($($name:ident: $program:expr,)*) => {
        pub(crate) const PROGRAMS: &[(&str, Program)] = &[$((stringify!($name), $program)),*];

        mod tests {
            $(#[test] fn $name() { crate::compatibility::compare(stringify!($name)); })*
        }
    };
}

programs! {
    coreutils: needs(&[]),
    bash: needs(&[]),
    dash: needs(&["dash"]),
    find: needs(&["lsof", "pgrep", "ps"]),
    archives: needs(&["xz", "bzip2"]),
    python_processes: needs(&["python3"]),
    python_sockets: needs(&["python3"]).accelerated(),
    perl: needs(&["perl"]).accelerated(),
    node: needs(&["node"]).accelerated(),
    java: needs(&["java", "java:jdk.compiler"]).accelerated(),
    make: needs(&["make", "gcc"]),
    git: needs(&["git"]),
    curl: needs(&["curl", "dnsmasq"]).accelerated(),
    ssh: needs(&["sshd", "ssh", "ssh-keygen", "scp", "sftp"]),
    rsync: needs(&["rsync"]),
    redis: needs(&["redis-server", "redis-benchmark", "redis-cli"]).shares_memory(20),
    nginx: needs(&["nginx", "curl"]),
    memcached: needs(&["memcached", "python3"]).accelerated(),
    postgres: needs(&["psql", "pgbench"]),
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
    within_host: needs(&[
        "redis-server", "memcached", "iperf3", "nginx", "haproxy", "mosquitto", "mosquitto_sub",
        "curl", "python3",
    ]).shares_memory(100),
    // Its child serves, while the parent lives that has opened the sockets.
    nsd: needs(&["nsd", "dig"]).accelerated_in("nsd"),
    dnsmasq_daemon: needs(&["dnsmasq", "dig"]).accelerated_in("dnsmasq"),
    openvpn: needs(&["openvpn", "ping", "socat"]).accelerated_in("openvpn"),
    rsyslog: needs(&["rsyslogd", "logger"]).accelerated_in("rsyslogd"),
    gstreamer: needs(&[
        "gst-launch-1.0",
        "gstreamer:audiotestsrc",
        "gstreamer:rtpL16depay",
        "gstreamer:rtpL16pay",
        "gstreamer:udpsink",
        "gstreamer:udpsrc",
    ]).accelerated_in("gst-launch-1.0"),
    ffmpeg: needs(&["ffmpeg"]).accelerated_in("ffmpeg"),
    aioquic: needs(&["python3", "python:aioquic", "openssl"]).accelerated(),
    ngtcp2: needs(&["gtlsserver", "gtlsclient", "openssl"]).accelerated_in("gtlsserver"),
}

/// Without the words of ip(8) about the namespaces of other tests, which come and go while it
/// looks.
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
