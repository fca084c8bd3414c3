//! A network that misbehaves as a seed says.

use std::collections::BTreeMap;
use std::time::Duration;

use tcp::{Ecn, Header, Instant};

/// SplitMix64: small, and the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// True once in a while: `per_million` times in a million.
    pub(crate) fn chance(&mut self, per_million: u32) -> bool {
        self.next() % 1_000_000 < u64::from(per_million)
    }

    /// Up to `most`.
    pub(crate) fn duration(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).expect("shorter than 584 years");
        Duration::from_nanos(self.between(0, most))
    }

    /// One of `choices`.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = self.between(0, choices.len() as u64 - 1);
        choices[usize::try_from(index).expect("an index")]
    }
}

/// A segment under way.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

/// Octets of IP and TCP headers with timestamps, and of Ethernet with its gaps.
const OVERHEAD: u64 = 52 + 38;

/// One direction of a path. Probabilities are per million packets.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// Propagation.
    pub(crate) delay: Duration,
    /// Octets a second; `None` is infinite.
    pub(crate) rate: Option<u64>,
    /// The bottleneck's queue, in octets; what does not fit is dropped.
    pub(crate) queue: u64,
    pub(crate) loss: u32,
    /// Once a packet is lost at random, how many after it are lost, too.
    pub(crate) burst: u64,
    pub(crate) duplicate: u32,
    pub(crate) corrupt: u32,
    pub(crate) reorder: u32,
    /// How much later a packet that is reordered arrives, at most.
    pub(crate) reorder_delay: Duration,
    /// Packets that are ECN-capable are marked instead of lost, this often.
    pub(crate) mark: u32,
}

impl Conditions {
    /// Nothing but delay.
    pub(crate) fn perfect(delay: Duration) -> Self {
        Self {
            delay,
            rate: None,
            queue: u64::MAX,
            loss: 0,
            burst: 0,
            duplicate: 0,
            corrupt: 0,
            reorder: 0,
            reorder_delay: Duration::ZERO,
            mark: 0,
        }
    }
}

/// A direction of a path with what it remembers.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) conditions: Conditions,
    rng: Rng,
    busy_until: Instant,
    /// Packets of a burst that are still to be lost.
    burst_left: u64,
    pub(crate) packet_count: u64,
    pub(crate) dropped_count: u64,
}

impl Link {
    pub(crate) fn new(conditions: Conditions, rng: Rng) -> Self {
        Self {
            conditions,
            rng,
            busy_until: Instant::ZERO,
            burst_left: 0,
            packet_count: 0,
            dropped_count: 0,
        }
    }

    /// When the packet arrives: never, once or twice.
    pub(crate) fn send(&mut self, now: Instant, packet: &mut Packet) -> [Option<Instant>; 2] {
        self.packet_count += 1;
        let size = packet.payload.len() as u64 + OVERHEAD;
        let departure = self.departure(now, size);
        // Decided in any case, so that one decision does not change the others.
        let lost = self.rng.chance(self.conditions.loss);
        let corrupt = self.rng.chance(self.conditions.corrupt);
        let duplicate = self.rng.chance(self.conditions.duplicate);
        let marked = self.rng.chance(self.conditions.mark);
        let late = [self.lateness(), self.lateness()];
        let in_burst = self.burst_left > 0;
        self.burst_left = self.burst_left.saturating_sub(1);
        if lost {
            self.burst_left = self.conditions.burst;
        }
        let Some(departure) = departure else {
            self.dropped_count += 1;
            return [None, None];
        };
        // What is corrupt does not pass the checksum.
        if lost || in_burst || corrupt {
            self.dropped_count += 1;
            return [None, None];
        }
        if marked && packet.ecn != Ecn::NotEct {
            packet.ecn = Ecn::Ce;
        }
        let arrival = departure + self.conditions.delay;
        let second = duplicate.then(|| arrival + late[1]);
        [Some(arrival + late[0]), second]
    }

    fn departure(&mut self, now: Instant, size: u64) -> Option<Instant> {
        let Some(rate) = self.conditions.rate else {
            return Some(now);
        };
        let waiting = self.busy_until.saturating_since(now);
        let queued = u128::from(rate) * waiting.as_nanos() / 1_000_000_000;
        if queued + u128::from(size) > u128::from(self.conditions.queue) {
            return None;
        }
        let start = self.busy_until.max(now);
        self.busy_until = start + Duration::from_nanos(size * 1_000_000_000 / rate);
        Some(self.busy_until)
    }

    fn lateness(&mut self) -> Duration {
        let is_late = self.rng.chance(self.conditions.reorder);
        let most = u64::try_from(self.conditions.reorder_delay.as_nanos()).unwrap_or(u64::MAX - 1);
        let nanos = self.rng.between(0, most);
        if is_late {
            Duration::from_nanos(nanos)
        } else {
            Duration::ZERO
        }
    }
}

/// Packets on their way, by the time at which they arrive and, at one time, in the order in which they were sent.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    arrivals: BTreeMap<(Instant, u64), T>,
    sent_count: u64,
}

impl<T> InFlight<T> {
    pub(crate) fn new() -> Self {
        Self {
            arrivals: BTreeMap::new(),
            sent_count: 0,
        }
    }

    pub(crate) fn push(&mut self, arrival: Instant, packet: T) {
        self.sent_count += 1;
        self.arrivals.insert((arrival, self.sent_count), packet);
    }

    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.arrivals
            .first_key_value()
            .map(|((arrival, _), _)| *arrival)
    }

    /// The next packet that has arrived at `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<T> {
        let arrived = self.next_arrival()? <= now;
        if arrived {
            self.arrivals.pop_first().map(|(_, packet)| packet)
        } else {
            None
        }
    }
}
