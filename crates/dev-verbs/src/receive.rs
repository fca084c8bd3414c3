//! The receiving side: frames into the receive queue, in batches, and packets out.

use std::sync::Arc;

use dev_core::{Frame, FramePool, NotedTimes, RxRing};

use crate::clock::{Stamper, monotonic_nsec};
use crate::completions::Completions;

/// Frames that the device has at first. It uses them in turn, so this is a ping-pong's cache
/// footprint; bursts double it.
const LEVEL_MIN: u32 = 512;
/// Frames that are posted at once.
const POST_MAX: u32 = 64;

/// A receiving side.
#[derive(Debug)]
pub struct VerbsRx {
    stamper: Stamper,
    completions: Arc<Completions>,
    /// Frames that the device is to have, and those that the queue has room for.
    level: u32,
    size: u32,
    /// Frames that it has.
    posted: u32,
    batch: u32,
}

impl VerbsRx {
    pub(crate) fn new(completions: Arc<Completions>, pool: &FramePool) -> Self {
        let sizes = completions.device.sizes;
        // The rest is for what is sent, and for what nobody has read yet.
        let size = sizes.receive.min(pool.frame_count() / 2).max(1);
        let mut side = Self {
            stamper: Stamper::default(),
            completions,
            level: LEVEL_MIN.min(size),
            size,
            posted: 0,
            batch: sizes.receive_batch.min(size.div_ceil(2)),
        };
        side.refill(pool);
        side
    }

    #[inline(never)]
    fn refill(&mut self, pool: &FramePool) {
        let mut queue = self.completions.look();
        while self.posted < self.level {
            let wanted = (self.level - self.posted).min(POST_MAX);
            let posted = queue.post(pool, wanted);
            self.posted += posted;
            if posted < wanted {
                break;
            }
        }
    }
}

impl RxRing for VerbsRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        let mut count = 0;
        let clock = self.completions.device.clock.as_ref();
        let stamps = self.stamper.for_now(clock).map(|it| (it, monotonic_nsec()));
        let mut completions = self.completions.look();
        while count < budget
            && let Some(completion) = completions.next()
        {
            count += 1;
            // One outside the pool would be a device's fault; its frame is lost, nothing else.
            match pool.reclaim(completion.offset, completion.len.unwrap_or(0)) {
                Some(mut frame) if completion.len.is_some() => {
                    if let Some((known, now)) = &stamps {
                        let stamp = known.stamp(completion.cycles);
                        // The clocks differ a little: nothing has come later than now.
                        let arrived = stamp.monotonic_nsec.min(*now);
                        NotedTimes::write(pool, &mut frame, arrived, stamp.device_nsec);
                    }
                    sink(frame);
                }
                Some(frame) => pool.give(frame),
                None => {}
            }
        }
        self.completions.count(count);
        drop(completions);
        self.posted -= (count as u32).min(self.posted);
        let missing = self.level - self.posted.min(self.level);
        if missing >= self.batch || (count == 0 && missing > 0) {
            if missing > self.level / 2 {
                self.level = (self.level * 2).min(self.size);
            }
            self.refill(pool);
        }
        count
    }

    fn drain(&mut self, pool: &FramePool, mut sink: impl FnMut(Frame)) -> usize {
        // No more than the device has memory for.
        let present = self.posted as usize;
        self.poll(pool, present, &mut sink)
    }

    fn expect_bursts(&mut self, expected: bool) {
        if expected {
            self.level = self.size;
        }
    }
}
