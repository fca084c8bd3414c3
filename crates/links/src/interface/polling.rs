//! Receiving by some of an interface's rings, and what others leave in theirs.

use dev_core::RxWatch;
use dev_core::lock::thread_token;

use crate::interface::Interface;
use crate::interface::foreign_rings::ForeignRings;
use crate::interface::ring_set::RingSet;
use crate::receiver::{DirectCall, NoCall, Receiver};

/// How eagerly other rings are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eagerness {
    /// The call goes on polling: what has waited since the look before.
    Polls,
    /// The call returns: the same, and at once what comes by rings that no other thread polls. A
    /// program that has learnt of a packet in another way and finds nothing, because another thread
    /// receives by that ring, sees what it sees where the kernel receives by two CPUs.
    Returns,
    /// The thread is about to sleep, or was woken by the packet, perhaps: everything that nobody is
    /// about to deliver.
    Sleeps,
    /// Everything that has come must have been delivered afterwards.
    MissesNothing,
}

impl<S: Receiver> Interface<S> {
    /// Receives up to a batch by each of the caller's rings, and what others leave. Where there is
    /// only one, that is all.
    #[inline]
    pub fn poll_rings<D: DirectCall<S>>(&self, own: RingSet, direct: &mut Option<D>) -> usize {
        if self.receivers.is_one() {
            return self.poll_ring(0, direct);
        }
        self.poll_several(own, Eagerness::Polls, direct)
    }

    /// The same by every ring at once: before a sleep, from which what waits would wake the thread,
    /// and where the answer must not wait.
    pub fn poll_all_rings(&self, own: RingSet) -> usize {
        if self.receivers.is_one() {
            return self.poll_ring(0, &mut None::<NoCall>);
        }
        self.poll_several(own, Eagerness::Sleeps, &mut None::<NoCall>)
    }

    /// All that has come so far by the caller's rings, for a call that does not wait, and what
    /// others leave.
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
