//! Everyday servers exactly as their packages ship them: with the package's configuration, its
//! user, sendfile, reuseport and as many workers as it comes with. Preloaded, each answers the same
//! as on the kernel and ends the same; what of its packets was past the kernel, or why nothing was,
//! is known; and with `VMA_TEST_RATES=1`, as in `cargo xtask test --long`, it is as fast as on the
//! kernel.
//!
//! A row is a service of `tests/programs/everyday`, which the bench `--everyday` measures, too;
//! `answers.bash` there has the questions.

#[path = "shipped/reasons.rs"]
mod reasons;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, io, process};

use testkit::{Finished, Namespaces, Pair, Running, Skip, needs, or_skip};

/// Of the kernel's rate.
const RATE_MIN: f64 = 0.9;
/// The same where it is missed, as docs/everyday.md says: it does not become less.
const MISSED_RATE_MIN: f64 = 0.55;
/// Rounds of kernel and library in turn: until their median is enough, and at most.
const ROUNDS_MAX: usize = 5;
/// Of the octets that the interface received, those that the kernel's IP did not: with fewer there
/// is a reason.
const SHARE_MIN: f64 = 0.5;
const TIMEOUT: Duration = Duration::from_secs(90);
/// Requests of a load that may fail: a server closes connections that had as many as it allows.
const ERRORS_MAX: f64 = 0.001;

/// One row.
struct Row {
    /// What it needs beyond what every Debian system has: lines of `testkit::needs`.
    needs: &'static [&'static str],
    /// Connections of one request each cost more past the kernel.
    is_rated: bool,
    rate_min: f64,
}

const fn row(needs: &'static [&'static str]) -> Row {
    Row {
        needs,
        is_rated: true,
        rate_min: RATE_MIN,
    }
}

impl Row {
    const fn unrated(mut self) -> Self {
        self.is_rated = false;
        self
    }

    const fn missed(mut self) -> Self {
        self.rate_min = MISSED_RATE_MIN;
        self
    }
}

macro_rules! rows {
    ($($name:ident: $service:literal, $row:expr;)*) => {
        $(#[test] fn $name() { compare($service, &$row); })*
    };
}

rows! {
    haproxy: "haproxy-http", row(&["haproxy", "nginx", "wrk", "curl"]);
    java_nio: "java-nio", row(&["java", "javac", "wrk", "curl"]);
    memcached: "memcached-tcp", row(&["memcached", "python3"]);
    mosquitto: "mosquitto-messages", row(&["mosquitto", "mosquitto_pub", "mosquitto_sub"]);
    nginx: "nginx-100k", row(&["nginx", "wrk", "curl", "openssl"]);
    node: "node-http", row(&["node", "wrk", "curl"]);
    postgres: "postgres-select", row(&["psql", "pgbench"]);
    python_asyncio: "python-asyncio", row(&["python3", "wrk", "curl"]);
    python_gunicorn: "python-gunicorn", row(&["gunicorn", "wrk", "curl"]).unrated();
    redis: "redis-50", row(&["redis-server", "redis-benchmark", "redis-cli"]);
    ssh: "ssh-upload", row(&["sshd", "ssh", "ssh-keygen", "scp"]);
    tokio: "tokio-http", row(&["wrk", "curl"]);
    unbound: "unbound-udp", row(&["unbound", "dig", "dnsperf"]);
    chrony: "chrony-udp", row(&["chronyd"]);
    java_pool: "java-pool", row(&["java", "javac", "wrk", "curl"]).missed();
    nginx_small: "nginx-small", row(&["nginx", "wrk", "curl", "openssl"]);
    node_cluster: "node-cluster", row(&["node", "wrk", "curl"]);
    python_uvicorn: "python-uvicorn", row(&["uvicorn", "wrk", "curl"]);
    python_uvloop: "python-uvloop", row(&["python3", "python:uvicorn", "python:uvloop", "wrk", "curl"]);
    threads: "threads-60", row(&["cc", "wrk", "curl"]).missed();
}

fn compare(service: &str, row: &Row) {
    or_skip!(needs::require(row.needs));
    let stage = or_skip!(Stage::new(service));
    testkit::retry_if_paused(|| stage.differences(row)).unwrap_or_else(|words| panic!("{words}"));
}

/// What one run of the load says of itself.
#[derive(Debug)]
struct Load {
    per_sec: f64,
    /// Of the octets received those past the kernel's IP.
    share: f64,
}

/// The directory of one service, which every user may read.
struct Stage {
    service: &'static str,
    directory: PathBuf,
    library: PathBuf,
    generator: PathBuf,
    tokio_http: PathBuf,
}

impl Stage {
    fn new(service: &str) -> Result<Self, Skip> {
        // Says whether this machine can at all.
        drop(Namespaces::pair()?);
        static TOKIO_HTTP: OnceLock<PathBuf> = OnceLock::new();
        let directory = env::temp_dir().join(format!("vmat-shipped-{}-{service}", process::id()));
        fs::create_dir_all(&directory).expect("the test may write to the temporary directory");
        let library = directory.join("libvma.so");
        let built = testkit::libvma_path().unwrap_or_else(|error| panic!("{error}"));
        fs::copy(built, &library).expect("as above");
        let load = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/load.c");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let generator = testkit::compile_c_with(&load, target, &["-O2"]).unwrap();
        let example = || testkit::example_path("tokio_http").unwrap();
        Ok(Self {
            service: service.to_owned().leak(),
            directory,
            library,
            generator,
            tokio_http: TOKIO_HTTP.get_or_init(example).clone(),
        })
    }

    fn differences(&self, row: &Row) -> Result<(), String> {
        let run = |what, is_preloaded| {
            self.run(what, is_preloaded)
                .map_err(|error| format!("{}: {error}", self.service))
        };
        let (bare, _) = run("answers", false)?;
        if !bare.status.success() || bare.stdout.is_empty() {
            return Err(format!("{} fails on the kernel: {bare:#?}", self.service));
        }
        let (seen, reasons) = run("answers", true)?;
        if seen.status != bare.status || seen.stdout != bare.stdout {
            let difference = testkit::difference(&bare.stdout, &seen.stdout);
            return Err(format!(
                "{}: {}\n{difference}{}\n{reasons:?}",
                self.service, seen.status, seen.stderr
            ));
        }
        self.rates(row)
    }

    /// The loads tell the share, too.
    fn rates(&self, row: &Row) -> Result<(), String> {
        let load = |is_preloaded| {
            let (said, reasons) = self
                .run("1", is_preloaded)
                .map_err(|error| format!("{}: {error}", self.service))?;
            let load = load(&said.stdout);
            load.map(|load| (load, reasons)).map_err(|why| {
                format!(
                    "{} (preloaded: {is_preloaded}): {why}\n{said:#?}",
                    self.service
                )
            })
        };
        // A debug build answers, too, but at no rate to speak of. Where both ends share the CPUs
        // rates vary by half between two runs of the same thing, so a change is judged by the
        // bench's short form, and by these where somebody asks.
        let is_asked_for = env::var_os("VMA_TEST_RATES").is_some();
        let is_judged = row.is_rated && testkit::libvma_is_optimised() && is_asked_for;
        let mut gains = Vec::new();
        loop {
            let ((kernel, _), (preloaded, reasons)) = (load(false)?, load(true)?);
            if preloaded.share < SHARE_MIN && reasons.is_empty() {
                return Err(format!(
                    "{}: {:.2} of the octets past the kernel, and no reason",
                    self.service, preloaded.share
                ));
            }
            gains.push(preloaded.per_sec / kernel.per_sec);
            gains.sort_by(f64::total_cmp);
            // Of two the lower one.
            let gain = gains[(gains.len() - 1) / 2];
            // Seen also when the test passes.
            let line = format!(
                "{}: gains {gains:.2?}; {preloaded:.2?}; {reasons:?}\n",
                self.service
            );
            drop(io::stderr().write_all(line.as_bytes()));
            if !is_judged || gain >= row.rate_min {
                return Ok(());
            }
            if gains.len() == ROUNDS_MAX {
                return Err(format!("{}: gains {gains:.2?}; {reasons:?}", self.service));
            }
        }
    }

    /// Runs the service; also returns why sockets of its were the kernel's.
    fn run(&self, what: &str, is_preloaded: bool) -> io::Result<(Finished, Vec<String>)> {
        let pair = Namespaces::pair().map_err(|skip| io::Error::other(skip.to_string()))?;
        let [home, statistics] = ["home", "statistics"].map(|name| {
            let directory = self.directory.join(name);
            // The first run finds nothing to remove.
            drop(fs::remove_dir_all(&directory));
            fs::create_dir_all(&directory).expect("the directory above is ours");
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("as above");
            directory
        });
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let nothing = Path::new("");
        let mut command: Command = pair.b.command("/bin/bash");
        command
            .arg(programs.join("everyday/run.bash"))
            .args([self.service, what])
            .current_dir(&home)
            .env_clear()
            .envs([("PATH", needs::PATH), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")])
            .env("PYTHONPATH", needs::python_modules())
            .env("HOME", &home)
            .env("PREPARED", &self.directory)
            .env("PROGRAMS", &programs)
            .env("SELF", Pair::ADDRESS_B.to_string())
            .env("SELF_NETNS", pair.b.name())
            .env("PEER_NETNS", pair.a.name())
            .env("LOAD", &self.generator)
            .env("TOKIO_HTTP", &self.tokio_http)
            .envs([("SERVER_CPUS", "0-1"), ("CLIENT_CPUS", "0-1")])
            .env("VMA_STATS_SHMEM_DIR", &statistics)
            .env(
                "LIBRARY",
                if is_preloaded { &self.library } else { nothing },
            )
            .env("CLIENT_LIBRARY", nothing);
        let run = || {
            let mut running = Running::start_interactive(command)?;
            // One load, and no other.
            let mut turns = running.stdin().expect("nobody has it");
            // Of a service that has not come up the output says why.
            drop(turns.write_all(b"\n"));
            drop(turns);
            running.wait(TIMEOUT)
        };
        let (finished, reasons) = reasons::of(&statistics, run);
        Ok((finished?, reasons))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What remains is in the temporary directory, under the name of an ended process.
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// Of lines that begin with a name.
fn load(stdout: &str) -> Result<Load, String> {
    let numbers = |name: &str| -> Option<Vec<f64>> {
        let line = stdout.lines().find_map(|line| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with(' ').then_some(rest)
        })?;
        line.split_whitespace().map(|it| it.parse().ok()).collect()
    };
    let number = |name: &str| {
        let first = numbers(name).and_then(|all| all.first().copied());
        first.ok_or_else(|| format!("says nothing of {name}"))
    };
    let per_sec = number("rate")?;
    let requests = per_sec * number("seconds")?;
    let errors = number("errors").unwrap_or(0.0);
    if per_sec <= 0.0 || errors > requests * ERRORS_MAX {
        return Err(format!("{errors} of {requests:.0} requests failed"));
    }
    let octets = numbers("octets").filter(|octets| octets.len() == 2);
    let octets = octets.ok_or("says nothing of octets")?;
    Ok(Load {
        per_sec,
        share: (1.0 - octets[1] / octets[0]).clamp(0.0, 1.0),
    })
}

#[test]
fn a_load_that_answers_nothing_is_none() {
    let said = |rate, errors| {
        load(&format!(
            "rate {rate}\nseconds 2.0\nerrors {errors}\noctets 1000 250\n"
        ))
    };
    let good = said(1000, 2).unwrap();
    assert_eq!((good.per_sec, good.share), (1000.0, 0.75));
    assert!(said(1000, 3).is_err() && said(0, 0).is_err());
    assert!(load("rate 5\nseconds 1\n").is_err());
}
