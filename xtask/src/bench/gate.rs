//! What every change must keep: the gain over the kernel, measured in half a minute.
//!
//! Only numbers that a busy machine hardly moves are held to their promises here: ratios to the kernel, measured side by
//! side. The others (the distance to the bare device, what calls cost by themselves) are `cargo xtask bench`'s.

use std::path::Path;

use super::verdict::{self, Verdict};
use crate::failure::Failure;
use crate::interrupt;
use crate::measure::{Sockets, Stage};
use crate::median::median;

const SECONDS: u32 = 1;
const ROUNDS: usize = 3;

/// Fails if the library is not faster than the kernel by what is promised; otherwise says by how much it is.
pub(crate) fn gate(library: &Path) -> Result<String, Failure> {
    let stage = Stage::new(library.to_owned())?;
    let (mut gains, mut received) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        interrupt::check()?;
        let (kernel, _) = stage.ping_pong(Sockets::Kernel, SECONDS)?;
        let (libvma, _) = stage.ping_pong(Sockets::Libvma, SECONDS)?;
        gains.push(kernel.p50_usec / libvma.p50_usec);
        let kernel = stage.throughput(Sockets::Kernel, SECONDS)?;
        let libvma = stage.throughput(Sockets::Libvma, SECONDS)?;
        received.push(libvma.received_per_sec / kernel.received_per_sec);
    }
    let verdicts = [
        verdict::gain(median(gains.iter().copied())),
        verdict::received(median(received.iter().copied())),
    ];
    let said = verdicts.each_ref().map(Verdict::said).join(", ");
    if verdicts.iter().all(Verdict::passed) {
        Ok(said)
    } else {
        Err(Failure::Reason(said))
    }
}
