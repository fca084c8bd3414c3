//! `--threads` and `--flows`: many sockets, shared among threads.

use super::given::Given;
use super::usage;
use crate::error::Error;

/// Sockets for each address, and threads that share all sockets.
pub(super) struct Sharing {
    pub(super) flows: usize,
    pub(super) threads: usize,
}

/// Every thread has some 30 MB of its own.
const THREADS_MAX: usize = 256;
/// Ports that a client can have towards one address.
const FLOWS_MAX: usize = 60_000;

pub(super) fn sharing(given: &Given<'_>) -> Result<Sharing, Error> {
    let threads = given
        .number("threads", (1, THREADS_MAX), |text| {
            format!("'--threads' Invalid threads number: {text} (1 to {THREADS_MAX})")
        })?
        .unwrap_or(1);
    let flows = given.number("flows", (1, FLOWS_MAX), |text| {
        format!("'--flows' Invalid number of flows: {text} (1 to {FLOWS_MAX})")
    })?;
    if threads > 1 {
        for (key, name) in [
            ("number-of-packets", "-n"),
            ("activity", "-a"),
            ("Activity", "-A"),
        ] {
            if given.has(key) {
                return Err(usage(format!("--threads conflicts with {name}")));
            }
        }
    }
    // A file says how many there are; else each thread has one.
    let flows = flows.unwrap_or_else(|| if given.has("file") { 1 } else { threads });
    if flows < threads && !given.has("file") {
        return Err(usage(format!(
            "'--flows' Invalid number of flows: {flows} (fewer than --threads)"
        )));
    }
    if flows > 1 && given.has("client_port") {
        return Err(usage("--client_port conflicts with --flows and --threads"));
    }
    Ok(Sharing { flows, threads })
}

/// Whether a thread has more than one socket, as far as the command line tells.
pub(super) fn waits_for_several(given: &Given<'_>) -> bool {
    let number = |key| {
        let text: Option<usize> = given.text(key).and_then(|text| text.parse().ok());
        text.unwrap_or(1)
    };
    given.has("file") || number("flows") > number("threads")
}
