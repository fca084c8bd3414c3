//! Recording an interface's packets while somebody asks for them, and what else is rarely so: the
//! data path looks at one octet for all of it, which it looked at before there was recording.

use std::iter;
use std::sync::atomic::{AtomicU8, Ordering};

use dev_core::ShardGuard;
use stats::{CaptureRing, Direction};

use crate::interface::Interface;
use crate::interface::receive_ring::{RxSide, Tables};
use crate::interface::sending::Sender;
use crate::receiver::{NoCall, Receiver};
use crate::wait::WakesLater;

/// The device was given up.
const LOST: u8 = 1;
/// Frames are in a sending ring, perhaps, that the device did not take at the last kick.
const KICK_PENDING: u8 = 2;
/// Packets are recorded.
const RECORDED: u8 = 4;

/// Whether anything is as it rarely is.
#[derive(Debug, Default)]
pub(super) struct Condition(AtomicU8);

impl Condition {
    #[inline]
    fn has(&self, bits: u8) -> bool {
        self.0.load(Ordering::Relaxed) & bits != 0
    }

    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.has(LOST)
    }

    /// Whether a packet cannot just be sent.
    #[inline]
    pub(super) fn concerns_senders(&self) -> bool {
        self.has(LOST | RECORDED)
    }

    /// Whether there is something to do before, or while, packets are received.
    #[inline]
    pub(super) fn concerns_receivers(&self) -> bool {
        self.has(LOST | KICK_PENDING | RECORDED)
    }

    #[inline]
    pub(super) fn is_recorded(&self) -> bool {
        self.has(RECORDED)
    }

    pub(super) fn has_kick_pending(&self) -> bool {
        self.has(KICK_PENDING)
    }

    /// Returns whether the device was given up before.
    pub(super) fn lose(&self) -> bool {
        self.0.fetch_or(LOST, Ordering::Relaxed) & LOST != 0
    }

    pub(super) fn set_kick_pending(&self, is_pending: bool) {
        self.set(KICK_PENDING, is_pending);
    }

    fn set(&self, bit: u8, is_set: bool) {
        if is_set {
            self.0.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

impl<S: Receiver> Interface<S> {
    /// Has each packet recorded from here on.
    pub fn record_in(&self, ring: &'static CaptureRing) {
        self.recorder.get_or_init(|| ring);
        self.condition.set(RECORDED, true);
    }

    /// Has none recorded from here on.
    pub fn end_recording(&self) {
        self.condition.set(RECORDED, false);
    }

    /// Records a packet if packets are recorded.
    pub(super) fn record(&self, direction: Direction, packet: &[u8]) {
        self.record_parts(direction, packet.len(), iter::once(packet));
    }

    /// The same of one whose `len` octets stand at several places.
    pub(super) fn record_parts<'a>(
        &self,
        direction: Direction,
        len: usize,
        parts: impl Iterator<Item = &'a [u8]>,
    ) {
        if self.condition.is_recorded()
            && let Some(ring) = self.recorder.get()
        {
            ring.record(direction, self.spec.index, len, parts);
        }
    }

    /// Does what rarely is to be done before packets are received. Returns whether these are to be
    /// recorded.
    #[cold]
    #[inline(never)]
    pub(super) fn look_before_receiving(&self) -> bool {
        if self.condition.has_kick_pending() {
            self.kick_again_if_pending();
        }
        self.condition.is_recorded()
    }

    /// Receives up to a batch by a ring, and records it.
    #[cold]
    #[inline(never)]
    pub(super) fn poll_recorded(&self, number: usize) -> usize {
        let _wakes = WakesLater::begin();
        let mut guard = self.rx.lock(number);
        let count = self.receive_recorded::<true>(&mut guard, number);
        drop(guard);
        self.end_batch();
        self.start_replies();
        count
    }

    /// Everything goes by the sockets' queues, also what a call waits for: there is one copy of
    /// this code for all kinds of calls, so that the copies of the others are as they would be
    /// without it.
    #[cold]
    #[inline(never)]
    pub(super) fn receive_recorded<const BATCH: bool>(
        &self,
        guard: &mut ShardGuard<'_, Tables<S>, RxSide<S::Backend>>,
        number: usize,
    ) -> usize {
        let (tables, side) = guard.both();
        self.receive::<BATCH, true, _>(tables, side, number, &mut None::<NoCall>)
    }
}

impl<S: Receiver> Sender<S> {
    /// Records a packet that is about to be sent.
    pub(super) fn record(&self, packet: &[u8]) {
        self.interface.record(Direction::Sent, packet);
    }
}
