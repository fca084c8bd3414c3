//! What one look at a process gives.

use std::time::{Duration, Instant};

use stats::{
    KernelSocketSnapshot, NoteSnapshot, PoolSnapshot, ReadError, Reader, ReasonSnapshot,
    RingSnapshot, RuleSnapshot, SectionKind, SettingSnapshot, SocketSnapshot,
};

use crate::rate::Rate;

/// All of a process's statistics at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    taken: Instant,
    pub(crate) sockets: Vec<SocketSnapshot>,
    pub(crate) rings: Vec<RingSnapshot>,
    pub(crate) pools: Vec<PoolSnapshot>,
    pub(crate) reasons: Vec<ReasonSnapshot>,
    pub(crate) settings: Vec<SettingSnapshot>,
    pub(crate) rules: Vec<RuleSnapshot>,
    /// Oldest first. Always totals: their counters are at rest.
    pub(crate) closed_sockets: Vec<SocketSnapshot>,
    pub(crate) kernel_sockets: Vec<KernelSocketSnapshot>,
    pub(crate) notes: Vec<NoteSnapshot>,
    pub(crate) overflowed_sockets: u64,
}

/// What is printed in one cycle.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) rate: Rate,
    /// Counters are totals or differences, as `rate` says.
    pub(crate) values: Sample,
}

impl Sample {
    /// Sockets that nobody has described yet (no descriptor) are left out.
    pub(crate) fn take(reader: &Reader) -> Result<Self, ReadError> {
        let mut sockets = reader.sockets()?;
        sockets.retain(|socket| socket.fd >= 0);
        Ok(Self {
            taken: Instant::now(),
            sockets,
            rings: reader.rings()?,
            pools: reader.pools()?,
            reasons: reader.reasons()?,
            settings: reader.settings()?,
            rules: reader.rules()?,
            closed_sockets: reader.closed_sockets()?,
            kernel_sockets: reader.kernel_sockets()?,
            notes: reader.notes()?,
            overflowed_sockets: reader.overflowed(SectionKind::Sockets)?,
        })
    }

    pub(crate) fn totals(self) -> Report {
        Report {
            rate: Rate::Total,
            values: self,
        }
    }

    /// The change since `earlier`. What did not exist then counts from zero.
    pub(crate) fn deltas(&self, earlier: &Self) -> Report {
        Report {
            rate: Rate::Over(self.taken.saturating_duration_since(earlier.taken)),
            values: Self {
                taken: self.taken,
                sockets: since(
                    &self.sockets,
                    &earlier.sockets,
                    |socket| (socket.slot, socket.generation),
                    SocketSnapshot::since,
                ),
                rings: since(
                    &self.rings,
                    &earlier.rings,
                    |ring| (ring.slot, ring.generation),
                    RingSnapshot::since,
                ),
                pools: since(
                    &self.pools,
                    &earlier.pools,
                    |pool| (pool.slot, pool.generation),
                    PoolSnapshot::since,
                ),
                reasons: since(
                    &self.reasons,
                    &earlier.reasons,
                    |reason| (reason.code, reason.generation),
                    ReasonSnapshot::since,
                ),
                settings: self.settings.clone(),
                rules: self.rules.clone(),
                closed_sockets: self.closed_sockets.clone(),
                kernel_sockets: self.kernel_sockets.clone(),
                notes: self.notes.clone(),
                overflowed_sockets: self.overflowed_sockets,
            },
        }
    }
}

impl Report {
    /// Of differences, the time they cover.
    pub(crate) fn covers(&self) -> Option<Duration> {
        match self.rate {
            Rate::Total => None,
            Rate::Over(time) => Some(time),
        }
    }
}

/// Pairs entries by place and generation. A new user of a place is not compared with the old one.
fn since<S: Clone>(
    current: &[S],
    earlier: &[S],
    key: impl Fn(&S) -> (u32, u64),
    difference: impl Fn(&S, &S) -> S,
) -> Vec<S> {
    let earlier: std::collections::HashMap<_, _> =
        earlier.iter().map(|entry| (key(entry), entry)).collect();
    let change = |entry: &S| match earlier.get(&key(entry)) {
        Some(before) => difference(entry, before),
        None => entry.clone(),
    };
    current.iter().map(change).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use stats::{Capacity, Identity, Segment};

    /// A segment with a reader on it, for tests of everything that is printed.
    pub(crate) struct Fixture {
        _dir: tempfile::TempDir,
        pub(crate) segment: Segment,
        pub(crate) reader: Reader,
    }

    impl Fixture {
        pub(crate) fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let identity = Identity {
                library_version: "0.1.0".to_owned(),
                program: "feed".to_owned(),
            };
            let capacity = Capacity {
                sockets: 20,
                rings: 2,
                pools: 2,
                reasons: 4,
                settings: 2,
                rules: 2,
            };
            let path = dir.path().join(std::process::id().to_string());
            std::fs::create_dir(&path).unwrap();
            let segment = Segment::create(&path, &identity, capacity).unwrap();
            let reader = Reader::open(&path, std::process::id()).unwrap();
            Self {
                _dir: dir,
                segment,
                reader,
            }
        }

        pub(crate) fn sample(&self) -> Sample {
            Sample::take(&self.reader).unwrap()
        }
    }

    impl Sample {
        /// As if taken later than it was.
        pub(crate) fn later(mut self, time: Duration) -> Self {
            self.taken += time;
            self
        }
    }

    impl Report {
        /// The change between two samples, shown as if exactly `time` had passed.
        pub(crate) fn over(mut self, time: Duration) -> Self {
            self.rate = Rate::Over(time);
            self
        }
    }

    #[test]
    fn deltas_are_the_change_and_gauges_the_present_value() {
        let fixture = Fixture::new();
        let socket = fixture.segment.claim_socket();
        socket.fd.set(5);
        socket.rx_packets.add(10);
        socket.rx_queue_packets.set(4);
        let earlier = fixture.sample();
        socket.rx_packets.add(7);
        socket.rx_queue_packets.set(3);
        let report = fixture
            .sample()
            .later(Duration::from_secs(5))
            .deltas(&earlier);
        let seen = &report.values.sockets[0];
        assert_eq!((seen.fd, seen.rx_packets, seen.rx_queue_packets), (5, 7, 3));
        assert!(report.covers().unwrap() >= Duration::from_secs(5));
    }

    #[test]
    fn deltas_of_a_reused_place_count_from_zero() {
        let fixture = Fixture::new();
        let first = fixture.segment.claim_socket();
        first.fd.set(5);
        first.rx_packets.add(100);
        let earlier = fixture.sample();
        drop(first);
        let second = fixture.segment.claim_socket();
        second.fd.set(5);
        second.rx_packets.add(30);
        let report = fixture.sample().deltas(&earlier);
        assert_eq!(report.values.sockets[0].rx_packets, 30);
    }

    #[test]
    fn sockets_without_a_descriptor_are_left_out() {
        let fixture = Fixture::new();
        let _unnamed = fixture.segment.claim_socket();
        assert!(fixture.sample().sockets.is_empty());
    }
}
