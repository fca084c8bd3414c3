//! TCP segments on their way out: as many as there are, with one look at the sending ring.

use dev_core::{Merging, TxRing};

use crate::interface::Interface;
use crate::interface::sending::Sender;
use crate::receiver::Receiver;

/// What became of a connection's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Segments that are in the ring now.
    pub count: usize,
    /// There may be more: the ring was full.
    pub is_full: bool,
    /// `Interface::start_replies` or [`Sender::start_segments`] has to tell the device.
    pub needs_kick: bool,
}

impl<S: Receiver> Interface<S> {
    /// Whether every segment of a connection comes through the rings.
    pub fn takes_connections(&self) -> bool {
        self.merging != Merging::LeftToKernel
    }
}

impl<S: Receiver> Sender<S> {
    /// Lets `write` put segments into frames, one after the other, until it has no more: it returns
    /// the length of the frame. Nothing is asked of it that has no room in the ring.
    #[inline]
    pub fn put_segments(&self, write: impl FnMut(&mut [u8]) -> Option<usize>) -> Burst {
        if self.interface.condition.is_recorded() {
            return self.put_recorded_segments(write);
        }
        self.put::<false>(write)
    }

    #[cold]
    #[inline(never)]
    fn put_recorded_segments(&self, write: impl FnMut(&mut [u8]) -> Option<usize>) -> Burst {
        self.put::<true>(write)
    }

    #[inline(always)]
    fn put<const RECORDED: bool>(
        &self,
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Burst {
        let mut burst = Burst {
            count: 0,
            is_full: false,
            needs_kick: false,
        };
        let mut bytes = 0;
        let pool = self.interface.pool;
        let mut tx = self.ring.tx.lock();
        loop {
            let Some(mut frame) = tx.frame(pool) else {
                self.ring.stats.tx_full.add(1);
                burst.is_full = true;
                break;
            };
            let Some(len) = write(pool.chunk_mut(&mut frame)) else {
                tx.cancel(frame);
                break;
            };
            pool.set_len(&mut frame, len);
            if RECORDED {
                self.record(pool.data(&frame));
            }
            tx.push(pool, frame);
            burst.count += 1;
            bytes += len;
        }
        if burst.count > 0 {
            self.ring.stats.tx_packets.add(burst.count as u64);
            self.ring.stats.tx_bytes.add(bytes as u64);
            burst.needs_kick = tx.needs_kick();
        }
        burst
    }
}
