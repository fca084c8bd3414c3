//! Everyday servers exactly as their packages ship them: with the package's configuration, its
//! user, sendfile, reuseport and as many workers as it comes with. Preloaded, each answers the same
//! as on the kernel and ends the same; what of its packets was past the kernel under a load, or why
//! nothing was, is known.
//!
//! A row is a service of `tests/programs/everyday`, whose rates `cargo xtask bench --everyday`
//! compares; `answers.bash` there has the questions.

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

/// Of the octets that the interface received, those that the kernel's IP did not: with fewer there
/// is a reason.
const SHARE_MIN: f64 = 0.5;
const TIMEOUT: Duration = Duration::from_secs(90);
/// Requests of a load that may fail: a server closes connections that had as many as it allows.
const ERRORS_MAX: f64 = 0.001;

macro_rules! rows {
    // Beside its name, what it needs beyond what every Debian system has: lines of
    // `testkit::needs`.
    ($($name:ident: $service:literal, $needs:expr;)*) => {
        $(#[test] fn $name() { compare($service, &$needs); })*
    };
}

rows! {
    haproxy: "haproxy-http", ["haproxy", "nginx", "wrk", "curl"];
    java_nio: "java-nio", ["java", "javac", "wrk", "curl"];
    memcached: "memcached-tcp", ["memcached", "python3"];
    mosquitto: "mosquitto-messages", ["mosquitto", "mosquitto_pub", "mosquitto_sub"];
    nginx: "nginx-100k", ["nginx", "wrk", "curl", "openssl"];
    node: "node-http", ["node", "wrk", "curl"];
    postgres: "postgres-select", ["psql", "pgbench"];
    python_asyncio: "python-asyncio", ["python3", "wrk", "curl"];
    python_gunicorn: "python-gunicorn", ["gunicorn", "wrk", "curl"];
    redis: "redis-50", ["redis-server", "redis-benchmark", "redis-cli"];
    ssh: "ssh-upload", ["sshd", "ssh", "ssh-keygen", "scp"];
    tokio: "tokio-http", ["wrk", "curl"];
    unbound: "unbound-udp", ["unbound", "dig", "dnsperf"];
    chrony: "chrony-udp", ["chronyd"];
    java_pool: "java-pool", ["java", "javac", "wrk", "curl"];
    nginx_small: "nginx-small", ["nginx", "wrk", "curl", "openssl"];
    node_cluster: "node-cluster", ["node", "wrk", "curl"];
    python_uvicorn: "python-uvicorn", ["uvicorn", "wrk", "curl"];
    python_uvloop: "python-uvloop", ["python3", "python:uvicorn", "python:uvloop", "wrk", "curl"];
    threads: "threads-60", ["cc", "wrk", "curl"];
}

fn compare(service: &str, programs: &[&str]) {
    or_skip!(needs::require(programs));
    let stage = or_skip!(Stage::new(service));
    testkit::retry_if_paused(|| stage.differences()).unwrap_or_else(|words| panic!("{words}"));
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
        let generator = testkit::c_program_with("load", &["-O2"]);
        let example = || testkit::example_path("tokio_http").unwrap();
        Ok(Self {
            service: service.to_owned().leak(),
            directory,
            library,
            generator,
            tokio_http: TOKIO_HTTP.get_or_init(example).clone(),
        })
    }

    fn differences(&self) -> Result<(), String> {
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
        self.share()
    }

    /// A load tells what of it was past the kernel.
    fn share(&self) -> Result<(), String> {
        let (said, reasons) = self
            .run("1", true)
            .map_err(|error| format!("{}: {error}", self.service))?;
        let load =
            load(&said.stdout).map_err(|why| format!("{}: {why}\n{said:#?}", self.service))?;
        if load.share < SHARE_MIN && reasons.is_empty() {
            return Err(format!(
                "{}: {:.2} of the octets past the kernel, and no reason",
                self.service, load.share
            ));
        }
        // Seen also when the test passes.
        let line = format!("{}: {load:.2?}; {reasons:?}\n", self.service);
        drop(io::stderr().write_all(line.as_bytes()));
        Ok(())
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
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
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
