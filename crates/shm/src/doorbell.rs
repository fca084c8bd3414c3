//! Which connections of a process have news, and whether somebody of it sleeps until there are
//! some: for each pair of processes and each of the two.
//!
//! Whoever looks reads one line of the cache, however many connections there are. Whoever has news
//! pays a fence and a load while the last news of the same connection are unread.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Bits of a word.
const BITS: u32 = 64;
/// Words: one bit for each slot of an arena.
const WORDS: usize = 16;

/// News for one of two processes, in shared memory. All zero is its beginning.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Doorbell {
    /// Somebody sleeps.
    sleeping: AtomicU32,
    /// Which of the words are not zero.
    summary: AtomicU32,
    words: [AtomicU64; WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Doorbell>() == 192);

impl Doorbell {
    /// Slots that it has.
    pub const SLOTS: u32 = WORDS as u32 * BITS;

    #[cfg(any(loom, test))]
    pub(crate) fn new() -> Self {
        Self {
            sleeping: AtomicU32::new(0),
            summary: AtomicU32::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// There is news in a slot, written before. Returns whether a sleeper is to be woken.
    #[inline]
    pub fn ring(&self, slot: u32) -> bool {
        let index = (slot / BITS) as usize % WORDS;
        let (bit, word_bit) = (1u64 << (slot % BITS), 1u32 << index);
        fence(Ordering::SeqCst);
        if self.words[index].load(Ordering::Relaxed) & bit == 0 {
            self.words[index].fetch_or(bit, Ordering::SeqCst);
            self.summary.fetch_or(word_bit, Ordering::SeqCst);
        }
        self.sleeping.load(Ordering::SeqCst) != 0 && self.sleeping.swap(0, Ordering::SeqCst) != 0
    }

    /// Whether there may be news.
    #[inline]
    pub fn has_rung(&self) -> bool {
        self.summary.load(Ordering::Acquire) != 0
    }

    /// Takes the news: calls `tell` with the number of each slot.
    pub fn take(&self, mut tell: impl FnMut(u32)) {
        let mut summary = self.summary.swap(0, Ordering::SeqCst);
        while summary != 0 {
            let index = summary.trailing_zeros();
            summary &= summary - 1;
            let Some(word) = self.words.get(index as usize) else {
                continue;
            };
            let mut bits = word.swap(0, Ordering::SeqCst);
            // Who has found its bit set has written before.
            fence(Ordering::SeqCst);
            while bits != 0 {
                tell(index * BITS + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }

    /// Somebody is about to sleep, and looks once more after this.
    pub fn sleeps(&self) {
        self.sleeping.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn news_are_told_once() {
        let doorbell = Doorbell::new();
        assert!(!doorbell.has_rung());
        for slot in [5, 5, 700, 1023] {
            assert!(!doorbell.ring(slot), "nobody sleeps");
        }
        assert!(doorbell.has_rung());
        let mut told = Vec::new();
        doorbell.take(|slot| told.push(slot));
        assert_eq!(told, [5, 700, 1023]);
        doorbell.take(|slot| panic!("{slot} was told"));
        assert!(!doorbell.has_rung());
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let doorbell = Doorbell::new();
        doorbell.sleeps();
        assert!(doorbell.ring(1) && !doorbell.ring(2));
        doorbell.sleeps();
        assert!(doorbell.ring(1), "news that were not taken yet");
    }

    #[test]
    fn a_number_out_of_range_touches_no_other_memory() {
        let doorbell = Doorbell::new();
        assert!(!doorbell.ring(u32::MAX));
        doorbell.take(|slot| assert_eq!(slot, 1023));
    }
}
