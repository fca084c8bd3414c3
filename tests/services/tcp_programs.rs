//! Real programs over TCP past the kernel: a server and clients at two ends of a link say and
//! return the same whether the server has the library, its clients, both or neither.
//!
//! Each row is a script in `tests/programs`, as in `compatibility.rs`. Where an end can be
//! accelerated its packets are counted.

use std::fmt::Write;
use std::path::Path;

use crate::evidence::PastKernel;
use crate::stage::{Run, Stage};
use testkit::{Finished, Skip, needs, or_skip};

/// Packets past the kernel of an end that can be accelerated, at least.
const PACKETS_MIN: u64 = 20;

/// One row.
struct Row {
    /// What it needs beyond what every Debian system has: lines of `testkit::needs`.
    needs: &'static [&'static str],
    /// A connection that is used by another process than that which accepted it is the kernel's,
    /// and so is a listener that processes share: then the server is not accelerated.
    server_is_accelerated: bool,
    /// Its server listens over both families, or all its sockets are of `AF_INET6`.
    is_over_ipv6: bool,
    /// A program of the workspace's that its script runs.
    own_program: Option<&'static str>,
}

const fn row(needs: &'static [&'static str]) -> Row {
    Row {
        needs,
        server_is_accelerated: true,
        is_over_ipv6: false,
        own_program: None,
    }
}

impl Row {
    const fn whose_server_forks(mut self) -> Self {
        self.server_is_accelerated = false;
        self
    }

    /// The kernel's connections need no rights.
    const fn whose_server_gives_up_rights(self) -> Self {
        self.whose_server_forks()
    }

    /// By instructions of its own: its sockets are the kernel's once that is seen.
    const fn whose_server_waits_past_it(self) -> Self {
        self.whose_server_forks()
    }

    const fn with_own_program(mut self, package: &'static str) -> Self {
        self.own_program = Some(package);
        self
    }

    const fn over_ipv6(mut self) -> Self {
        self.is_over_ipv6 = true;
        self
    }

    fn is_here(&self) -> Result<(), Skip> {
        if self.is_over_ipv6 && !Path::new("/proc/net/if_inet6").exists() {
            return Err(Skip::new("no IPv6"));
        }
        needs::require(self.needs)
    }
}

macro_rules! rows {
    ($($name:ident: $row:expr,)*) => {
        $(#[test] fn $name() { compare(stringify!($name), &$row); })*
    };
}

rows! {
    tcp_nginx: row(&["nginx", "curl", "wget", "wrk"]).over_ipv6(),
    tcp_nginx_workers: row(&["nginx", "curl", "wget", "wrk"]).whose_server_forks(),
    tcp_nginx_daemon: row(&["nginx", "curl", "wget", "wrk"]),
    tcp_redis: row(&["redis-server", "redis-benchmark", "redis-cli"]),
    tcp_redis_daemon: row(&["redis-server", "redis-benchmark", "redis-cli"]),
    tcp_memcached: row(&["memcached", "python3"]),
    tcp_iperf3: row(&["iperf3"]),
    tcp_python: row(&["python3", "curl"]).over_ipv6(),
    tcp_openssl: row(&["openssl", "curl"]),
    tcp_socat: row(&["socat", "nc.openbsd"]),
    tcp_ssh: row(&["sshd", "ssh", "ssh-keygen", "scp"]).whose_server_forks(),
    tcp_postgres: row(&["psql", "pgbench"]).whose_server_forks(),
    tcp_haproxy: row(&["haproxy", "curl"]).over_ipv6(),
    tcp_haproxy_user: row(&["haproxy", "curl"]).whose_server_gives_up_rights(),
    tcp_memcached_user: row(&["memcached", "python3"]).whose_server_gives_up_rights(),
    tcp_mosquitto: row(&["mosquitto", "mosquitto_pub"]).whose_server_gives_up_rights(),
    tcp_node: row(&["node", "curl"]).over_ipv6(),
    tcp_uvicorn: row(&["python3", "python:uvloop", "python:uvicorn", "curl"]),
    tcp_tokio: row(&["curl"]).with_own_program("runtimes"),
    tcp_smol: row(&[]).whose_server_waits_past_it().with_own_program("runtimes"),
    tcp_java: row(&["java", "java:jdk.compiler", "curl"]).over_ipv6(),
}

fn compare(name: &'static str, row: &Row) {
    or_skip!(row.is_here());
    let stage = or_skip!(Stage::new(name, row.own_program));
    compare_on(&stage, name, row);
}

fn compare_on(stage: &Stage, name: &str, row: &Row) {
    let told = testkit::retry_if_paused(|| differences(name, row, stage));
    told.unwrap_or_else(|differences| panic!("{differences}"));
}

/// Between IPv6 addresses.
mod over_real_ipv6 {
    use super::*;

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn tcp_nginx() {
        compare("tcp_nginx", &row(&["nginx", "curl", "wget", "wrk"]));
    }

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn tcp_redis() {
        compare(
            "tcp_redis",
            &row(&["redis-server", "redis-benchmark", "redis-cli"]),
        );
    }

    #[test]
    #[ignore = "with the others it takes half a minute"]
    fn tcp_iperf3() {
        compare("tcp_iperf3", &row(&["iperf3"]));
    }

    #[test]
    #[ignore = "takes ten seconds"]
    fn tcp_iperf3_both_ways() {
        compare("tcp_iperf3_both_ways", &row(&["iperf3"]));
    }

    fn compare(name: &'static str, row: &Row) {
        or_skip!(row.is_here());
        let stage = or_skip!(Stage::over_ipv6(name));
        compare_on(&stage, name, row);
    }
}

fn differences(name: &str, row: &Row, stage: &Stage) -> Result<(), String> {
    let run = |environment: Option<&[(&str, &str)]>| {
        stage
            .run(environment)
            .map_err(|error| format!("{name}: {error}"))
    };
    let bare = run(None)?.finished;
    if !bare.status.success() || bare.stdout.is_empty() {
        return Err(format!("{name} fails without the library: {bare:#?}"));
    }
    let mut differences = String::new();
    for (end, is_accelerated) in [
        ("server", row.server_is_accelerated),
        ("client", true),
        ("both", true),
    ] {
        let environment = [("AT", end), ("VMA_TRACELEVEL", "debug")];
        let seen = run(Some(&environment[..]))?;
        let told = judge(is_accelerated, &bare, &seen);
        if !told.is_empty() {
            let log = testkit::log_tail(&[seen.finished.stderr, seen.log].concat());
            let _ = write!(
                differences,
                "\n=== {name}, library at {end}\n{told}log:\n{log}\n"
            );
        }
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences),
    }
}

/// What is different, in words; nothing if nothing is.
fn judge(is_accelerated: bool, bare: &Finished, seen: &Run) -> String {
    let mut told = String::new();
    if seen.finished.status != bare.status {
        let _ = writeln!(told, "{}, not {}", seen.finished.status, bare.status);
    }
    if seen.finished.stdout != bare.stdout {
        let difference = testkit::difference(&bare.stdout, &seen.finished.stdout);
        let _ = writeln!(told, "standard output:\n{difference}");
    }
    let PastKernel { packets, datagrams } = &seen.past_kernel;
    if is_accelerated && *packets < PACKETS_MIN {
        let _ = writeln!(
            told,
            "only {packets} packets past the kernel; {datagrams:?}"
        );
    }
    if !seen.left_over.is_empty() {
        let _ = writeln!(told, "left behind: {:?}", seen.left_over);
    }
    told
}
