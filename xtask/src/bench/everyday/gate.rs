//! What every change must keep: everyday services are not slower than on the kernel.

use std::path::Path;

use super::Stage;
use super::services::{self, Service};
use super::trial::{Ends, Placement, measure};
use crate::failure::Failure;
use crate::interrupt;
use crate::needs::Whom;
use crate::output::say;
use crate::setup;

/// Of one load.
const SECONDS: u32 = 1;
/// Lower than what `bench --everyday --check` asks for: it tells a library that slows a service from a machine that is busy.
const RATE_MIN: f64 = 0.9;
/// One that fails is measured again.
const ATTEMPTS: usize = 5;

/// A web server with its workers, an event loop, one thread, several, processes, datagrams, and bulk.
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

/// Fails if one of them is slower than on the kernel; otherwise says how fast they are.
pub(crate) fn gate(library: &Path) -> Result<String, Failure> {
    setup::ensure(Whom::Loading)?;
    let stage = Stage::new(library.to_owned())?;
    let names = SHORT_FORM.map(str::to_owned);
    let (mut said, mut slow) = (Vec::new(), Vec::new());
    for service in services::named(&names)? {
        if let Some(program) = service.missing() {
            said.push(format!("{} skipped, no {program}", service.name));
            continue;
        }
        match ratio(&stage, service) {
            Ok(ratio) if ratio >= RATE_MIN => said.push(format!("{} {ratio:.2}", service.name)),
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
        "slower than {RATE_MIN} of the kernel's rate: {}",
        slow.join(", ")
    )))
}

/// After a few attempts, as many as it takes. What other programs do only slows, so the best of each side counts.
fn ratio(stage: &Stage, service: &'static Service) -> Result<f64, Failure> {
    let mut best = [0.0_f64; 2];
    let mut last = Err(Failure::new("not measured"));
    for attempt in 1..=ATTEMPTS {
        let sides = best.iter_mut().zip([Ends::Kernel, Ends::Server]);
        let measured = sides.into_iter().try_for_each(|(best, ends)| {
            interrupt::check()?;
            let trial = measure(stage, service, ends, Placement::Apart, SECONDS)?;
            *best = best.max(trial.rate);
            Ok(())
        });
        interrupt::check()?;
        last = measured.map(|()| best[1] / best[0]);
        match &last {
            Ok(ratio) if *ratio >= RATE_MIN => break,
            Ok(ratio) if attempt < ATTEMPTS => {
                say(format_args!("{}: {ratio:.2}, once more", service.name));
            }
            Err(failure) if attempt < ATTEMPTS => say(format_args!("{failure}, once more")),
            _ => {}
        }
    }
    last
}
