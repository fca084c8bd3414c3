//! Sending: requests are collected, and posted when the device is told of them: one doorbell for
//! all.

use rdma_core_sys::{
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WR_SEND, ibv_cq, ibv_qp, ibv_send_wr,
    ibv_sge, ibv_wc, poll_cq, post_send,
};

use crate::opened::Registered;
use crate::pair::Pair;
use crate::provider::taken;
use crate::work::{Done, Place, Work};

/// Requests that are collected at most.
const COLLECTED_MAX: usize = 64;
const COMPLETIONS: usize = 16;

#[derive(Debug)]
pub(crate) struct SendQueue {
    qp: *mut ibv_qp,
    cq: *mut ibv_cq,
    frames: Registered,
    requests: Box<[ibv_send_wr]>,
    parts: Box<[ibv_sge]>,
    collected: usize,
    next: u64,
    /// Requests that it holds at most, and the first of which the device has not said that it is
    /// done.
    size: u64,
    oldest: u64,
}

// SAFETY: the provider's objects may be used by any thread; the other pointers point into it.
unsafe impl Send for SendQueue {}

fn empty_request() -> ibv_send_wr {
    ibv_send_wr {
        wr_id: 0,
        next: std::ptr::null_mut(),
        sg_list: std::ptr::null_mut(),
        num_sge: 1,
        opcode: IBV_WR_SEND,
        send_flags: 0,
        imm_data: 0,
        wr: [0; 4],
        qp_type: 0,
        bind_mw: [0; 6],
    }
}

impl SendQueue {
    pub(crate) fn new(pair: &Pair) -> Self {
        Self {
            qp: pair.qp,
            cq: pair.send_cq,
            frames: pair.device.frames,
            requests: (0..COLLECTED_MAX).map(|_| empty_request()).collect(),
            parts: (0..COLLECTED_MAX).map(|_| ibv_sge::default()).collect(),
            collected: 0,
            next: 0,
            size: pair.sizes.send.into(),
            oldest: 0,
        }
    }
}

impl Work for SendQueue {
    #[inline]
    fn has_room(&self, _inline_max: u32) -> bool {
        self.next - self.oldest < self.size && self.collected < COLLECTED_MAX
    }

    #[inline]
    fn put(&mut self, frame: Place, is_inline: bool, is_signaled: bool) -> bool {
        self.parts[self.collected] = ibv_sge {
            addr: self.frames.address(frame.offset),
            length: frame.len,
            lkey: self.frames.lkey,
        };
        let request = &mut self.requests[self.collected];
        request.wr_id = self.next;
        request.send_flags = match is_signaled {
            true => IBV_SEND_SIGNALED,
            false => 0,
        };
        if is_inline {
            request.send_flags |= IBV_SEND_INLINE;
        }
        self.next += 1;
        self.collected += 1;
        false
    }

    #[inline]
    fn ring(&mut self) -> (usize, Result<(), i32>) {
        let count = self.collected;
        if count == 0 {
            return (0, Ok(()));
        }
        let (first, part) = (self.requests.as_mut_ptr(), self.parts.as_mut_ptr());
        for (place, request) in self.requests.iter_mut().enumerate().take(count) {
            request.sg_list = part.wrapping_add(place);
            request.next = match place + 1 < count {
                true => first.wrapping_add(place + 1),
                false => std::ptr::null_mut(),
            };
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is live, and the list ends with the last request.
        let failed = unsafe { post_send(self.qp, first, &raw mut bad) };
        let taken = taken(&self.requests, count, failed, bad);
        // What is left keeps its number.
        self.requests.copy_within(taken..count, 0);
        self.parts.copy_within(taken..count, 0);
        self.collected = count - taken;
        (taken, if failed == 0 { Ok(()) } else { Err(failed) })
    }

    fn done(&mut self) -> Done {
        let mut completions = [ibv_wc::default(); COMPLETIONS];
        // SAFETY: the queue is live, its one user is this, and there is room for so many.
        let count = unsafe { poll_cq(self.cq, COMPLETIONS as i32, completions.as_mut_ptr()) };
        let Ok(count) = usize::try_from(count) else {
            return Done {
                last: None,
                is_lost: true,
            };
        };
        let completions = &completions[..count.min(COMPLETIONS)];
        let last = completions.last().map(|it| it.wr_id);
        if let Some(last) = last {
            self.oldest = last + 1;
        }
        Done {
            last,
            is_lost: completions.iter().any(|it| it.status != IBV_WC_SUCCESS),
        }
    }
}
