//! The receiving side: fill and RX rings of every queue.

use std::sync::Arc;

use descriptors::OwnDescriptor;
use dev_core::{Frame, FramePool, RxRing};

use crate::frame_space::HEADROOM_BYTES;
use crate::queue::{Consumer, ConsumerWatch, Producer};
use crate::rings::turns::take_in_turns;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};

/// Empty frames are handed to the kernel in batches of this size, or whenever a poll finds nothing
/// to do.
const REFILL_BATCH: i32 = 64;
/// Frames that the kernel has at first; their number grows with bursts, and where they are
/// expected. It uses them in turn, so this is a ping-pong's cache footprint.
const LEVEL_MIN: u32 = 512;
/// Frames after which a level that was never needed is lowered.
const CALM_FRAMES: u32 = 1 << 17;

/// One queue's fill and RX rings.
#[derive(Debug)]
struct RxQueue {
    rx: Consumer<XdpDesc>,
    fill: Producer<u64>,
    /// Frames that the kernel is to have, between [`LEVEL_MIN`] and the size of the ring. The
    /// kernel uses them in turn, so their number is what a ping-pong occupies of the cache: with
    /// 2048 it took a third longer than with 256. Bursts raise the level, calm lowers it.
    level: u32,
    /// The lowest that it may be.
    level_min: u32,
    /// Frames that the kernel lacks to have its level; negative after the level was lowered.
    missing: i32,
    /// Most frames that waited at once, and the frames received, since the level was last looked
    /// at.
    waiting_max: u32,
    received: u32,
    /// Bytes of the frame received last.
    len_bytes: usize,
    /// Keeps the queue's socket open.
    fd: Arc<OwnDescriptor>,
}

/// A receiving side over some queues of an interface that is the process's alone.
#[derive(Debug)]
pub struct OwnRx {
    queues: Vec<RxQueue>,
    /// The queue that the next poll begins with, so that a busy one does not keep the others
    /// waiting.
    first: usize,
    /// Bytes of a frame that go into the cache as soon as the ring shows it.
    prefetch_bytes: usize,
}

impl OwnRx {
    pub(crate) fn new(
        queues: impl IntoIterator<Item = (Consumer<XdpDesc>, Producer<u64>, Arc<OwnDescriptor>)>,
        pool: &FramePool,
        prefetch_bytes: usize,
    ) -> Self {
        let queue = |(rx, fill, fd): (_, Producer<u64>, _)| {
            let level = LEVEL_MIN.min(fill.size());
            RxQueue {
                rx,
                level,
                level_min: level,
                missing: level as i32,
                fill,
                waiting_max: 0,
                received: 0,
                len_bytes: 0,
                fd,
            }
        };
        let mut side = Self {
            queues: queues.into_iter().map(queue).collect(),
            first: 0,
            prefetch_bytes,
        };
        side.queues.iter_mut().for_each(|queue| queue.refill(pool));
        side
    }
}

impl OwnRx {
    pub(crate) fn watches(&self) -> impl Iterator<Item = ConsumerWatch> {
        self.queues.iter().map(|queue| queue.rx.watch())
    }

    /// The descriptors of its queues.
    pub(crate) fn wait_fds(&self) -> Vec<Arc<OwnDescriptor>> {
        let fds = self.queues.iter().map(|queue| &queue.fd);
        fds.map(Arc::clone).collect()
    }
}

impl RxRing for OwnRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        let (queues, first) = (&mut self.queues, &mut self.first);
        take_in_turns(queues, first, budget, |queue, budget| {
            queue.take(pool, budget, self.prefetch_bytes, &mut sink)
        })
    }

    fn drain(&mut self, pool: &FramePool, mut sink: impl FnMut(Frame)) -> usize {
        let mut total = 0;
        for queue in &mut self.queues {
            let present = queue.rx.present() as usize;
            total += queue.take(pool, present, self.prefetch_bytes, &mut sink);
        }
        total
    }

    fn expect_bursts(&mut self, expected: bool) {
        self.queues
            .iter_mut()
            .for_each(|queue| queue.expect_bursts(expected));
    }
}

impl RxQueue {
    /// The frames that a higher level takes are given with the next ones.
    fn expect_bursts(&mut self, expected: bool) {
        let size = self.fill.size();
        self.level_min = if expected { size } else { LEVEL_MIN.min(size) };
        self.set_level(self.level.max(self.level_min));
    }

    fn set_level(&mut self, level: u32) {
        self.missing += level as i32 - self.level as i32;
        self.level = level;
    }

    /// Takes up to `budget` frames, and the rest of a packet that has begun: what comes after it
    /// must not be the first piece of another queue's. The kernel shows the frames of a packet
    /// together (`xsk_rcv` and `xsk_flush` in `net/xdp/xsk.c`). Gives the kernel empty ones when it
    /// is time. Returns how many.
    #[inline]
    fn take(
        &mut self,
        pool: &FramePool,
        budget: usize,
        prefetch_bytes: usize,
        sink: &mut impl FnMut(Frame),
    ) -> usize {
        let mut count = 0;
        let mut continues = false;
        self.prefetch_next(pool, prefetch_bytes);
        while (count < budget || continues)
            && let Some(descriptor) = self.rx.pop()
        {
            count += 1;
            continues = descriptor.options.contains(XdpDescOptions::XDP_PKT_CONTD);
            self.len_bytes = descriptor.len as usize;
            if self.rx.waiting() > 0 {
                self.prefetch_next(pool, prefetch_bytes);
            }
            // A descriptor outside the pool would be a kernel bug; its frame is lost, nothing else.
            if let Some(mut frame) = pool.reclaim(descriptor.addr, descriptor.len) {
                if continues {
                    frame.set_continues();
                }
                sink(frame);
            }
        }
        if count > 0 {
            self.waiting_max = self.waiting_max.max(count as u32 + self.rx.waiting());
            self.rx.release();
            self.missing += count as i32;
            self.received += count as u32;
        }
        if self.missing >= REFILL_BATCH || (count == 0 && self.missing > 0) {
            self.refill(pool);
        }
        count
    }

    /// Has the next frame on its way from the core that wrote it while its descriptor is still on
    /// its own.
    #[inline]
    fn prefetch_next(&mut self, pool: &FramePool, bytes_max: usize) {
        if let Some(data) = self.expected_data() {
            pool.prefetch(data, bytes_max.min(self.len_bytes));
        }
    }

    /// Where the data of the next frame are, if there is one. The kernel takes frames in the order
    /// in which it was given them, so that is known without the descriptor: frame number n of the
    /// RX ring is number n of the fill ring. Only a guess.
    #[inline]
    fn expected_data(&mut self) -> Option<u64> {
        let number = self.rx.peek()?;
        Some(self.fill.written(number) + u64::from(HEADROOM_BYTES))
    }

    #[inline(never)]
    fn refill(&mut self, pool: &FramePool) {
        self.adapt();
        let wanted = u32::try_from(self.missing).unwrap_or(0);
        // With the level as high as the ring, fewer may fit than are missing, until the kernel has
        // said what it consumed.
        let wanted = wanted.min(self.fill.room(wanted));
        let taken = pool.take_many(wanted as usize, |frame| {
            let pushed = self.fill.push(pool.release_to_device(frame));
            debug_assert!(pushed, "only as many as there is room for were taken");
        });
        self.missing -= taken as i32;
        self.fill.publish();
    }

    /// Raises the level when half of it waited at once, lowers it when an eighth was enough for
    /// long.
    fn adapt(&mut self) {
        let level = if self.waiting_max > self.level / 2 {
            (self.level * 2).min(self.fill.size())
        } else if self.received < CALM_FRAMES {
            return;
        } else if self.waiting_max < self.level / 8 {
            (self.level / 2).max(self.level_min)
        } else {
            self.level
        };
        self.set_level(level);
        (self.waiting_max, self.received) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
