//! Packets that come by a ring which is not the receiver's own: a device that cannot be told which queue a flow comes by spreads
//! them over all, and who has a ring may do something else than receive.
//!
//! Who receives looks at the other rings without a lock (`RxWatch`), and takes what waits there for long, whoever it is for. What
//! somebody else is about to take is left alone: two threads that receive by two rings do not meet.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use dev_core::RxWatch;
use dev_core::lock::thread_token;

use crate::interface::Interface;
use crate::interface::ring_set::RingSet;
use crate::receiver::{DirectCall, NoCall, Receiver};

/// Polls in vain, of a call that waits, between two looks at the other rings: about a microsecond.
const POLLS_PER_LOOK: u32 = 16;
/// So many polls that have found something count as one in vain: who is kept busy by its own ring looks at the others, too.
const BUSY_POLLS: u32 = 4;
/// Nothing waited at the last look.
const NOTHING: u64 = u64::MAX;

/// What the receivers of a ring know of the others.
#[derive(Debug)]
pub(super) struct ForeignRings {
    /// The thread that polled the ring last as its own; 0: none has.
    poller: AtomicUsize,
    /// Polls since the others were last looked at, see [`POLLS_PER_LOOK`]. It and what follows is written by who receives by this ring;
    /// what two threads lose of each other's makes a look earlier or later.
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
    fn note_poller(&self, thread: usize) {
        if self.poller.load(Ordering::Relaxed) != thread {
            self.poller.store(thread, Ordering::Relaxed);
        }
    }

    /// Whether another thread than this is likely to take what comes.
    fn is_polled_by_other(&self, thread: usize) -> bool {
        let poller = self.poller.load(Ordering::Relaxed);
        poller != 0 && poller != thread
    }

    /// Counts a poll. Whether it is time to look.
    #[inline]
    fn count_poll(&self, found: bool) -> bool {
        let weight = if found { 1 } else { BUSY_POLLS };
        let polls = self.polls.load(Ordering::Relaxed) + weight;
        let is_due = polls >= POLLS_PER_LOOK * BUSY_POLLS;
        let polls = if is_due { 0 } else { polls };
        self.polls.store(polls, Ordering::Relaxed);
        is_due
    }

    /// A packet waits in the ring `other`, at this place. Whether it did at the last look.
    fn waits_still(&self, other: usize, place: u32) -> bool {
        let place = u64::from(place);
        let seen = self.seen.get(other);
        seen.is_some_and(|seen| seen.swap(place, Ordering::Relaxed) == place)
    }

    fn nothing_waits(&self, other: usize) {
        if let Some(seen) = self.seen.get(other)
            && seen.load(Ordering::Relaxed) != NOTHING
        {
            seen.store(NOTHING, Ordering::Relaxed);
        }
    }
}

/// How eagerly other rings are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eagerness {
    /// The call goes on polling: what has waited since the look before.
    Polls,
    /// The call returns: the same, and at once what comes by rings that no other thread polls. A program that has learnt of a packet in
    /// another way and finds nothing, because another thread receives by that ring, sees what it sees where the kernel receives by
    /// two CPUs.
    Returns,
    /// The thread is about to sleep, or was woken by the packet, perhaps: everything that nobody is about to deliver.
    Sleeps,
    /// Everything that has come must have been delivered afterwards.
    MissesNothing,
}

impl<S: Receiver> Interface<S> {
    /// Receives up to a batch by each of the caller's rings, and what others leave. Where there is only one, that is all.
    #[inline]
    pub fn poll_rings<D: DirectCall<S>>(&self, own: RingSet, direct: &mut Option<D>) -> usize {
        if self.receivers.is_one() {
            return self.poll_ring(0, direct);
        }
        self.poll_several(own, Eagerness::Polls, direct)
    }

    /// The same by every ring at once: before a sleep, from which what waits would wake the thread, and where the answer must not wait.
    pub fn poll_all_rings(&self, own: RingSet) -> usize {
        if self.receivers.is_one() {
            return self.poll_ring(0, &mut None::<NoCall>);
        }
        self.poll_several(own, Eagerness::Sleeps, &mut None::<NoCall>)
    }

    /// All that has come so far by the caller's rings, for a call that does not wait, and what others leave.
    pub fn receive_present(&self, own: RingSet) -> usize {
        if self.receivers.is_one() {
            return self.poll_and_drain(0);
        }
        let count = self.receive_own(own, |ring| self.poll_and_drain(ring));
        count + self.look_at_others(own, Eagerness::Returns, &mut None::<NoCall>)
    }

    /// All that has come so far, by any ring.
    pub fn drain(&self) -> usize {
        if self.receivers.is_one() {
            return self.poll_and_drain(0);
        }
        self.look_at_others(RingSet::NONE, Eagerness::MissesNothing, &mut None::<NoCall>)
    }

    fn poll_and_drain(&self, ring: usize) -> usize {
        let count = self.poll_ring(ring, &mut None::<NoCall>);
        if count < self.poll_batch_max {
            return count;
        }
        count + self.drain_ring(ring)
    }

    #[inline(never)]
    fn poll_several<D: DirectCall<S>>(
        &self,
        own: RingSet,
        eagerness: Eagerness,
        direct: &mut Option<D>,
    ) -> usize {
        let count = self.receive_own(own, |ring| self.poll_ring(ring, direct));
        let looks = eagerness != Eagerness::Polls || self.home(own).count_poll(count > 0);
        if !looks {
            return count;
        }
        count + self.look_at_others(own, eagerness, direct)
    }

    fn receive_own(&self, own: RingSet, receive: impl FnMut(usize) -> usize) -> usize {
        let me = thread_token();
        own.iter()
            .inspect(|ring| self.receivers.get(*ring).foreign.note_poller(me))
            .map(receive)
            .sum()
    }

    /// Where those who receive by these rings keep what they know of the others.
    fn home(&self, own: RingSet) -> &ForeignRings {
        let first = own.iter().next().unwrap_or(0);
        &self.receivers.get(first).foreign
    }

    #[inline(never)]
    fn look_at_others<D: DirectCall<S>>(
        &self,
        own: RingSet,
        eagerness: Eagerness,
        direct: &mut Option<D>,
    ) -> usize {
        let (home, me) = (self.home(own), thread_token());
        let mut count = 0;
        for number in (0..self.receivers.count()).filter(|number| !own.contains(*number)) {
            let other = self.receivers.get(number);
            let Some(place) = other.watch.waiting() else {
                home.nothing_waits(number);
                continue;
            };
            let is_left_to_other = match eagerness {
                Eagerness::Polls => !home.waits_still(number, place),
                Eagerness::Returns => {
                    other.foreign.is_polled_by_other(me) && !home.waits_still(number, place)
                }
                Eagerness::Sleeps | Eagerness::MissesNothing => false,
            };
            count += match eagerness {
                _ if is_left_to_other => 0,
                Eagerness::MissesNothing => self.drain_ring(number),
                _ => self.try_drain_ring(number, direct),
            };
        }
        count
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
