//! Which entries of a section are taken.
//!
//! Kept in the process's own memory: the answer must not depend on what others do to the segment,
//! and a search touches one word per 64 entries instead of one cache line per entry.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of indices that are handed out, lowest first, without a lock.
#[derive(Debug)]
pub(crate) struct Leases {
    words: Box<[AtomicU64]>,
    entries: u32,
}

impl Leases {
    pub(crate) fn new(entries: u32) -> Self {
        let words = (0..entries.div_ceil(64))
            .map(|_| AtomicU64::new(0))
            .collect();
        Self { words, entries }
    }

    /// Takes the lowest free index. What its last holder stored is visible to the caller.
    pub(crate) fn take(&self) -> Option<u32> {
        for (base, word) in (0_u32..).step_by(64).zip(&self.words) {
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = taken.trailing_ones();
                if base + bit >= self.entries {
                    return None;
                }
                let wanted = taken | (1 << bit);
                match word.compare_exchange_weak(
                    taken,
                    wanted,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return Some(base + bit),
                    Err(current) => taken = current,
                }
            }
        }
        None
    }

    pub(crate) fn give_back(&self, index: u32) {
        if let Some(word) = self.words.get(index as usize / 64) {
            let bit = 1 << (index % 64);
            let before = word.fetch_and(!bit, Ordering::Release);
            debug_assert!(before & bit != 0, "entry {index} was not taken");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_lowest_first_and_bounded() {
        let leases = Leases::new(66);
        let all: Vec<_> = std::iter::from_fn(|| leases.take()).collect();
        assert_eq!(all, (0..66).collect::<Vec<_>>());
        leases.give_back(65);
        leases.give_back(3);
        assert_eq!(leases.take(), Some(3));
        assert_eq!(leases.take(), Some(65));
        assert_eq!(leases.take(), None);
        assert_eq!(Leases::new(0).take(), None);
    }

    #[test]
    fn leases_full_last_word_ends_the_search() {
        let leases = Leases::new(64);
        assert_eq!(std::iter::from_fn(|| leases.take()).count(), 64);
    }

    #[test]
    fn leases_no_index_has_two_holders() {
        let leases = Leases::new(70);
        let holders: Vec<_> = (0..70)
            .map(|_| std::sync::atomic::AtomicBool::new(false))
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let mine: Vec<_> = (0..20).filter_map(|_| leases.take()).collect();
                        for index in &mine {
                            let was = holders[*index as usize].swap(true, Ordering::Relaxed);
                            assert!(!was, "entry {index} is held twice");
                        }
                        for index in mine {
                            holders[index as usize].store(false, Ordering::Relaxed);
                            leases.give_back(index);
                        }
                    }
                });
            }
        });
    }
}
