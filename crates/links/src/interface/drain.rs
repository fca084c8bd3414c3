//! Taking in all that has come: before something changes, and by rings that nobody polls, before
//! they are full, although the program does something else.

use std::sync::atomic::Ordering;

use dev_core::{Backend, ShardGuard};

use crate::interface::Interface;
use crate::interface::receive_ring::{ReceiveRing, RxSide, Tables};
use crate::receiver::{DirectCall, NoCall, Receiver};
use crate::wait::WakesLater;

impl<S: Receiver> Interface<S> {
    /// Receives what has come by a ring so far if nobody else is about it.
    pub(super) fn try_drain_ring<D: DirectCall<S>>(
        &self,
        number: usize,
        direct: &mut Option<D>,
    ) -> usize {
        let _wakes = WakesLater::begin();
        let Some(mut guard) = self.rx.try_lock(number) else {
            return 0;
        };
        let count = self.drain_locked(&mut guard, number, direct);
        drop(guard);
        self.end_batch();
        self.start_replies();
        count
    }

    /// Receives and delivers all that has come by a ring so far. Returns the number of frames.
    #[cold]
    pub(super) fn drain_ring(&self, number: usize) -> usize {
        if self.condition.has_kick_pending() {
            self.kick_again_if_pending();
        }
        let _wakes = WakesLater::begin();
        let mut guard = self.rx.lock(number);
        let count = self.drain_locked(&mut guard, number, &mut None::<NoCall>);
        drop(guard);
        self.end_batch();
        self.start_replies();
        count
    }

    /// Receives what has come by a ring so far.
    #[inline(always)]
    fn drain_locked<D: DirectCall<S>>(
        &self,
        guard: &mut ShardGuard<'_, Tables<S>, RxSide<S::Backend>>,
        number: usize,
        direct: &mut Option<D>,
    ) -> usize {
        if self.condition.is_recorded() {
            return self.receive_recorded::<false>(guard, number);
        }
        let (tables, side) = guard.both();
        self.receive::<false, false, _>(tables, side, number, direct)
    }

    /// Takes in what has come by each ring, unless a call of the program has received by it since
    /// this was last called; a packet more than `max` is left if it comes after a batch. Returns
    /// whether anybody has received.
    pub fn drain_unpolled(&self, max: usize) -> bool {
        let rings = 0..self.receivers.count();
        rings.filter(|ring| self.take_from(*ring, max)).count() > 0
    }

    fn take_from(&self, number: usize, max: usize) -> bool {
        let ring = self.receivers.get(number);
        let received = ring.stats.rx_packets.value();
        if ring.received_before.swap(received, Ordering::Relaxed) != received {
            return true;
        }
        // The lock is the program's as long as there is nothing to do.
        if self.is_lost() || !has_waiting(ring) {
            return false;
        }
        let mut count = 0;
        while count < max {
            match self.poll_ring(number, &mut None::<NoCall>) {
                0 => break,
                batch => count += batch,
            }
        }
        let received = ring.stats.rx_packets.value();
        ring.received_before.store(received, Ordering::Relaxed);
        count > 0
    }
}

fn has_waiting<B: Backend>(ring: &ReceiveRing<B>) -> bool {
    ring.wait_fds()
        .any(|fd| sys::poll_one(fd, libc::POLLIN).is_ok_and(|ready| ready & libc::POLLIN != 0))
}
