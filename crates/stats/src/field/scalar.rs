//! Fields of one number.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::counter::{Counter, Gauge, Peak};
use crate::field::value::Value;
use crate::field::{Field, FieldKind};
use crate::mapping::EntryView;

/// A 32-bit identity value: a code, an id, a count.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Number(AtomicU32);

impl Number {
    #[inline]
    pub fn set(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Stores `value` if it differs. For values that are known again with every packet: the cache
    /// line stays shared as long as nothing changes.
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
        self.begin_at(0);
    }

    fn copy_from(&self, other: &Self) {
        self.begin_at(other.value());
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> u64 {
        entry.load_u64(offset)
    }

    fn zero(&self) {
        self.begin_anew();
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
        self.begin_at(0);
    }

    fn copy_from(&self, other: &Self) {
        self.begin_at(other.value());
    }

    fn zero(&self) {
        self.begin_anew();
    }

    fn shown(value: &u64) -> Value {
        Value::Unsigned(*value)
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> u64 {
        entry.load_u64(offset)
    }
}

/// A field that its writer sets, with what it is at first, how it is shown and how it is read.
macro_rules! field_that_is_set {
    ($field:ident, $value:ty, $kind:ident, $first:expr, $shown:expr, $read:expr) => {
        impl Field for $field {
            type Value = $value;
            const KIND: FieldKind = FieldKind::$kind;

            fn reset(&self) {
                self.set($first);
            }

            fn copy_from(&self, other: &Self) {
                self.set(other.value());
            }

            fn shown(value: &$value) -> Value {
                $shown(*value)
            }

            fn read(entry: &EntryView<'_>, offset: usize) -> $value {
                $read(entry, offset)
            }
        }
    };
}

field_that_is_set!(Gauge, u64, Gauge, 0, Value::Unsigned, EntryView::load_u64);
field_that_is_set!(
    Number,
    u32,
    Identity,
    0,
    |value| Value::Unsigned(u64::from(value)),
    EntryView::load_u32
);
field_that_is_set!(
    LargeNumber,
    u64,
    Identity,
    0,
    Value::Unsigned,
    EntryView::load_u64
);
field_that_is_set!(
    Flag,
    bool,
    Identity,
    false,
    Value::Flag,
    |entry: &EntryView<'_>, offset| { entry.load_u32(offset) != 0 }
);
field_that_is_set!(
    Descriptor,
    i32,
    Identity,
    -1,
    |value| Value::Signed(i64::from(value)),
    |entry: &EntryView<'_>, offset| { entry.load_u32(offset).cast_signed() }
);

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
