//! A completion queue: the device writes entries in turn, and a bit of each that changes with every
//! round says whose it is.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rdma_core_sys::{
    MLX5_CQ_ARM_DB, MLX5_CQ_DB_REQ_NOT, MLX5_CQ_DOORBELL, MLX5_CQ_SET_CI, MLX5_CQE_INVALID,
    MLX5_CQE_L4_OK, MLX5_CQE_OWNER_MASK, MLX5_CQE_REQ, MLX5_CQE_RESP_SEND, mlx5_cqe64, mlx5dv_cq,
};

use super::barrier::{after_device, before_device, flush_doorbell};

/// The device counts with so many bits.
const COUNT_MASK: u32 = 0x00ff_ffff;

#[derive(Debug)]
pub(super) struct CompletionQueue {
    memory: mlx5dv_cq,
    /// Entries that were taken.
    taken: u32,
    /// Events that have come.
    events: u32,
}

// SAFETY: its memory is the device's and this user's alone.
unsafe impl Send for CompletionQueue {}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry(mlx5_cqe64);

impl Entry {
    /// Whether what was asked for has been done.
    #[inline]
    pub(super) fn is_success(&self) -> bool {
        matches!(self.0.op_own >> 4, MLX5_CQE_REQ | MLX5_CQE_RESP_SEND)
    }

    /// The first block of the request.
    #[inline]
    pub(super) fn request(&self) -> u16 {
        u16::from_be(self.0.wqe_counter)
    }

    /// Bytes that came.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        u32::from_be(self.0.byte_cnt)
    }

    /// Whether the checksum of UDP or TCP was looked at and is right. IP's own is looked at here.
    #[inline]
    pub(super) fn is_checked(&self) -> bool {
        self.0.hds_ip_ext & MLX5_CQE_L4_OK != 0
    }

    /// When it was made, by the card's clock.
    #[inline]
    pub(super) fn cycles(&self) -> u64 {
        u64::from_be(self.0.timestamp)
    }
}

impl CompletionQueue {
    /// Of a queue whose provider has asked for the first event, and nothing else.
    pub(super) fn new(memory: mlx5dv_cq) -> Self {
        Self {
            memory,
            taken: 0,
            events: 0,
        }
    }

    /// Takes the next entry, if it is there.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Entry> {
        let entries = self.memory.cqe_cnt;
        let size = self.memory.cqe_size as usize;
        let place = (self.taken & (entries - 1)) as usize;
        // Of a long one the last part counts.
        let at = place * size + size - size_of::<mlx5_cqe64>();
        let entry = self.memory.buf.wrapping_byte_add(at).cast::<mlx5_cqe64>();
        // SAFETY: inside the queue.
        let op_own = unsafe { AtomicU8::from_ptr(&raw mut (*entry).op_own) };
        let op_own = op_own.load(Ordering::Relaxed);
        let round = u8::from(self.taken & entries != 0);
        if op_own & MLX5_CQE_OWNER_MASK != round || op_own >> 4 == MLX5_CQE_INVALID {
            return None;
        }
        after_device();
        self.taken = self.taken.wrapping_add(1);
        // SAFETY: inside the queue; the device does not write to it before it is told that it was
        // taken.
        Some(Entry(unsafe { entry.read_volatile() }))
    }

    fn record(&self, place: usize) -> &AtomicU32 {
        // SAFETY: a queue's record has two places.
        unsafe { AtomicU32::from_ptr(self.memory.dbrec.wrapping_add(place)) }
    }

    /// Tells the device that the entries which were taken are free.
    #[inline]
    pub(super) fn give_back(&self) {
        let taken = self.taken & COUNT_MASK;
        self.record(MLX5_CQ_SET_CI)
            .store(taken.to_be(), Ordering::Release);
    }

    /// An event has come.
    pub(super) fn count_event(&mut self) {
        self.events = self.events.wrapping_add(1);
    }

    /// Asks for an event with the next entry; at once if there is one that was not taken.
    pub(super) fn ask_for_event(&self) {
        let asked = (self.events & 3) << 28 | MLX5_CQ_DB_REQ_NOT | self.taken & COUNT_MASK;
        self.record(MLX5_CQ_ARM_DB)
            .store(asked.to_be(), Ordering::Release);
        before_device();
        let doorbell = u64::from(asked) << 32 | u64::from(self.memory.cqn);
        let register = self.memory.cq_uar.wrapping_byte_add(MLX5_CQ_DOORBELL);
        // SAFETY: the queue's page of doorbells.
        let register = unsafe { AtomicU64::from_ptr(register.cast()) };
        register.store(doorbell.to_be(), Ordering::Release);
        flush_doorbell();
    }
}
