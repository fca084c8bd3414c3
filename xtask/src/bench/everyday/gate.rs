//! What every change must keep: everyday services are not slower than on the kernel.

use std::path::Path;

use super::Stage;
use super::services::{self, Service};
use super::trial::{Ends, Placement, Serving, Setting};
use crate::failure::Failure;
use crate::interrupt;
use crate::needs::Whom;
use crate::output::say;
use crate::setup;

/// Of one load.
const SECONDS: u32 = 1;
/// Lower than what `bench --everyday --check` asks for: it tells a library that slows a service
/// from a machine that is busy.
const RATE_MIN: f64 = 0.9;
/// Of what every change must pass. A virtual machine's CPUs are near each other and far in turns of
/// minutes: of one library one run said 0.87 of nginx, the next 1.01.
const RATE_MIN_SHORT: f64 = 0.8;
/// So many pairs of loads at most, one on the kernel and one with the library.
const PAIRS_MAX: usize = 12;

/// A web server with its workers, an event loop, one thread, several, processes, datagrams, and
/// bulk.
const SHORT_FORM: [&str; 8] = [
    "nginx-small",
    "apache-small",
    "redis-pipeline",
    "memcached-tcp",
    "memcached-udp",
    "mosquitto-messages",
    "nsd-udp",
    "dnsmasq-udp",
];

/// Those that are known to be slower, see docs/everyday.md: they are measured all the same.
const KNOWN_SLOWER: [&str; 5] = [
    "nginx-1m",
    "iperf3-4",
    "java-pool",
    "threads-60",
    "threads-1000",
];

/// Fails if one of a few is slower than on the kernel; otherwise says how fast they are.
pub(crate) fn gate(library: &Path) -> Result<String, Failure> {
    let services = services::named(&SHORT_FORM.map(str::to_owned))?;
    judge(library, &services, RATE_MIN_SHORT)
}

/// The same of all, but those whose every request is a connection.
pub(crate) fn long_gate(library: &Path) -> Result<String, Failure> {
    let mut all = services::named(&[])?;
    all.retain(|service| !service.short);
    judge(library, &all, RATE_MIN)
}

fn judge(library: &Path, services: &[&'static Service], least: f64) -> Result<String, Failure> {
    setup::ensure(Whom::Loading)?;
    let stage = Stage::new(library.to_owned())?;
    let (mut said, mut slow) = (Vec::new(), Vec::new());
    for service in services.iter().copied() {
        if let Some(program) = service.missing() {
            said.push(format!("{} skipped, no {program}", service.name));
            continue;
        }
        let again = |failure| {
            interrupt::check()?;
            say(format_args!("{failure}, once more"));
            ratio(&stage, service, least)
        };
        match ratio(&stage, service, least).or_else(again) {
            Ok(ratio) if ratio >= least || KNOWN_SLOWER.contains(&service.name) => {
                said.push(format!("{} {ratio:.2}", service.name))
            }
            Ok(ratio) => slow.push(format!("{} {ratio:.2}", service.name)),
            Err(failure) => {
                interrupt::check()?;
                slow.push(failure.to_string());
            }
        }
    }
    if slow.is_empty() {
        return Ok(said.join(", "));
    }
    Err(Failure::Reason(format!(
        "slower than {least} of the kernel's rate: {}",
        slow.join(", ")
    )))
}

/// Of two servers that run side by side and are asked in turns: a server that starts anew for each
/// load has other memory, workers that have shared their connections otherwise, and a faster or
/// slower moment of the machine. As few turns as it takes.
fn ratio(stage: &Stage, service: &'static Service, least: f64) -> Result<f64, Failure> {
    let start = |ends| {
        interrupt::check()?;
        let setting = Setting::usual(ends, Placement::Apart);
        Serving::start(stage, service, setting, SECONDS)
    };
    let mut servers = [start(Ends::Kernel)?, start(Ends::Server)?];
    let mut rates = Vec::new();
    loop {
        let mut pair = [0.0; 2];
        for (rate, server) in pair.iter_mut().zip(&mut servers) {
            interrupt::check()?;
            *rate = server.load()?.rate;
        }
        rates.push(pair);
        let ratio = judged(&rates);
        if ratio >= least || rates.len() == PAIRS_MAX {
            return Ok(ratio);
        }
        say(format_args!("{}: {ratio:.2}, once more", service.name));
    }
}

/// Of pairs of rates, the kernel's first. What other programs do only slows, so the best of each
/// side counts. But a virtual machine's CPUs are faster at times, which only one side may meet:
/// then what most pairs say counts, each of which is of one moment.
fn judged(rates: &[[f64; 2]]) -> f64 {
    let best = |side: usize| rates.iter().map(|pair| pair[side]).fold(0.0, f64::max);
    let mut ratios: Vec<_> = rates.iter().map(|[kernel, ours]| ours / kernel).collect();
    ratios.sort_by(f64::total_cmp);
    // Of two the lower one.
    let median = ratios[(ratios.len() - 1) / 2];
    median.max(best(1) / best(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lucky_moment_of_one_side_decides_nothing() {
        let as_fast = [[100.0, 97.0], [130.0, 95.0], [99.0, 96.0]];
        assert!(judged(&as_fast) >= RATE_MIN);
        let slow = [[100.0, 82.0], [101.0, 99.0], [130.0, 84.0]];
        assert!(judged(&slow) < RATE_MIN);
        let disturbed = [[100.0, 50.0], [60.0, 96.0]];
        assert!(judged(&disturbed) >= RATE_MIN);
        assert!(judged(&[[100.0, 89.0]]) < RATE_MIN);
    }
}
