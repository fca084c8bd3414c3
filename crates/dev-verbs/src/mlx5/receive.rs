//! The receive queue: where the device may put packets, in turn.

use std::sync::atomic::{AtomicU32, Ordering};

use rdma_core_sys::{MLX5_RCV_DBR, mlx5_wqe_data_seg, mlx5dv_qp};

use super::Memory;
use super::barrier::before_device;
use super::completion_queue::CompletionQueue;
use crate::arrived::Arrived;
use crate::opened::Registered;

/// The key of no memory: a list of places ends with it.
const INVALID_LKEY: u32 = 0x100;

#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    pair: mlx5dv_qp,
    completions: CompletionQueue,
    frames: Registered,
    /// Where the frames of its places begin, from the start of the pool.
    offsets: Box<[u64]>,
    posted: u32,
    taken: u32,
}

// SAFETY: its memory is the device's and this user's alone.
unsafe impl Send for ReceiveQueue {}

impl ReceiveQueue {
    pub(crate) fn new(memory: &Memory, frames: Registered) -> Self {
        Self {
            pair: memory.pair,
            completions: CompletionQueue::new(memory.received),
            frames,
            offsets: vec![0; memory.pair.rq.wqe_cnt as usize].into(),
            posted: 0,
            taken: 0,
        }
    }

    fn mask(&self) -> u32 {
        self.pair.rq.wqe_cnt - 1
    }

    /// How many frames it has room for.
    pub(crate) fn room(&self) -> u32 {
        self.pair.rq.wqe_cnt - self.posted.wrapping_sub(self.taken)
    }

    /// Puts a frame of so many bytes in. There is room.
    #[inline]
    pub(crate) fn put(&mut self, offset: u64, len: u32) {
        let place = (self.posted & self.mask()) as usize;
        self.offsets[place] = offset;
        let stride = self.pair.rq.stride as usize;
        let at = self.pair.rq.buf.wrapping_byte_add(place * stride);
        let part = mlx5_wqe_data_seg {
            byte_count: len.to_be(),
            lkey: self.frames.lkey.to_be(),
            addr: self.frames.address(offset).to_be(),
        };
        // SAFETY: inside the queue, at a place that the device has given back.
        unsafe { at.cast::<mlx5_wqe_data_seg>().write_volatile(part) };
        if stride > size_of_val(&part) {
            let end = mlx5_wqe_data_seg {
                lkey: INVALID_LKEY.to_be(),
                ..mlx5_wqe_data_seg::default()
            };
            let at = at.wrapping_byte_add(size_of_val(&part));
            // SAFETY: as above: the place is longer.
            unsafe { at.cast::<mlx5_wqe_data_seg>().write_volatile(end) };
        }
        self.posted = self.posted.wrapping_add(1);
    }

    /// Tells the device of what was put in.
    #[inline]
    pub(crate) fn ring(&self) {
        before_device();
        let record = self.pair.dbrec.wrapping_add(MLX5_RCV_DBR);
        // SAFETY: a queue pair's record has two places.
        let record = unsafe { AtomicU32::from_ptr(record) };
        record.store((self.posted & 0xffff).to_be(), Ordering::Release);
    }

    /// Takes what has come, as far as there is room. Returns how much.
    #[inline]
    pub(crate) fn take(&mut self, into: &mut [Arrived]) -> usize {
        let mut count = 0;
        while let Some(room) = into.get_mut(count)
            && let Some(entry) = self.completions.next()
        {
            // A device that completes more than it was given is no device; its memory is nobody's.
            let is_posted = self.taken != self.posted;
            let place = (self.taken & self.mask()) as usize;
            *room = Arrived {
                offset: if is_posted {
                    self.offsets[place]
                } else {
                    u64::MAX
                },
                len: entry.is_success().then(|| entry.len()),
                is_checked: entry.is_checked(),
                cycles: entry.cycles(),
            };
            self.taken = self.taken.wrapping_add(u32::from(is_posted));
            count += 1;
        }
        if count > 0 {
            self.completions.give_back();
        }
        count
    }

    pub(crate) fn ask_for_event(&mut self) {
        self.completions.count_event();
        self.completions.ask_for_event();
    }
}
