//! TCP segments on their way out: as many as there are, with one look at the sending ring.

use std::sync::atomic::Ordering;

use dev_core::{Merging, TxRing};

use crate::sockets::doorbell;
use crate::sockets::interface::Interface;
use crate::sockets::stack::Stack;

/// What became of a connection's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    /// Segments that are in the ring now.
    pub(crate) count: usize,
    /// There may be more: the ring was full.
    pub(crate) is_full: bool,
    /// [`Interface::start_replies`] or [`Interface::start_segments`] has to tell the device.
    pub(crate) needs_kick: bool,
}

impl<S: Stack> Interface<S> {
    /// Whether every segment of a connection comes through the rings.
    pub(crate) fn takes_connections(&self) -> bool {
        self.merging != Merging::LeftToKernel
    }

    /// Lets `write` put segments into frames, one after the other, until it has no more: it returns the length of the frame. Nothing
    /// is asked of it that has no room in the ring.
    #[inline]
    pub(crate) fn put_segments(&self, mut write: impl FnMut(&mut [u8]) -> Option<usize>) -> Burst {
        let mut burst = Burst {
            count: 0,
            is_full: false,
            needs_kick: false,
        };
        let mut bytes = 0;
        let mut tx = self.tx.lock();
        loop {
            let Some(mut frame) = tx.frame(self.pool) else {
                self.stats.tx_full.add(1);
                burst.is_full = true;
                break;
            };
            let Some(len) = write(self.pool.chunk_mut(&mut frame)) else {
                tx.cancel(frame);
                break;
            };
            self.pool.set_len(&mut frame, len);
            tx.push(self.pool, frame);
            burst.count += 1;
            bytes += len;
        }
        if burst.count > 0 {
            self.stats.tx_packets.add(burst.count as u64);
            self.stats.tx_bytes.add(bytes as u64);
            burst.needs_kick = tx.needs_kick();
        }
        burst
    }

    /// Tells the device of segments. No lock is held meanwhile: on veth the peer's delivery runs inside.
    #[inline]
    pub(crate) fn start_segments(&self) {
        self.run_kick(doorbell::ticks());
    }

    /// What has been received from `polled` has made a socket send by this interface. If it is the same, whoever polls it tells the
    /// device when it has let go of the lock; `false`: it is not.
    #[inline]
    pub(crate) fn has_replied_to(&self, polled: &Self) -> bool {
        if !std::ptr::eq(self, polled) {
            return false;
        }
        if !self.has_replies.load(Ordering::Relaxed) {
            self.has_replies.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Tells the device of what was sent while the ring was polled.
    #[inline]
    pub(super) fn start_replies(&self) {
        if self.has_replies.load(Ordering::Relaxed) {
            self.has_replies.store(false, Ordering::Relaxed);
            self.start_segments();
        }
    }
}
