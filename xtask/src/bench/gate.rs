//! What every change must keep: the gain over the kernel, measured in half a minute.
//!
//! The limits are lower than what is promised, which `cargo xtask bench --check` judges: they tell
//! a library that has lost its gain from one on a slow or busy machine. The kernel's line is that
//! of both ends on one CPU: by itself the kernel is placed now on one, now on two, where it takes
//! ten times as long.

use std::path::Path;

use super::verdict::{Limit, Verdict};
use crate::failure::Failure;
use crate::interrupt;
use crate::measure::{Protocol, Sockets, Stage};
use crate::median::median;

const SECONDS: u32 = 1;
const ROUNDS: usize = 3;

/// Fails if the library is not faster than the kernel; otherwise says by how much it is.
pub(crate) fn gate(library: &Path) -> Result<String, Failure> {
    let stage = Stage::new(library.to_owned())?;
    let (mut gains, mut received) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        interrupt::check()?;
        let (kernel, _) = stage.ping_pong(Protocol::Udp, Sockets::KernelOneCpu, SECONDS)?;
        let (libvma, _) = stage.ping_pong(Protocol::Udp, Sockets::Libvma, SECONDS)?;
        gains.push(kernel.p50_usec / libvma.p50_usec);
        let kernel = stage.throughput(Sockets::Kernel, SECONDS)?;
        let libvma = stage.throughput(Sockets::Libvma, SECONDS)?;
        received.push(libvma.received_per_sec / kernel.received_per_sec);
    }
    let verdicts = [
        Verdict {
            name: "p50, kernel on one CPU / libvma",
            value: median(gains),
            limit: Limit::AtLeast(1.3),
        },
        Verdict {
            name: "messages received, libvma / kernel",
            value: median(received),
            limit: Limit::AtLeast(1.0),
        },
    ];
    let said = verdicts.each_ref().map(Verdict::said).join(", ");
    if verdicts.iter().all(Verdict::passed) {
        Ok(said)
    } else {
        Err(Failure::Reason(said))
    }
}
