//! Packets that come by a ring which is not the receiver's own: a device that cannot be told which
//! queue a flow comes by spreads them over all, and who has a ring may do something else than
//! receive.
//!
//! Who receives looks at the other rings without a lock (`RxWatch`), and takes what waits there for
//! long, whoever it is for. What somebody else is about to take is left alone: two threads that
//! receive by two rings do not meet.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Polls in vain, of a call that waits, between two looks at the other rings: about a microsecond.
const POLLS_PER_LOOK: u32 = 16;
/// So many polls that have found something count as one in vain: who is kept busy by its own ring
/// looks at the others, too.
const BUSY_POLLS: u32 = 4;
/// Nothing waited at the last look.
const NOTHING: u64 = u64::MAX;

/// What the receivers of a ring know of the others.
#[derive(Debug)]
pub(super) struct ForeignRings {
    /// The thread that polled the ring last as its own; 0: none has.
    poller: AtomicUsize,
    /// Polls since the others were last looked at, see [`POLLS_PER_LOOK`]. It and what follows is
    /// written by who receives by this ring; what two threads lose of each other's makes a look
    /// earlier or later.
    polls: AtomicU32,
    /// Of each ring of the interface, where its oldest packet waited at the last look.
    seen: Box<[AtomicU64]>,
}

impl ForeignRings {
    /// Of one of so many rings.
    pub(super) fn new(rings: usize) -> Self {
        Self {
            poller: AtomicUsize::new(0),
            polls: AtomicU32::new(0),
            seen: (0..rings).map(|_| AtomicU64::new(NOTHING)).collect(),
        }
    }

    #[inline]
    pub(super) fn note_poller(&self, thread: usize) {
        if self.poller.load(Ordering::Relaxed) != thread {
            self.poller.store(thread, Ordering::Relaxed);
        }
    }

    /// Whether another thread than this is likely to take what comes.
    pub(super) fn is_polled_by_other(&self, thread: usize) -> bool {
        let poller = self.poller.load(Ordering::Relaxed);
        poller != 0 && poller != thread
    }

    /// Counts a poll. Whether it is time to look.
    #[inline]
    pub(super) fn count_poll(&self, found: bool) -> bool {
        let weight = if found { 1 } else { BUSY_POLLS };
        let polls = self.polls.load(Ordering::Relaxed) + weight;
        let is_due = polls >= POLLS_PER_LOOK * BUSY_POLLS;
        let polls = if is_due { 0 } else { polls };
        self.polls.store(polls, Ordering::Relaxed);
        is_due
    }

    /// A packet waits in the ring `other`, at this place. Whether it did at the last look.
    pub(super) fn waits_still(&self, other: usize, place: u32) -> bool {
        let place = u64::from(place);
        let seen = self.seen.get(other);
        seen.is_some_and(|seen| seen.swap(place, Ordering::Relaxed) == place)
    }

    pub(super) fn nothing_waits(&self, other: usize) {
        if let Some(seen) = self.seen.get(other)
            && seen.load(Ordering::Relaxed) != NOTHING
        {
            seen.store(NOTHING, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_looked_at_now_and_then() {
        let others = ForeignRings::new(2);
        let until_due = |found| (1..).find(|_| others.count_poll(found)).unwrap();
        assert_eq!(until_due(false), POLLS_PER_LOOK);
        assert_eq!(until_due(true), POLLS_PER_LOOK * BUSY_POLLS);
        assert_eq!(until_due(false), POLLS_PER_LOOK);
    }

    #[test]
    fn what_moves_is_left_to_who_moves_it() {
        let others = ForeignRings::new(3);
        assert!(!others.waits_still(1, 0));
        assert!(others.waits_still(1, 0), "nobody took it");
        assert!(!others.waits_still(1, 1));
        assert!(!others.waits_still(2, 1), "each ring by itself");
        others.nothing_waits(1);
        assert!(!others.waits_still(1, 1));
        assert!(!others.waits_still(3, 1) && !others.waits_still(3, 1));
    }

    #[test]
    fn a_ring_that_nobody_polls_is_everybodys() {
        let others = ForeignRings::new(2);
        assert!(!others.is_polled_by_other(7));
        others.note_poller(7);
        assert!(!others.is_polled_by_other(7) && others.is_polled_by_other(8));
    }
}
