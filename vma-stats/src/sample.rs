//! What one look at a process gives.

use std::time::{Duration, Instant, SystemTime};

use stats::{ReadError, Reader, SectionKind, Statistics};

use crate::fd_list::FdList;
use crate::rate::Rate;

/// All of a process's statistics at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Since some moment, the same for all samples of a process.
    pub(crate) taken: Duration,
    pub(crate) time: SystemTime,
    pub(crate) statistics: Statistics,
    /// Sockets since the start of the process that found no room in the segment.
    pub(crate) overflowed_sockets: u64,
}

/// What is printed in one cycle.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) rate: Rate,
    pub(crate) time: SystemTime,
    /// Counters are totals or differences, as `rate` says.
    pub(crate) values: Statistics,
    pub(crate) overflowed_sockets: u64,
}

impl Sample {
    /// Sockets that nobody has described yet (no descriptor), or that are not asked for, are left
    /// out.
    pub(crate) fn take(reader: &Reader, wanted: &FdList) -> Result<Self, ReadError> {
        let mut statistics = Statistics::read(reader)?;
        let shown = |fd: i32| fd >= 0 && wanted.contains(fd);
        statistics.sockets.retain(|socket| shown(socket.fd));
        statistics.kernel_sockets.retain(|socket| shown(socket.fd));
        statistics.tcp_connections.retain(|socket| shown(socket.fd));
        Ok(Self {
            taken: since_start(),
            time: SystemTime::now(),
            statistics,
            overflowed_sockets: reader.overflowed(SectionKind::Sockets)?,
        })
    }

    /// How long ago it was taken, of a process that runs.
    pub(crate) fn age(&self) -> Duration {
        since_start().saturating_sub(self.taken)
    }

    pub(crate) fn totals(&self) -> Report {
        Report {
            rate: Rate::Total,
            time: self.time,
            values: self.statistics.clone(),
            overflowed_sockets: self.overflowed_sockets,
        }
    }

    /// The change since `earlier`. What did not exist then counts from zero.
    pub(crate) fn deltas(&self, earlier: &Self) -> Report {
        Report {
            rate: Rate::Over(self.taken.saturating_sub(earlier.taken)),
            time: self.time,
            values: self.statistics.since(&earlier.statistics),
            overflowed_sockets: self.overflowed_sockets,
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

/// Time since this program first asked.
fn since_start() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
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
                connections: 20,
                rings: 2,
                pools: 2,
                reasons: 40,
                settings: 4,
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
            Sample::take(&self.reader, &FdList::default()).unwrap()
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
        assert!(fixture.sample().statistics.sockets.is_empty());
    }
}
