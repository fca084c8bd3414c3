//! Services as they are installed, under their own load generators, on the kernel's sockets and
//! with libvma at its defaults.
//!
//! Each is a file in `tests/programs/services`; `throughput.bash` there runs it. The service
//! has one CPU and the load another.

use std::path::Path;
use std::time::Duration;

use testkit::{Namespaces, Pair, Running};

use crate::arguments::BenchOptions;
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::median::median;
use crate::needs::{self, Whom};
use crate::output::{print, say};
use crate::setup;
use crate::table::{layout, row};

/// Names, and the program without which there is nothing to measure.
const SERVICES: [(&str, &str); 11] = [
    ("unbound", "unbound"),
    ("knot", "knotd"),
    ("nsd", "nsd"),
    ("dnsmasq", "dnsmasq"),
    ("memcached", "memcached"),
    ("memcached_tcp", "memcached"),
    ("redis", "redis-server"),
    ("nginx", "nginx"),
    ("chrony", "chronyd"),
    ("rsyslog", "rsyslogd"),
    ("openvpn", "openvpn"),
];
const SECONDS: u32 = 2;
/// A run takes three to five seconds.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Answers a second with libvma by those on the kernel.
const RATE_MIN: f64 = 0.95;
/// The same for those that take nothing but TCP, whose sockets are the kernel's.
const KERNELS_RATE_MIN: f64 = 0.98;
const KERNELS: [&str; 2] = ["redis", "nginx"];

fn rate_min(name: &str) -> f64 {
    if KERNELS.contains(&name) {
        KERNELS_RATE_MIN
    } else {
        RATE_MIN
    }
}

/// What one run says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    per_sec: f64,
    /// CPU time of the service, in clock ticks.
    ticks: f64,
}

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    let is_known = |name: &&String| SERVICES.iter().any(|(known, _)| known == name);
    if let Some(unknown) = options.service.iter().find(|name| !is_known(name)) {
        let names = SERVICES.map(|(name, _)| name).join(", ");
        let reason = format!("there is no service {unknown}, but {names}");
        return Err(Failure::Usage(reason));
    }
    let is_asked_for = |name: &str| {
        options.service.is_empty() || options.service.iter().any(|asked| asked == name)
    };
    setup::ensure(Whom::Loading)?;
    let built = cargo::build(&["build", "--release", "--package", "libvma"])?;
    let library = built.path("vma")?;
    let target = cargo::target_directory().join("services");
    let generator = cargo::c_program("load", &target, &["-O2"])?;
    let mut rows = vec![row![
        "service", "kernel/s", "libvma/s", "gain", "CPU", "verdict"
    ]];
    let mut missed = Vec::new();
    for (name, program) in SERVICES {
        if !is_asked_for(name) {
            continue;
        }
        if !needs::has_service(program) {
            say(format_args!("{name}: {program} is not installed"));
            continue;
        }
        let loads = match measure_rounds(name, options.rounds, library, &generator) {
            Ok(loads) => loads,
            Err(failure) => {
                // The others are worth knowing all the same.
                interrupt::check()?;
                say(format_args!("{name}: {failure}"));
                missed.push(name);
                rows.push(row![name, "", "", "", "", "FAILED"]);
                continue;
            }
        };
        let per_sec = loads
            .each_ref()
            .map(|loads| median(loads.iter().map(|load| load.per_sec)));
        let pairs = || loads[0].iter().zip(&loads[1]);
        let gain = median(pairs().map(|(kernel, libvma)| libvma.per_sec / kernel.per_sec));
        let cost = |load: &Load| load.ticks / load.per_sec;
        let cpu = median(pairs().map(|(kernel, libvma)| cost(libvma) / cost(kernel)));
        let passed = gain >= rate_min(name);
        if !passed {
            missed.push(name);
        }
        rows.push(row![
            name,
            format!("{:.0}", per_sec[0]),
            format!("{:.0}", per_sec[1]),
            format!("{gain:.2}"),
            format!("{cpu:.2}"),
            if passed { "pass" } else { "MISS" }
        ]);
        say(format_args!(
            "  {}",
            rows.last().map_or_else(String::new, |row| row.join(" "))
        ));
    }
    print(&format!(
        "\nmedians of {} rounds; CPU: time of the service for an answer, libvma / kernel\n\n{}",
        options.rounds,
        layout(&rows)
    ))?;
    if options.check && !missed.is_empty() {
        return Err(Failure::Reason(format!(
            "less than {RATE_MIN} ({}: {KERNELS_RATE_MIN}) of the kernel's: {}",
            KERNELS.join(", "),
            missed.join(", ")
        )));
    }
    Ok(())
}

/// On the kernel and with libvma in turn.
fn measure_rounds(
    name: &str,
    rounds: u32,
    library: &Path,
    generator: &Path,
) -> Result<[Vec<Load>; 2], Failure> {
    let mut loads = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (loads, library) in loads.iter_mut().zip([None, Some(library)]) {
            interrupt::check()?;
            loads.push(measure(name, library, generator)?);
        }
    }
    Ok(loads)
}

fn measure(name: &str, library: Option<&Path>, generator: &Path) -> Result<Load, Failure> {
    let pair = Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?;
    let home = tempfile::Builder::new().prefix("vma-service-").tempdir()?;
    let programs = cargo::programs();
    let mut command = pair.b.command("/bin/bash");
    command
        .arg(programs.join("services/throughput.bash"))
        .args([name, &SECONDS.to_string()])
        .current_dir(home.path())
        .env_clear()
        .env("PATH", testkit::needs::PATH)
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", home.path())
        .env("PROGRAMS", &programs)
        .env("BASH_ENV", programs.join("common.bash"))
        .env("SELF", Pair::ADDRESS_B.to_string())
        .env("SELF_NETNS", pair.b.name())
        .env("PEER", Pair::ADDRESS_A.to_string())
        .env("PEER_NETNS", pair.a.name())
        .env("LOAD", generator)
        .env("VMA_STATS_SHMEM_DIR", home.path())
        .env("LIBRARY", library.unwrap_or_else(|| Path::new("")));
    let finished = Running::start(command)?.wait(TIMEOUT)?;
    load(&finished.stdout).ok_or_else(|| Failure::Reason(format!("{name}: {finished:?}")))
}

/// Of the line `load <answers a second> <clock ticks>`.
fn load(stdout: &str) -> Option<Load> {
    let line = stdout.lines().find_map(|line| line.strip_prefix("load "))?;
    let (per_sec, ticks) = line.split_once(' ')?;
    let load = Load {
        per_sec: per_sec.parse().ok()?,
        ticks: ticks.parse().ok()?,
    };
    (load.per_sec > 0.0).then_some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_tells_its_rate_and_its_cost() {
        let expected = Load {
            per_sec: 1500.0,
            ticks: 12.0,
        };
        assert_eq!(load("words\nload 1500 12\n"), Some(expected));
        assert_eq!(load("load 0 12\n"), None);
        assert_eq!(load("load  12\n"), None);
    }

    #[test]
    fn every_service_is_a_file() {
        let services = cargo::programs().join("services");
        for (name, _) in SERVICES {
            assert!(services.join(format!("{name}.bash")).is_file(), "{name}");
        }
    }
}
