//! A completion queue in memory.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rdma_core_sys::{
    IBV_WC_RECV, IBV_WC_SUCCESS, MLX5_CQ_ARM_DB, MLX5_CQ_DOORBELL, MLX5_CQ_SET_CI,
    MLX5_CQE_INVALID, MLX5_CQE_REQ, MLX5_CQE_REQ_ERR, MLX5_CQE_RESP_ERR, MLX5_CQE_RESP_SEND,
    ibv_wc, mlx5_cqe64, mlx5dv_cq,
};

use super::{cycles_now, shared};
use crate::violation::violation;

const ENTRY_BYTES: usize = 64;
const COUNT_MASK: u32 = 0x00ff_ffff;

#[derive(Debug)]
pub(crate) struct CompletionMemory {
    memory: mlx5dv_cq,
    written: u32,
    events: u32,
}

// SAFETY: its memory is shared by design; who writes has the device's lock.
unsafe impl Send for CompletionMemory {}

/// What a doorbell asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    Event,
    /// There is an entry already that the program did not know.
    EventNow,
}

impl CompletionMemory {
    /// One for so many entries, with this number.
    pub(crate) fn new(capacity: usize, number: u32) -> Self {
        let entries = capacity.next_power_of_two();
        let buf = shared(entries * ENTRY_BYTES);
        let memory = mlx5dv_cq {
            buf: buf.cast(),
            dbrec: shared(8).cast(),
            cqe_cnt: entries as u32,
            cqe_size: ENTRY_BYTES as u32,
            cq_uar: shared(MLX5_CQ_DOORBELL + 8).cast(),
            cqn: number,
            comp_mask: 0,
        };
        let made = Self {
            memory,
            written: 0,
            events: 0,
        };
        for place in 0..entries {
            // SAFETY: inside the queue.
            unsafe { (*made.entry(place)).op_own = MLX5_CQE_INVALID << 4 };
        }
        made
    }

    pub(crate) fn memory(&self) -> mlx5dv_cq {
        self.memory
    }

    fn entry(&self, place: usize) -> *mut mlx5_cqe64 {
        self.memory.buf.cast::<mlx5_cqe64>().wrapping_add(place)
    }

    fn record(&self, place: usize) -> u32 {
        // SAFETY: it has two places.
        let record = unsafe { AtomicU32::from_ptr(self.memory.dbrec.wrapping_add(place)) };
        u32::from_be(record.load(Ordering::Acquire))
    }

    /// Writes an entry. `request` is where the request stands.
    pub(crate) fn write(&mut self, completion: &ibv_wc, request: u16, checks: u8) {
        let entries = self.memory.cqe_cnt;
        let unread = self.written.wrapping_sub(self.record(MLX5_CQ_SET_CI)) & COUNT_MASK;
        if unread >= entries {
            violation("a completion queue is full");
        }
        let is_received = completion.opcode == IBV_WC_RECV;
        let kind = match (is_received, completion.status == IBV_WC_SUCCESS) {
            (true, true) => MLX5_CQE_RESP_SEND,
            (true, false) => MLX5_CQE_RESP_ERR,
            (false, true) => MLX5_CQE_REQ,
            (false, false) => MLX5_CQE_REQ_ERR,
        };
        let entry = self.entry((self.written & (entries - 1)) as usize);
        let round = u8::from(self.written & entries != 0);
        // SAFETY: inside the queue, and not the program's yet.
        let op_own = unsafe {
            (*entry).hds_ip_ext = checks;
            (*entry).byte_cnt = completion.byte_len.to_be();
            (*entry).timestamp = cycles_now().to_be();
            (*entry).sop_drop_qpn = completion.qp_num.to_be();
            (*entry).wqe_counter = request.to_be();
            AtomicU8::from_ptr(&raw mut (*entry).op_own)
        };
        op_own.store(kind << 4 | round, Ordering::Release);
        self.written = self.written.wrapping_add(1);
    }

    pub(crate) fn count_event(&mut self) {
        self.events = self.events.wrapping_add(1);
    }

    /// Whether its doorbell has been rung.
    pub(crate) fn look(&self) -> Asked {
        let register = self.memory.cq_uar.wrapping_byte_add(MLX5_CQ_DOORBELL);
        // SAFETY: the queue's register.
        let register = unsafe { AtomicU64::from_ptr(register.cast()) };
        if register.load(Ordering::Relaxed) == 0 {
            return Asked::Nothing;
        }
        let rung = u64::from_be(register.swap(0, Ordering::Acquire));
        let asked = (rung >> 32) as u32;
        if rung as u32 != self.memory.cqn || asked != self.record(MLX5_CQ_ARM_DB) {
            violation("a completion queue's doorbell says something else than its record");
        }
        if asked >> 28 != self.events & 3 {
            violation("an event is asked for that has come already");
        }
        match asked & COUNT_MASK == self.written & COUNT_MASK {
            true => Asked::Event,
            false => Asked::EventNow,
        }
    }
}
