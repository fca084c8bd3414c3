//! Counters by reason code.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::field::value::Value;
use crate::field::{Field, FieldKind};
use crate::mapping::EntryView;

/// Codes that are counted apart, 0 up to this number, exclusive. What has a higher one is counted
/// with the highest of these.
pub const REASON_CODES: u32 = 64;

const SIZE: usize = REASON_CODES as usize;

/// A counter for each reason code.
#[derive(Debug)]
#[repr(transparent)]
pub struct ReasonCounters([AtomicU64; SIZE]);

impl ReasonCounters {
    /// Counts one, from any thread.
    #[inline]
    pub fn count(&self, code: u32) {
        let index = (code as usize).min(SIZE - 1);
        if let Some(counter) = self.0.get(index) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    pub fn value(&self) -> ReasonCounts {
        ReasonCounts::of(|code| {
            self.0
                .get(code as usize)
                .map_or(0, |counter| counter.load(Ordering::Relaxed))
        })
    }
}

impl Default for ReasonCounters {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// What [`ReasonCounters`] held at one moment: codes and their counts, in the order of the codes,
/// without those that are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasonCounts(Vec<(u32, u64)>);

impl ReasonCounts {
    fn of(load: impl Fn(u32) -> u64) -> Self {
        let counts = (0..REASON_CODES).map(|code| (code, load(code)));
        Self(counts.filter(|(_, count)| *count > 0).collect())
    }

    /// Codes and counts.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.0.iter().copied()
    }

    /// The count of one code.
    pub fn get(&self, code: u32) -> u64 {
        self.iter()
            .find_map(|(other, count)| (other == code).then_some(count))
            .unwrap_or(0)
    }

    /// Of all codes.
    pub fn total(&self) -> u64 {
        self.iter()
            .fold(0, |total, (_, count)| total.wrapping_add(count))
    }
}

/// An object whose keys are the codes.
#[cfg(feature = "serde")]
impl serde::Serialize for ReasonCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for ReasonCounts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Keys are text in JSON, and stay text where a document is buffered.
        let counts = std::collections::BTreeMap::<String, u64>::deserialize(deserializer)?;
        let count = |(code, count): (String, u64)| Some((code.parse().ok()?, count));
        let mut counts: Vec<(u32, u64)> = counts.into_iter().filter_map(count).collect();
        counts.sort_unstable();
        Ok(Self(counts))
    }
}

impl Field for ReasonCounters {
    type Value = ReasonCounts;
    const KIND: FieldKind = FieldKind::Counter;

    fn reset(&self) {
        // Most are 0: a new socket need not have these lines to itself.
        let used = |counter: &&AtomicU64| counter.load(Ordering::Relaxed) != 0;
        self.0
            .iter()
            .filter(used)
            .for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    fn copy_from(&self, other: &Self) {
        for (counter, other) in self.0.iter().zip(&other.0) {
            counter.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn zero(&self) {
        // Counted by locked additions: nothing brings an old value back.
        self.reset();
    }

    fn shown(value: &ReasonCounts) -> Value {
        Value::Reasons(value.clone())
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> ReasonCounts {
        let place = |code: u32| offset.saturating_add(code as usize * size_of::<u64>());
        ReasonCounts::of(|code| entry.load_u64(place(code)))
    }

    fn since(current: &ReasonCounts, earlier: &ReasonCounts) -> ReasonCounts {
        let increase = |code| {
            let (now, before) = (current.get(code), earlier.get(code));
            now.checked_sub(before).unwrap_or(now)
        };
        ReasonCounts::of(increase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_by_code() {
        let counters = ReasonCounters::default();
        for code in [18, 0, 18, 63, 64, u32::MAX] {
            counters.count(code);
        }
        let counts = counters.value();
        assert_eq!(
            counts.iter().collect::<Vec<_>>(),
            [(0, 1), (18, 2), (63, 3)]
        );
        assert_eq!((counts.get(18), counts.get(1), counts.total()), (2, 0, 6));
        counters.count(1);
        counters.count(18);
        let increase = <ReasonCounters as Field>::since(&counters.value(), &counts);
        assert_eq!(increase.iter().collect::<Vec<_>>(), [(1, 1), (18, 1)]);
        let copy = ReasonCounters::default();
        copy.copy_from(&counters);
        assert_eq!(copy.value(), counters.value());
        counters.reset();
        assert_eq!(counters.value(), ReasonCounts::default());
    }
}
