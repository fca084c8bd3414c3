//! One run of a service.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::{Namespaces, Pair, Running};

use super::services::Service;
use super::watch::Watch;
use super::{CLIENT_CPU, SERVER_CPU, Stage};
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;

/// To start, or for one load: most take two seconds; a machine that is busy, or a server that
/// answers nobody, more.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is asked whether a load has ended.
const TURN_INTERVAL: Duration = Duration::from_millis(100);
/// How often statistics are looked at. Each look takes some milliseconds of the two ends' CPUs.
const LOOK_INTERVAL: Duration = Duration::from_millis(900);
/// Clock ticks a second (sysconf(3)): of all architectures that Linux calls this library's.
const TICKS_PER_SEC: f64 = 100.0;
/// So many of the requests may fail: datagrams are lost, servers close connections.
const ERRORS_MAX: f64 = 0.001;

/// Who has the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Kernel,
    Server,
    Both,
}

/// Which CPUs the two ends run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// One for the server, one for the client.
    Apart,
    /// One for both.
    Same,
    /// As the scheduler has it.
    Free,
}

/// Where the two ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hosts {
    /// On two, which a veth pair joins.
    Two,
    /// On one, over 127.0.0.1, as one user.
    One,
}

/// How the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As the service does.
    Usual,
    /// Its calls poll, of those that can; with libvma, in the profile latency.
    Spinning,
    /// It passes what one socket sends to the other's queue: on one host.
    Sockmap,
}

/// What a service runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) ends: Ends,
    pub(super) placement: Placement,
    pub(super) hosts: Hosts,
    pub(super) way: Way,
}

impl Setting {
    pub(super) const fn usual(ends: Ends, placement: Placement) -> Self {
        Self {
            ends,
            placement,
            hosts: Hosts::Two,
            way: Way::Usual,
        }
    }

    /// The variables that say it to `run.bash`, and to the library.
    fn variables(self) -> Vec<(&'static str, &'static str)> {
        let mut variables = Vec::new();
        if self.hosts == Hosts::One {
            variables.extend([("ONE_USER", "1"), ("VMA_SHM", "1")]);
        }
        match (self.way, self.ends) {
            (Way::Usual, _) => {}
            (Way::Spinning, Ends::Kernel) => variables.push(("SPINS", "1")),
            (Way::Spinning, _) => variables.push(("VMA_SPEC", "latency")),
            (Way::Sockmap, _) => variables.push(("SOCKMAP", "1")),
        }
        variables
    }
}

/// What one run says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    /// In the service's unit.
    pub(super) rate: f64,
    /// Of the time that a request takes, if the load generator tells.
    pub(super) p99_usec: Option<f64>,
    /// CPU time for each request.
    pub(super) server_usec: f64,
    pub(super) client_usec: f64,
    /// Of the bytes that the server's interface has received, those that the kernel's IP has not
    /// seen: 0 to 1.
    pub(super) offloaded: f64,
    /// Why sockets of the server were the kernel's.
    pub(super) reasons: Vec<String>,
}

/// A service that runs, and the load generator at its other end. Each load is one [`Trial`].
pub(super) struct Serving {
    running: Running,
    turns: ChildStdin,
    /// Of loads that have been made.
    turn: usize,
    watch: Option<Watch>,
    /// For messages.
    name: String,
    // The last ones, so that what runs there ends before they go.
    _home: TempDir,
    pair: Pair,
}

impl Serving {
    /// Returns when the service answers. Each load will take `seconds`.
    pub(super) fn start(
        stage: &Stage,
        service: &Service,
        setting: Setting,
        seconds: u32,
    ) -> Result<Self, Failure> {
        let Setting {
            ends, placement, ..
        } = setting;
        let pair = Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?;
        let home = tempfile::Builder::new()
            .prefix("run-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir_in(stage.home.path())?;
        let programs = cargo::programs();
        let preloaded = |has: bool| {
            if has {
                stage.library.as_path()
            } else {
                Path::new("")
            }
        };
        let (server_cpus, client_cpus) = match placement {
            Placement::Apart => (SERVER_CPU, CLIENT_CPU),
            Placement::Same => (SERVER_CPU, SERVER_CPU),
            Placement::Free => ("0-1", "0-1"),
        };
        let (address, client) = match setting.hosts {
            Hosts::Two => (Pair::ADDRESS_B, &pair.a),
            Hosts::One => (Ipv4Addr::LOCALHOST, &pair.b),
        };
        let mut command = pair.b.command("/bin/bash");
        command
            .arg(programs.join("everyday/run.bash"))
            .args([service.name, &seconds.to_string()])
            .current_dir(home.path())
            .env_clear()
            .env("PATH", testkit::needs::PATH)
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", home.path())
            .env("PREPARED", stage.home.path())
            .env("PROGRAMS", &programs)
            .env("SELF", address.to_string())
            .env("SELF_NETNS", pair.b.name())
            .env("PEER_NETNS", client.name())
            .env("LOAD", &stage.generator)
            .env("TOKIO_HTTP", &stage.tokio_http)
            .env("SERVER_CPUS", server_cpus)
            .env("CLIENT_CPUS", client_cpus)
            .env("LIBRARY", preloaded(ends != Ends::Kernel))
            .env("CLIENT_LIBRARY", preloaded(ends == Ends::Both))
            .envs(setting.variables());
        if let Some(broker) = &stage.broker {
            command.env("BROKER", broker.directory());
        }
        let mut running = Running::start_interactive(command)?;
        let turns = running
            .stdin()
            .ok_or_else(|| Failure::new("no standard input"))?;
        let mut serving = Self {
            running,
            turns,
            turn: 0,
            watch: None,
            name: format!("{} ({setting:?})", service.name),
            _home: home,
            pair,
        };
        serving.told()?;
        Ok(serving)
    }

    /// From now on trials say why sockets were the kernel's.
    pub(super) fn watch(&mut self) {
        self.watch = Some(Watch::default());
    }

    /// Puts the service under its load once.
    pub(super) fn load(&mut self) -> Result<Trial, Failure> {
        self.turns.write_all(b"\n")?;
        self.turn += 1;
        let told = self.told()?;
        let reasons = self.watch.as_ref().map(Watch::reasons);
        trial(&told, reasons.unwrap_or_default()).map_err(|why| self.failure(&why))
    }

    /// Waits for what is printed in this turn: before the first load nothing is.
    fn told(&mut self) -> Result<String, Failure> {
        let mut looked = Instant::now();
        let deadline = looked + TIMEOUT;
        loop {
            let ended = self.running.status()?.is_some();
            let stdout = self.running.stdout();
            let mut turns = stdout.split("ready\n");
            // What follows the last "ready" is no whole turn yet.
            if let (Some(told), Some(_)) = (turns.nth(self.turn), turns.next()) {
                return Ok(told.to_owned());
            }
            if ended || Instant::now() >= deadline {
                return Err(self.failure("answers nothing"));
            }
            interrupt::sleep(TURN_INTERVAL)?;
            if let Some(watch) = &mut self.watch
                && looked.elapsed() >= LOOK_INTERVAL
            {
                watch.look(&self.pair.b);
                looked = Instant::now();
            }
        }
    }

    fn failure(&self, why: &str) -> Failure {
        let all = format!("{}{}", self.running.stdout(), self.running.stderr());
        let lines: Vec<&str> = all.lines().collect();
        let last = lines[lines.len().saturating_sub(30)..].join("\n");
        Failure::Reason(format!("{}: {why}\n{last}", self.name))
    }
}

/// Of lines that begin with a name.
fn trial(stdout: &str, reasons: Vec<String>) -> Result<Trial, String> {
    let numbers = |name: &str| -> Option<Vec<f64>> {
        let line = stdout.lines().find_map(|line| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with(' ').then_some(rest)
        })?;
        line.split_whitespace().map(|it| it.parse().ok()).collect()
    };
    let number = |name: &str| {
        let number = numbers(name).and_then(|all| all.first().copied());
        number.ok_or_else(|| format!("says nothing of {name}"))
    };
    let rate = number("rate")?;
    if rate <= 0.0 {
        return Err("answers nothing".to_owned());
    }
    let requests = rate * number("seconds")?;
    let errors = number("errors").unwrap_or(0.0);
    if errors > requests * ERRORS_MAX {
        return Err(format!("{errors} of {requests:.0} requests failed"));
    }
    let client_sec = numbers("client_sec").ok_or("says nothing of client_sec")?;
    let octets = numbers("octets").ok_or("says nothing of octets")?;
    let &[all, kernels] = octets.as_slice() else {
        return Err("octets are two numbers".to_owned());
    };
    let usec = |sec: f64| sec * 1e6 / requests;
    Ok(Trial {
        rate,
        p99_usec: number("p99_us").ok(),
        server_usec: usec(number("server_ticks")? / TICKS_PER_SEC),
        client_usec: usec(client_sec.iter().sum()),
        offloaded: (1.0 - kernels / all).clamp(0.0, 1.0),
        reasons,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "rate 1000.5\np99_us 250\nerrors 1\nclient_sec 0.5 0.5\nserver_ticks 200\nseconds 2.0\noctets 1000 250\n";

    #[test]
    fn a_run_tells_what_a_request_costs() {
        let trial = trial(SAID, vec!["a reason".to_owned()]).unwrap();
        let expected = Trial {
            rate: 1000.5,
            p99_usec: Some(250.0),
            server_usec: 2e6 / 2001.0,
            client_usec: 1e6 / 2001.0,
            offloaded: 0.75,
            reasons: vec!["a reason".to_owned()],
        };
        assert_eq!(trial, expected);
    }

    #[test]
    fn what_answers_little_or_nothing_is_no_measurement() {
        let wrong = |from: &str, to: &str| trial(&SAID.replace(from, to), Vec::new()).unwrap_err();
        assert_eq!(wrong("rate 1000.5", "rate 0"), "answers nothing");
        assert_eq!(wrong("rate 1000.5", "rates"), "says nothing of rate");
        assert_eq!(wrong("errors 1", "errors 3"), "3 of 2001 requests failed");
        assert_eq!(wrong(" 1000 250", " 1000"), "octets are two numbers");
        let without = trial(&SAID.replace("p99_us 250\n", ""), Vec::new());
        assert_eq!(without.unwrap().p99_usec, None);
    }
}
