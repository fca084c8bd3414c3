//! Which share of an entry's counters belongs to which thread. `models/src/shares_model.rs` tries
//! every order.
//!
//! Threads that poll at once would take one cache line from each other with every count. So each of
//! the first few threads has a line of its own, and readers add the lines up. Who has which is kept
//! in the process's own memory.

use crate::counter::Counter;
use crate::sync::{AtomicUsize, Ordering};

/// How many shares each counter of an entry has that several threads count at once: the first is
/// everybody's, the others are of one thread each.
pub const SHARES: usize = if cfg!(loom) { 2 } else { 9 };

/// Threads with shares of their own.
const OWNERS: usize = SHARES - 1;

/// The threads that have shares of one entry's counters. A thread keeps its share: the next one
/// with its token gets it.
#[derive(Debug)]
pub struct Shares {
    /// Tokens of threads, or 0.
    owners: [AtomicUsize; OWNERS],
}

/// The share of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: usize,
    is_new: bool,
}

impl Shares {
    pub fn new() -> Self {
        Self {
            owners: std::array::from_fn(|_| AtomicUsize::new(0)),
        }
    }

    /// Nobody has a share from here on. For an entry that nobody counts in any more.
    pub fn clear(&self) {
        for owner in &self.owners {
            owner.store(0, Ordering::Relaxed);
        }
    }

    /// The share of the thread that `token` stands for, which no other live thread has and which is
    /// not 0. Where all are taken, everybody's.
    #[inline]
    pub fn of_thread(&self, token: usize) -> Share {
        let first = first_place(token);
        for step in 0..OWNERS {
            let place = (first + step) % OWNERS;
            let Some(owner) = self.owners.get(place) else {
                break;
            };
            let index = place + 1;
            let known = owner.load(Ordering::Relaxed);
            if known == token {
                return Share {
                    index,
                    is_new: false,
                };
            }
            if known == 0
                && owner
                    .compare_exchange(0, token, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                return Share {
                    index,
                    is_new: true,
                };
            }
        }
        Share {
            index: 0,
            is_new: false,
        }
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self::new()
    }
}

impl Share {
    /// Where it is in the entry.
    #[inline]
    pub fn index(self) -> usize {
        self.index
    }

    /// Whether the thread has it for the first time.
    #[inline]
    pub fn is_new(self) -> bool {
        self.is_new
    }

    /// Counts, with a locked instruction only where other threads count, too.
    #[inline]
    pub fn add(self, counter: &Counter, amount: u64) {
        if self.index == 0 {
            counter.add_contended(amount);
        } else {
            counter.add(amount);
        }
    }
}

/// Where the search for a thread's share begins. Tokens are addresses, most of them a stack's size
/// apart.
fn first_place(token: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (token as u64).wrapping_mul(GOLDEN) >> 32;
    usize::try_from(mixed).unwrap_or(0) % OWNERS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_share_and_the_rest_have_one_together() {
        let shares = Shares::new();
        let tokens = || (1..=OWNERS).map(|thread| 0x7f00_0000_0000 + thread * 0x80_1000);
        let first: Vec<_> = tokens().map(|token| shares.of_thread(token)).collect();
        let mut places: Vec<_> = first.iter().map(|share| share.index()).collect();
        places.sort_unstable();
        assert_eq!(places, (1..SHARES).collect::<Vec<_>>());
        assert!(first.iter().all(|share| share.is_new()));
        for (token, first) in tokens().zip(&first) {
            let again = shares.of_thread(token);
            assert_eq!((again.index(), again.is_new()), (first.index(), false));
        }
        assert_eq!(shares.of_thread(0x1234).index(), 0);
        shares.clear();
        assert!(shares.of_thread(0x1234).is_new());
    }
}
