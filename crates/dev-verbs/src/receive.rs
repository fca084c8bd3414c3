//! The receiving side: frames into the receive queue, in batches, and packets out.

use std::sync::Arc;

use dev_core::{Frame, FramePool, NotedTimes, RxRing};

use crate::clock::Stamper;
use crate::completions::Completions;
use crate::opened::Device;
use crate::tag::take_out;

/// Frames that the device has at first. It uses them in turn, so this is a ping-pong's cache
/// footprint; bursts double it.
const LEVEL_MIN: u32 = 512;
/// Frames that are posted at once.
const POST_MAX: u32 = 64;

/// What a receiving side has of one device.
#[derive(Debug)]
struct Side {
    stamper: Stamper,
    completions: Arc<Completions>,
    /// Frames that the device is to have, and those that the queue has room for.
    level: u32,
    size: u32,
    /// Frames that it has.
    posted: u32,
    batch: u32,
}

impl Side {
    /// One of `sides` that share the pool.
    fn new(completions: Arc<Completions>, pool: &FramePool, sides: u32) -> Self {
        let sizes = completions.pair.sizes;
        // The rest is for what is sent, and for what nobody has read yet.
        let size = sizes.receive.min(pool.frame_count() / 2 / sides).max(1);
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

impl Side {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, sink: &mut impl FnMut(Frame)) -> usize {
        let mut completions = self.completions.look();
        if !completions.look_for_one() {
            return 0;
        }
        let mut count = 0;
        let device = &self.completions.pair.device;
        let clock = self.completions.pair.clock();
        let stamps = self.stamper.for_now(clock);
        while count < budget
            && let Some(completion) = completions.next()
        {
            count += 1;
            // One outside the pool would be a device's fault; its frame is lost, nothing else.
            let Some(mut frame) = pool.reclaim(completion.offset, completion.len.unwrap_or(0))
            else {
                continue;
            };
            if completion.len.is_none() || !is_ours(device, pool, &mut frame) {
                pool.give(frame);
                continue;
            }
            if completion.is_checked {
                frame.set_checked();
            }
            if let Some(known) = stamps {
                let stamp = known.stamp(completion.cycles);
                // The clocks differ a little: nothing has come later than now.
                let arrived = stamp.monotonic_nsec.min(sys::now_nsec());
                NotedTimes::write(pool, &mut frame, arrived, stamp.device_nsec);
            }
            sink(frame);
        }
        self.completions.count(count);
        drop(completions);
        self.posted -= (count as u32).min(self.posted);
        let missing = self.level - self.posted.min(self.level);
        if missing >= self.batch {
            if missing > self.level / 2 {
                self.level = (self.level * 2).min(self.size);
            }
            self.refill(pool);
        }
        count
    }
}

/// Whether the interface's packets come by this device now, and this is one of them. It has no tag
/// afterwards.
#[inline]
fn is_ours(device: &Device, pool: &FramePool, frame: &mut Frame) -> bool {
    // What a switch sends to a part of a bond that waits has come by another, too.
    take_out(device.tag, pool, frame) && device.is_active()
}

/// A receiving side: of each device that carries packets of the interface.
#[derive(Debug)]
pub struct VerbsRx {
    sides: Box<[Side]>,
    /// Which comes first the next time.
    first: usize,
}

impl VerbsRx {
    /// One of so many receiving sides of the interface.
    pub(crate) fn new(queues: &[Arc<Completions>], pool: &FramePool, count: usize) -> Self {
        let all = (queues.len() * count).max(1) as u32;
        let side = |queue| Side::new(Arc::clone(queue), pool, all);
        Self {
            sides: queues.iter().map(side).collect(),
            first: 0,
        }
    }
}

impl RxRing for VerbsRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        if let [only] = &mut *self.sides {
            return only.poll(pool, budget, &mut sink);
        }
        let mut total = 0;
        let count = self.sides.len();
        for place in 0..count {
            let side = &mut self.sides[(self.first + place) % count];
            total += side.poll(pool, budget - total, &mut sink);
        }
        self.first = (self.first + 1) % count.max(1);
        total
    }

    fn drain(&mut self, pool: &FramePool, mut sink: impl FnMut(Frame)) -> usize {
        // No more than the devices have memory for.
        let mut total = 0;
        for side in &mut self.sides {
            total += side.poll(pool, side.posted as usize, &mut sink);
        }
        total
    }

    fn expect_bursts(&mut self, expected: bool) {
        if expected {
            self.sides
                .iter_mut()
                .for_each(|side| side.level = side.size);
        }
    }
}
