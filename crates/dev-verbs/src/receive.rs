//! The receiving side: memory for packets into the receive queue, in batches, and completions out.

use std::sync::Arc;

use dev_core::{Frame, FramePool, RxRing};
use rdma_core_sys::{IBV_WC_SUCCESS, ibv_recv_wr, ibv_sge, post_recv};

use crate::completions::Completions;

/// Frames that the device has at first. It uses them in turn, so this is a ping-pong's cache
/// footprint; bursts double it.
const LEVEL_MIN: u32 = 512;
/// Requests that are posted at once.
const POST_MAX: usize = 64;

/// A receiving side.
#[derive(Debug)]
pub struct VerbsRx {
    completions: Arc<Completions>,
    /// Where the pool begins.
    base: u64,
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
            completions,
            base: pool.memory().base().as_ptr() as u64,
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
        while self.posted < self.level {
            let wanted = (self.level - self.posted).min(POST_MAX as u32);
            if self.post(pool, wanted as usize) < wanted {
                break;
            }
        }
    }

    /// Gives the device up to so many frames, [`POST_MAX`] at most. Returns how many.
    fn post(&mut self, pool: &FramePool, wanted: usize) -> u32 {
        let device = &self.completions.device;
        let mut parts = [ibv_sge::default(); POST_MAX];
        let mut requests = [ibv_recv_wr {
            wr_id: 0,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 1,
        }; POST_MAX];
        let mut count = 0;
        pool.take_many(wanted.min(POST_MAX), |frame| {
            let offset = pool.release_to_device(frame);
            requests[count].wr_id = offset;
            parts[count] = ibv_sge {
                addr: self.base + offset,
                length: pool.frame_bytes().into(),
                lkey: device.lkey,
            };
            count += 1;
        });
        if count == 0 {
            return 0;
        }
        let (part, request) = (parts.as_mut_ptr(), requests.as_mut_ptr());
        for (place, it) in requests.iter_mut().enumerate().take(count) {
            it.sg_list = part.wrapping_add(place);
            if place + 1 < count {
                it.next = request.wrapping_add(place + 1);
            }
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is live, and the list ends with the last request.
        let failed = unsafe { post_recv(device.qp, request, &raw mut bad) };
        let taken = match failed {
            0 => count,
            _ => requests[..count]
                .iter()
                .position(|it| std::ptr::eq(it, bad))
                .unwrap_or(0),
        };
        for left in &requests[taken..count] {
            if let Some(frame) = pool.reclaim(left.wr_id, 0) {
                pool.give(frame);
            }
        }
        self.posted += taken as u32;
        taken as u32
    }
}

impl RxRing for VerbsRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        let mut count = 0;
        let mut completions = self.completions.look();
        while count < budget
            && let Some(completion) = completions.next()
        {
            count += 1;
            let is_whole = completion.status == IBV_WC_SUCCESS;
            let len = if is_whole { completion.byte_len } else { 0 };
            // One outside the pool would be a device's fault; its frame is lost, nothing else.
            match pool.reclaim(completion.wr_id, len) {
                Some(frame) if is_whole => sink(frame),
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
