//! Times in shared memory, counted by how long they are.

use std::array;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::field::value::Value;
use crate::field::{Field, FieldKind};
use crate::mapping::EntryView;

/// The first bucket ends here, nanoseconds, as a power of two.
const FIRST_BITS: u32 = 5;
/// Buckets between two powers of two, as a power of two: a bucket is at most a quarter wider than
/// its beginning.
const PARTS_BITS: u32 = 2;
/// The last bucket begins at 0.45 seconds.
const BUCKETS: usize = 96;

/// Counts of times by their length. One thread at a time records.
#[derive(Debug)]
#[repr(transparent)]
pub struct Histogram([AtomicU64; BUCKETS]);

impl Histogram {
    /// Counts one time.
    #[inline]
    pub fn record(&self, nanoseconds: u64) {
        if let Some(bucket) = self.0.get(bucket(nanoseconds)) {
            bucket.store(
                bucket.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        }
    }

    /// What was recorded so far.
    pub fn value(&self) -> Distribution {
        Distribution::of(|index| {
            self.0
                .get(index)
                .map_or(0, |bucket| bucket.load(Ordering::Relaxed))
        })
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Where a time is counted.
fn bucket(nanoseconds: u64) -> usize {
    let Some(bits) = nanoseconds
        .checked_ilog2()
        .filter(|bits| *bits >= FIRST_BITS)
    else {
        return 0;
    };
    let part = (nanoseconds >> (bits - PARTS_BITS)) & ((1 << PARTS_BITS) - 1);
    let index = 1 + ((bits - FIRST_BITS) << PARTS_BITS) as usize + part as usize;
    index.min(BUCKETS - 1)
}

/// The shortest time that is counted in a bucket.
fn begin(index: usize) -> u64 {
    let Some(index) = index.checked_sub(1) else {
        return 0;
    };
    let (octave, part) = (index >> PARTS_BITS, index as u64 & ((1 << PARTS_BITS) - 1));
    ((1 << PARTS_BITS) + part) << (octave + (FIRST_BITS - PARTS_BITS) as usize)
}

/// What a [`Histogram`] held at one moment: buckets and their counts, shortest times first, without
/// those that are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution(Vec<(usize, u64)>);

impl Distribution {
    fn of(load: impl Fn(usize) -> u64) -> Self {
        let counts = (0..BUCKETS).map(|index| (index, load(index)));
        Self(counts.filter(|(_, count)| *count > 0).collect())
    }

    /// How many times were recorded.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |total, (_, count)| total.saturating_add(*count))
    }

    /// The nanoseconds that the given share of the times (0 to 1) does not exceed, to a quarter.
    /// `None`: nothing was recorded.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = self.count() as f64 * share;
        let mut seen = 0_u64;
        let found = self.0.iter().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen as f64 >= wanted
        });
        found
            .or_else(|| self.0.last())
            .map(|(index, _)| begin(index + 1))
    }

    /// From, to (exclusive), nanoseconds, and count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.0
            .iter()
            .map(|(index, count)| (begin(*index), begin(index + 1), *count))
    }

    fn get(&self, index: usize) -> u64 {
        self.0
            .iter()
            .find_map(|(other, count)| (*other == index).then_some(*count))
            .unwrap_or(0)
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
        let shown = quantiles
            .into_iter()
            .filter_map(|(name, share)| Some(format!("{name}={}", self.quantile(share)?)));
        shown.collect::<Vec<_>>().join(" ").fmt(formatter)
    }
}

/// An object: shortest time of each bucket in nanoseconds, and its count.
#[cfg(feature = "serde")]
impl serde::Serialize for Distribution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.buckets().map(|(from, _, count)| (from, count)))
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Distribution {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Keys are text in JSON, and stay text where a document is buffered.
        let counts = std::collections::BTreeMap::<String, u64>::deserialize(deserializer)?;
        let of = |index| counts.get(&begin(index).to_string()).copied().unwrap_or(0);
        Ok(Self::of(of))
    }
}

impl Field for Histogram {
    type Value = Distribution;
    const KIND: FieldKind = FieldKind::Counter;

    fn reset(&self) {
        // Most are 0: a new socket need not have these lines to itself.
        let used = |bucket: &&AtomicU64| bucket.load(Ordering::Relaxed) != 0;
        self.0
            .iter()
            .filter(used)
            .for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    }

    fn copy_from(&self, other: &Self) {
        for (bucket, other) in self.0.iter().zip(&other.0) {
            bucket.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn zero(&self) {
        self.0.iter().for_each(crate::counter::zero_while_counted);
    }

    fn shown(value: &Distribution) -> Value {
        Value::Times(value.clone())
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> Distribution {
        Distribution::of(|index| entry.load_u64(offset.saturating_add(index * size_of::<u64>())))
    }

    fn since(current: &Distribution, earlier: &Distribution) -> Distribution {
        Distribution::of(|index| {
            let (now, before) = (current.get(index), earlier.get(index));
            now.checked_sub(before).unwrap_or(now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        for index in 0..BUCKETS - 1 {
            let (from, to) = (begin(index), begin(index + 1));
            assert!(from < to, "{index}");
            assert_eq!((bucket(from), bucket(to - 1)), (index, index), "{index}");
            assert!(
                index == 0 || (to - from) * 4 <= from,
                "{index}: {from} to {to}"
            );
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_of_the_recorded_times() {
        let histogram = Histogram::default();
        assert_eq!(histogram.value().quantile(0.5), None);
        (0..99).for_each(|_| histogram.record(1000));
        histogram.record(1_000_000);
        let times = histogram.value();
        assert_eq!(times.count(), 100);
        assert_eq!(times.quantile(0.5), Some(1024));
        assert_eq!(times.quantile(0.99), Some(1024));
        assert_eq!(times.quantile(1.0), Some(1 << 20));
        histogram.record(1000);
        let increase = <Histogram as Field>::since(&histogram.value(), &times);
        assert_eq!(increase.buckets().collect::<Vec<_>>(), [(896, 1024, 1)]);
        assert_eq!(
            times.to_string(),
            "p50=1024 p90=1024 p99=1024 p99.9=1048576"
        );
        Field::zero(&histogram);
        assert_eq!(histogram.value().count(), 0);
    }
}
