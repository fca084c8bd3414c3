//! The types a statistics entry is made of.
//!
//! Every field is an atomic or an array of atomics: any bit pattern is valid and a concurrent read is
//! never undefined. Each knows how to be written by the one writer and how to be read at an offset of
//! another process's segment.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::mapping::EntryView;
use crate::schema::FieldKind;

mod endpoint;
mod histogram;
mod reasons;
mod remark;
mod text;
mod value;
mod versioned;

pub use endpoint::Endpoint;
pub use histogram::{Distribution, Histogram};
pub use reasons::{REASON_CODES, ReasonCounters, ReasonCounts};
pub use remark::Remark;
pub use text::Text;
pub use value::Value;

/// What every field type can do; the schema's macro builds entries and snapshots from it.
pub(crate) trait Field: Default {
    /// The plain value of a snapshot.
    type Value: Clone;

    const KIND: FieldKind;

    /// Back to the value of a fresh entry.
    fn reset(&self);

    /// Takes over the value of another entry's field.
    fn copy_from(&self, other: &Self);

    /// Lets a counter or a peak begin anew, while another thread may count. All else stays.
    fn zero(&self) {}

    /// The value of a snapshot, whatever its type.
    fn shown(value: &Self::Value) -> Value;

    /// Reads the field at `offset` of an entry in another process's segment.
    fn read(entry: &EntryView<'_>, offset: usize) -> Self::Value;

    /// What to show for an interval: the increase of a counter, the present value of all else.
    fn since(current: &Self::Value, _earlier: &Self::Value) -> Self::Value {
        current.clone()
    }
}

/// A number that only grows.
///
/// At most one thread adds at a time (the one that holds the socket or ring), so an addition is a
/// relaxed load and store: no locked instruction on the packet path.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`, wrapping at 2^64. Two threads that add at once lose one of the additions.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(amount),
            Ordering::Relaxed,
        );
    }

    /// Adds `amount` from any thread, at the price of a locked instruction.
    #[inline]
    pub fn add_contended(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A level that rises and falls, with the same single-writer rule as [`Counter`].
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Gauge(AtomicU64);

impl Gauge {
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub fn add(&self, amount: u64) {
        self.set(self.value().saturating_add(amount));
    }

    /// Subtracts, stopping at 0: a level never shows as a huge number.
    #[inline]
    pub fn subtract(&self, amount: u64) {
        self.set(self.value().saturating_sub(amount));
    }

    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The most that a level ever was, with the same single-writer rule as [`Counter`].
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Peak(AtomicU64);

impl Peak {
    /// Keeps the larger of the stored value and `value`.
    #[inline]
    pub fn raise_to(&self, value: u64) {
        if value > self.value() {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Zeroes a word to which another thread adds by load and store. An addition that was between the two brings the old value back:
/// that shows, because no count since then is as large, and the word is zeroed again. Only a thread that loses its CPU between the two
/// brings the old value back unseen; whoever asks again gets rid of it.
fn zero_while_counted(word: &AtomicU64) {
    for _ in 0..ZERO_ATTEMPTS {
        let before = word.load(Ordering::Relaxed);
        if before == 0 {
            return;
        }
        word.store(0, Ordering::Relaxed);
        for _ in 0..ZERO_PAUSE {
            std::hint::spin_loop();
        }
        if word.load(Ordering::Relaxed) < before {
            return;
        }
    }
}

/// How often a word is zeroed that other threads bring back.
const ZERO_ATTEMPTS: u32 = 8;
/// About a microsecond: an addition takes less.
const ZERO_PAUSE: u32 = 32;

/// A 32-bit identity value: a code, an id, a count.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Number(AtomicU32);

impl Number {
    #[inline]
    pub fn set(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Stores `value` if it differs. For values that are known again with every packet: the cache line
    /// stays shared as long as nothing changes.
    #[inline]
    pub fn note(&self, value: u32) {
        if value != self.value() {
            self.set(value);
        }
    }

    #[inline]
    pub fn value(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores after everything that this thread stored before.
    pub(crate) fn publish(&self, value: u32) {
        self.0.store(value, Ordering::Release);
    }
}

/// A 64-bit identity value.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LargeNumber(AtomicU64);

impl LargeNumber {
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Yes or no. Any value other than 0 reads as yes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Flag(Number);

impl Flag {
    #[inline]
    pub fn set(&self, value: bool) {
        self.0.set(u32::from(value));
    }

    #[inline]
    pub fn value(&self) -> bool {
        self.0.value() != 0
    }

    pub(crate) fn publish(&self, value: bool) {
        self.0.publish(u32::from(value));
    }
}

/// A file descriptor number; -1 until it is set.
#[derive(Debug)]
#[repr(transparent)]
pub struct Descriptor(AtomicI32);

impl Descriptor {
    pub fn set(&self, fd: i32) {
        self.0.store(fd, Ordering::Relaxed);
    }

    pub fn value(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Descriptor {
    fn default() -> Self {
        Self(AtomicI32::new(-1))
    }
}

impl Field for Counter {
    type Value = u64;
    const KIND: FieldKind = FieldKind::Counter;

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn copy_from(&self, other: &Self) {
        self.0.store(other.value(), Ordering::Relaxed);
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> u64 {
        entry.load_u64(offset)
    }

    fn zero(&self) {
        zero_while_counted(&self.0);
    }

    fn shown(value: &u64) -> Value {
        Value::Unsigned(*value)
    }

    /// A counter that was zeroed meanwhile has counted what it shows.
    fn since(current: &u64, earlier: &u64) -> u64 {
        current.checked_sub(*earlier).unwrap_or(*current)
    }
}

impl Field for Peak {
    type Value = u64;
    const KIND: FieldKind = FieldKind::Peak;

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn copy_from(&self, other: &Self) {
        self.0.store(other.value(), Ordering::Relaxed);
    }

    fn zero(&self) {
        zero_while_counted(&self.0);
    }

    fn shown(value: &u64) -> Value {
        Value::Unsigned(*value)
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> u64 {
        entry.load_u64(offset)
    }
}

impl Field for Gauge {
    type Value = u64;
    const KIND: FieldKind = FieldKind::Gauge;

    fn reset(&self) {
        self.set(0);
    }

    fn copy_from(&self, other: &Self) {
        self.set(other.value());
    }

    fn shown(value: &u64) -> Value {
        Value::Unsigned(*value)
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> u64 {
        entry.load_u64(offset)
    }
}

impl Field for Number {
    type Value = u32;
    const KIND: FieldKind = FieldKind::Identity;

    fn reset(&self) {
        self.set(0);
    }

    fn copy_from(&self, other: &Self) {
        self.set(other.value());
    }

    fn shown(value: &u32) -> Value {
        Value::Unsigned(u64::from(*value))
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> u32 {
        entry.load_u32(offset)
    }
}

impl Field for LargeNumber {
    type Value = u64;
    const KIND: FieldKind = FieldKind::Identity;

    fn reset(&self) {
        self.set(0);
    }

    fn copy_from(&self, other: &Self) {
        self.set(other.value());
    }

    fn shown(value: &u64) -> Value {
        Value::Unsigned(*value)
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> u64 {
        entry.load_u64(offset)
    }
}

impl Field for Flag {
    type Value = bool;
    const KIND: FieldKind = FieldKind::Identity;

    fn reset(&self) {
        self.set(false);
    }

    fn copy_from(&self, other: &Self) {
        self.set(other.value());
    }

    fn shown(value: &bool) -> Value {
        Value::Flag(*value)
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> bool {
        entry.load_u32(offset) != 0
    }
}

impl Field for Descriptor {
    type Value = i32;
    const KIND: FieldKind = FieldKind::Identity;

    fn reset(&self) {
        self.set(-1);
    }

    fn copy_from(&self, other: &Self) {
        self.set(other.value());
    }

    fn shown(value: &i32) -> Value {
        Value::Signed(i64::from(*value))
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> i32 {
        entry.load_u32(offset).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_add_wraps() {
        let counter = Counter::default();
        counter.add(u64::MAX);
        counter.add(3);
        assert_eq!(counter.value(), 2);
        counter.add_contended(5);
        assert_eq!(counter.value(), 7);
    }

    #[test]
    fn difference_of_a_counter_that_was_zeroed_is_what_it_shows() {
        assert_eq!(<Counter as Field>::since(&9, &4), 5);
        assert_eq!(<Counter as Field>::since(&2, &4), 2);
    }

    #[test]
    fn counter_is_zeroed_while_another_thread_counts() {
        let counter = Counter::default();
        let counting = std::sync::atomic::AtomicBool::new(true);
        counter.add(1 << 40);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while counting.load(Ordering::Relaxed) {
                    counter.add(1);
                }
            });
            // The other thread may lose its CPU at the wrong moment, but not every time.
            let zeroed = (0..100).any(|_| {
                Field::zero(&counter);
                std::thread::sleep(std::time::Duration::from_millis(1));
                counter.value() < 1 << 40
            });
            counting.store(false, Ordering::Relaxed);
            assert!(zeroed, "{}", counter.value());
        });
    }

    #[test]
    fn gauge_never_goes_below_zero_and_a_peak_keeps_the_most() {
        let level = Gauge::default();
        level.add(3);
        level.subtract(5);
        assert_eq!(level.value(), 0);
        let peak = Peak::default();
        peak.raise_to(9);
        peak.raise_to(4);
        assert_eq!(peak.value(), 9);
        Field::zero(&peak);
        assert_eq!(peak.value(), 0);
    }

    #[test]
    fn identity_fields_start_empty() {
        assert_eq!(Descriptor::default().value(), -1);
        assert!(!Flag::default().value());
        assert_eq!(Number::default().value(), 0);
    }
}
