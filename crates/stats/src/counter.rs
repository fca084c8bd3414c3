//! Numbers that change: counters, levels, and the most that a level was.
//! `models/src/counter_model.rs` tries every order.

use crate::sync::{AtomicU64, Ordering, spin_loop};

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

    /// Begins at `value`, before others see it.
    pub(crate) fn begin_at(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Begins anew while another thread may count.
    pub(crate) fn begin_anew(&self) {
        zero_while_counted(&self.0);
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

    /// Begins at `value`, before others see it.
    pub(crate) fn begin_at(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Begins anew while another thread may raise it.
    pub(crate) fn begin_anew(&self) {
        zero_while_counted(&self.0);
    }
}

/// Zeroes a word to which another thread adds by load and store. An addition that was between the
/// two brings the old value back: that shows, because no count since then is as large, and the word
/// is zeroed again. Only a thread that loses its CPU between the two brings the old value back
/// unseen; whoever asks again gets rid of it.
pub(crate) fn zero_while_counted(word: &AtomicU64) {
    for _ in 0..ZERO_ATTEMPTS {
        let before = word.load(Ordering::Relaxed);
        if before == 0 {
            return;
        }
        word.store(0, Ordering::Relaxed);
        for _ in 0..ZERO_PAUSE {
            spin_loop();
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
