//! Everyday services as their packages ship them, each under its usual load generator: on the
//! kernel's sockets, with libvma at the server, and at both ends.
//!
//! A service is a file of `tests/programs/everyday`, which `run.bash` there runs: with the
//! package's own configuration, user and number of workers. What had to be changed stands in its
//! first line.

mod broker;
mod compare;
mod gate;
mod report;
mod services;
mod trial;
mod watch;

use std::env;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::arguments::BenchOptions;
use crate::busy::Meter;
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use broker::Broker;
pub(crate) use compare::run as compare;
pub(crate) use gate::{gate, long_gate};
use report::Measured;
use services::Service;
use trial::{Ends, Placement, Serving, Setting, Trial};

/// Of one load.
const SECONDS: u32 = 2;

/// Requests a second with libvma by those on the kernel: `--check`.
const RATE_MIN: f64 = 0.98;

/// What one round runs, one after the other.
const TRIALS: [(Ends, Placement); 5] = [
    (Ends::Kernel, Placement::Apart),
    (Ends::Server, Placement::Apart),
    (Ends::Both, Placement::Apart),
    (Ends::Kernel, Placement::Free),
    (Ends::Server, Placement::Free),
];

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    let asked_for = services::named(&options.service)?;
    let library = library()?;
    if options.quick {
        return gate(&library).and_then(|said| print(&format!("{said}\n")));
    }
    setup::ensure(Whom::Loading)?;
    let mut stage = Stage::new(library)?;
    if options.broker {
        stage.broker = Some(Broker::start(stage.home.path())?);
    }
    print(&stage.cache_line()?)?;
    let (mut all, mut missed) = (Vec::new(), Vec::new());
    let mut busy = Meter::default();
    for service in asked_for {
        if let Some(program) = service.missing() {
            say(format_args!("{}: {program} is not installed", service.name));
            continue;
        }
        busy.look()?;
        let measured = match rounds(&stage, service, options.rounds) {
            Ok(measured) => measured,
            Err(failure) => {
                // The others are worth knowing all the same.
                interrupt::check()?;
                say(format_args!("{}: {failure}", service.name));
                missed.push(service.name);
                continue;
            }
        };
        say(format_args!("  {}", measured.progress()));
        if !measured.passes(RATE_MIN) {
            missed.push(service.name);
        }
        all.push(measured);
    }
    print(&report::text(&all, options.rounds))?;
    busy.warn();
    if options.check && !missed.is_empty() {
        return Err(Failure::Reason(format!(
            "less than {RATE_MIN} of the kernel's: {}",
            missed.join(", ")
        )));
    }
    Ok(())
}

/// As for the tests, a library that is there may be named.
fn library() -> Result<PathBuf, Failure> {
    if let Some(path) = env::var_os("VMA_TEST_LIBRARY") {
        return Ok(path.into());
    }
    let built = cargo::build(&["build", "--release", "--package", "libvma"])?;
    Ok(built.path("vma")?.to_owned())
}

/// All servers run side by side, and are asked in turns: what the machine does meanwhile meets them
/// all.
fn rounds(stage: &Stage, service: &'static Service, rounds: u32) -> Result<Measured, Failure> {
    let mut measured = Measured::new(service);
    let mut servers = start(stage, service)?;
    for round in 0..rounds {
        if service.short && round > 0 {
            // Their clients have ports in TIME-WAIT, which the next load would meet.
            drop(servers);
            servers = start(stage, service)?;
        }
        for ((ends, placement), server) in TRIALS.into_iter().zip(&mut servers) {
            interrupt::check()?;
            measured.add(ends, placement, server.load()?);
        }
    }
    Ok(measured)
}

fn start(stage: &Stage, service: &Service) -> Result<Vec<Serving>, Failure> {
    let start = |(ends, placement)| {
        interrupt::check()?;
        let setting = Setting::usual(ends, placement);
        let mut server = Serving::start(stage, service, setting, SECONDS)?;
        if ends != Ends::Kernel {
            server.watch();
        }
        Ok(server)
    };
    TRIALS.into_iter().map(start).collect()
}

/// What the runs share: the library, where every user can read it, the load generator of samples,
/// and directories.
#[derive(Debug)]
struct Stage {
    home: TempDir,
    library: PathBuf,
    generator: PathBuf,
    tokio_http: PathBuf,
    /// That all services may ask.
    broker: Option<Broker>,
}

impl Stage {
    fn new(library: PathBuf) -> Result<Self, Failure> {
        let built = cargo::build(&[
            "build",
            "--release",
            "--package",
            "testkit",
            "--example",
            "tokio_http",
        ])?;
        let home = tempfile::Builder::new()
            .prefix("vma-everyday-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()?;
        let preloaded = home.path().join("libvma.so");
        std::fs::copy(library, &preloaded)?;
        let target = cargo::target_directory().join("services");
        Ok(Self {
            library: preloaded,
            generator: cargo::c_program("load", &target, &["-O2"])?,
            tokio_http: built.path("tokio_http")?.to_owned(),
            home,
            broker: None,
        })
    }

    /// How far the two CPUs are from each other, in a line. A virtual machine's may be on one die
    /// or on two, and that changes all of the numbers.
    fn cache_line(&self) -> Result<String, Failure> {
        let target = cargo::target_directory().join("services");
        let program = cargo::c_program("cache_line", &target, &["-O2"])?;
        let output = Command::new(program)
            .args([CLIENT_CPU, SERVER_CPU])
            .output()?;
        let nsec: f64 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .map_err(|_| Failure::new("this bench needs two CPUs"))?;
        let far = if nsec > FAR_NSEC { "far" } else { "near" };
        Ok(format!(
            "a cache line from CPU to CPU and back: {nsec:.0} ns ({far})\n"
        ))
    }
}

/// Between 110 ns, within a die, and 360 ns.
const FAR_NSEC: f64 = 200.0;
/// Of [`Placement::Apart`].
const SERVER_CPU: &str = "1";
const CLIENT_CPU: &str = "0";
