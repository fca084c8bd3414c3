//! The paths whose goodput is measured.

use std::time::Duration;

use super::network::Conditions;

/// What a path does to packets.
#[derive(Clone, Copy)]
pub(crate) struct Trouble {
    pub(crate) name: &'static str,
    /// Packets in a million that are lost.
    pub(crate) loss: u32,
    /// How many after a lost one are lost with it.
    pub(crate) burst: u64,
    /// Packets in a million that are late.
    pub(crate) reorder: u32,
}

const fn trouble(name: &'static str, loss: u32, burst: u64, reorder: u32) -> Trouble {
    Trouble {
        name,
        loss,
        burst,
        reorder,
    }
}

pub(crate) const TROUBLES: [Trouble; 7] = [
    trouble("none", 0, 0, 0),
    trouble("loss 0.1 %", 1_000, 0, 0),
    trouble("loss 1 %", 10_000, 0, 0),
    trouble("loss 3 %", 30_000, 0, 0),
    trouble("bursts of 8", 500, 7, 0),
    trouble("reordering 10 %", 0, 0, 100_000),
    trouble("reordering 30 %", 0, 0, 300_000),
];

/// Rate in Mbit/s and round-trip time in microseconds.
pub(crate) const PATHS: [(u64, u64); 8] = [
    (10_000, 20),
    (10_000, 200),
    (1_000, 100),
    (1_000, 1_000),
    (1_000, 10_000),
    (100, 10_000),
    (100, 100_000),
    (10, 100_000),
];

/// The direction that carries the data of a path of `rate` Mbit/s: a queue as long as the path, but for a hundred packets
/// at least; who is late is so by up to sixteen packets, and by no more than a quarter of a round trip.
pub(crate) fn conditions(rate: u64, rtt: Duration, trouble: Trouble) -> Conditions {
    let octets_per_second = rate * 125_000;
    let product = octets_per_second * u64::try_from(rtt.as_micros()).expect("short") / 1_000_000;
    Conditions {
        rate: Some(octets_per_second),
        queue: product.max(150_000),
        loss: trouble.loss,
        burst: trouble.burst,
        reorder: trouble.reorder,
        reorder_delay: Duration::from_nanos(16 * 1_538 * 8_000 / rate).min(rtt / 4),
        ..Conditions::perfect(rtt / 2)
    }
}
