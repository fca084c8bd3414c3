//! The sending rings of an interface. Each has a lock, a doorbell and counters of its own, in cache
//! lines of its own: threads that send by two of them have nothing in common. Ring 0 counts where
//! the receiving side does.

use std::sync::atomic::AtomicBool;

use dev_core::{Backend, Lock, Rank, ThreadMode};
use stats::RingStats;

use crate::doorbell::Doorbell;

/// A sending ring. Two cache lines at a time come into a core's cache.
#[repr(align(128))]
pub(super) struct SendRing<B: Backend> {
    pub(super) tx: Lock<B::Tx>,
    pub(super) kick: B::Kick,
    pub(super) doorbell: Doorbell,
    /// Frames are in the ring that the device did not take at the last kick.
    pub(super) kick_pending: AtomicBool,
    /// What was received has made sockets send by this ring, and the device does not know.
    pub(super) has_replies: AtomicBool,
    pub(super) stats: &'static RingStats,
}

impl<B: Backend> SendRing<B> {
    pub(super) fn new(
        (tx, kick): (B::Tx, B::Kick),
        mode: ThreadMode,
        stats: &'static RingStats,
    ) -> Self {
        Self {
            tx: Lock::new(mode, tx).ranked(Rank::Sending),
            kick,
            doorbell: Doorbell::default(),
            kick_pending: AtomicBool::new(false),
            has_replies: AtomicBool::new(false),
            stats,
        }
    }

    /// Frames that were sent by it.
    pub(super) fn sent(&self) -> u64 {
        self.stats.tx_packets.value()
    }
}
