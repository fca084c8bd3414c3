//! A network that misbehaves as a seed says.

use std::collections::BTreeMap;
use std::time::Duration;

use tcp::{Ecn, Header, Instant};
use testkit::link::{Fate, LinkCounts, Random};

/// Random numbers, the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Random);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
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
const OVERHEAD: usize = 52 + 38;

/// Of IP and TCP without options.
const HEADERS_LEN: usize = 40;

/// One direction of a path.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) link: testkit::link::Conditions,
    /// Packets in a million that are damaged on the way, so that their checksum is wrong.
    pub(crate) corrupt: u32,
    /// Packets in a million that are marked as having met congestion, if they are ECN-capable.
    pub(crate) mark: u32,
    /// Larger packets vanish without a word: octets, IP header included.
    pub(crate) largest: usize,
}

impl Conditions {
    /// Nothing but delay.
    pub(crate) fn perfect(delay: Duration) -> Self {
        let link = testkit::link::Conditions {
            delay,
            ..testkit::link::Conditions::default()
        };
        link.into()
    }
}

impl From<testkit::link::Conditions> for Conditions {
    fn from(link: testkit::link::Conditions) -> Self {
        Self {
            link,
            corrupt: 0,
            mark: 0,
            largest: usize::MAX,
        }
    }
}

/// A direction of a path with what it remembers.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    fate: Fate,
    corrupt: u32,
    mark: u32,
    largest: usize,
    rng: Rng,
}

impl Link {
    pub(crate) fn new(conditions: Conditions, seed: u64) -> Self {
        Self {
            fate: Fate::new(conditions.link, seed),
            corrupt: conditions.corrupt,
            mark: conditions.mark,
            largest: conditions.largest,
            rng: Rng::new(!seed),
        }
    }

    /// When the packet arrives: never, once or twice.
    pub(crate) fn send(&mut self, now: Instant, packet: &mut Packet) -> [Option<Instant>; 2] {
        let len = packet.payload.len() + OVERHEAD;
        let since_origin = now.saturating_since(Instant::ZERO);
        let arrivals = self.fate.arrivals(since_origin, len);
        if self.rng.chance(self.mark) && packet.ecn != Ecn::NotEct {
            packet.ecn = Ecn::Ce;
        }
        if packet.payload.len() + HEADERS_LEN > self.largest {
            return [None; 2];
        }
        // What is corrupt does not pass the checksum.
        if self.rng.chance(self.corrupt) {
            return [None; 2];
        }
        arrivals.map(|arrival| arrival.map(|at| Instant::ZERO + at))
    }

    pub(crate) fn counts(&self) -> LinkCounts {
        self.fate.counts()
    }
}

/// Packets on their way, by the time at which they arrive and, at one time, in the order in which
/// they were sent.
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
