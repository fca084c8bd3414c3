//! Receiving: requests are collected and posted together.

use rdma_core_sys::{
    IBV_WC_IP_CSUM_OK, IBV_WC_SUCCESS, ibv_cq, ibv_qp, ibv_recv_wr, ibv_sge, ibv_wc, poll_cq,
    post_recv, req_notify_cq,
};

use crate::arrived::Arrived;
use crate::completions::BATCH;
use crate::opened::Registered;
use crate::pair::Pair;
use crate::provider::taken;

/// Requests that are posted at once.
const COLLECTED_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    qp: *mut ibv_qp,
    cq: *mut ibv_cq,
    frames: Registered,
    requests: Box<[ibv_recv_wr]>,
    parts: Box<[ibv_sge]>,
    collected: usize,
}

// SAFETY: the provider's objects may be used by any thread; the other pointers point into it.
unsafe impl Send for ReceiveQueue {}

impl ReceiveQueue {
    pub(crate) fn new(pair: &Pair) -> Self {
        let empty = ibv_recv_wr {
            wr_id: 0,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 1,
        };
        Self {
            qp: pair.qp,
            cq: pair.receive_cq,
            frames: pair.device.frames,
            requests: vec![empty; COLLECTED_MAX].into(),
            parts: vec![ibv_sge::default(); COLLECTED_MAX].into(),
            collected: 0,
        }
    }

    pub(crate) fn room(&self) -> u32 {
        (COLLECTED_MAX - self.collected) as u32
    }

    pub(crate) fn put(&mut self, offset: u64, len: u32) {
        let place = self.collected;
        self.requests[place].wr_id = offset;
        self.parts[place] = ibv_sge {
            addr: self.frames.address(offset),
            length: len,
            lkey: self.frames.lkey,
        };
        self.collected += 1;
    }

    /// Posts what was collected. What the device does not take goes to `back`. Returns how many it
    /// took.
    pub(crate) fn ring(&mut self, mut back: impl FnMut(u64)) -> u32 {
        let count = std::mem::take(&mut self.collected);
        if count == 0 {
            return 0;
        }
        let (part, request) = (self.parts.as_mut_ptr(), self.requests.as_mut_ptr());
        for (place, it) in self.requests.iter_mut().enumerate().take(count) {
            it.sg_list = part.wrapping_add(place);
            it.next = match place + 1 < count {
                true => request.wrapping_add(place + 1),
                false => std::ptr::null_mut(),
            };
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is live, and the list ends with the last request.
        let failed = unsafe { post_recv(self.qp, request, &raw mut bad) };
        let taken = taken(&self.requests, count, failed, bad);
        self.requests[taken..count]
            .iter()
            .for_each(|left| back(left.wr_id));
        taken as u32
    }

    /// Takes what has come, as far as there is room. Returns how much.
    #[inline]
    pub(crate) fn take(&mut self, into: &mut [Arrived; BATCH]) -> usize {
        let mut completions = [ibv_wc::default(); BATCH];
        // SAFETY: the queue is live, its one user is this, and there is room for so many.
        let count = unsafe { poll_cq(self.cq, BATCH as i32, completions.as_mut_ptr()) };
        // A queue that has failed has none.
        let count = usize::try_from(count).unwrap_or(0).min(BATCH);
        for (room, completion) in into.iter_mut().zip(&completions[..count]) {
            let is_whole = completion.status == IBV_WC_SUCCESS;
            *room = Arrived {
                offset: completion.wr_id,
                len: is_whole.then_some(completion.byte_len),
                is_checked: completion.wc_flags & IBV_WC_IP_CSUM_OK != 0,
                cycles: 0,
            };
        }
        count
    }

    pub(crate) fn ask_for_event(&mut self) {
        // SAFETY: the queue is live.
        unsafe { req_notify_cq(self.cq) };
    }
}
