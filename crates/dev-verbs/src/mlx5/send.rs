//! The send queue: requests of one or more blocks, in turn. A doorbell is the beginning of the last
//! one, written to a register; where that is wide enough, the whole request (BlueFlame).

mod whole;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rdma_core_sys::{
    MLX5_INLINE_SEG, MLX5_OPCODE_SEND, MLX5_SEND_WQE_BB, MLX5_SND_DBR, MLX5_WQE_CTRL_CQ_UPDATE,
    mlx5_wqe_ctrl_seg, mlx5_wqe_data_seg, mlx5_wqe_eth_seg, mlx5dv_qp,
};

use super::Memory;
use super::barrier::{before_device, flush_doorbell};
use super::completion_queue::CompletionQueue;
use crate::opened::Registered;
use crate::pair::Pair;
use crate::tag::{TAG_AT, TAG_BYTES, Tag};
use crate::work::{Done, Place, Work};
pub(crate) use whole::{HEADERS_MAX, PARTS_MAX};

/// Bytes that a device wants inline at least: Ethernet's header with a tag.
const HEADER_BYTES: usize = 18;
/// Sixteen bytes each: what a request's length is counted in.
const CONTROL: usize = 1;
const ETHERNET: usize = 2;
const UNIT: usize = 16;
/// What stands before inline data.
const INLINE_HEAD_BYTES: usize = 4;

#[derive(Debug)]
pub(crate) struct SendQueue {
    pair: mlx5dv_qp,
    number: u32,
    completions: CompletionQueue,
    frames: Registered,
    uses_blueflame: bool,
    tag: Option<Tag>,
    /// Bytes of a frame in its inline header, which has a tag's place.
    taken: usize,
    /// By first block: which request begins there, and how many blocks it has.
    requests: Box<[(u64, u32)]>,
    /// Blocks that were filled, and those that the device has done.
    filled: u32,
    done: u32,
    /// Requests that the device was not told of, and where the last one begins.
    waiting: usize,
    last: u32,
    last_units: usize,
    next_request: u64,
    /// Which half of the register is next, in bytes.
    register: usize,
}

// SAFETY: its memory is the device's and this user's alone.
unsafe impl Send for SendQueue {}

/// How much of the queue a frame takes, in units, that has so many bytes behind its header.
fn units(rest: usize, is_inline: bool) -> usize {
    let data = match is_inline {
        true => (INLINE_HEAD_BYTES + rest).div_ceil(UNIT),
        false => 1,
    };
    CONTROL + ETHERNET + data
}

fn blocks(units: usize) -> u32 {
    (units * UNIT).div_ceil(MLX5_SEND_WQE_BB) as u32
}

impl SendQueue {
    pub(crate) fn new(memory: &Memory, pair: &Pair, tag: Option<Tag>) -> Self {
        // SAFETY: the queue pair is live.
        let number = unsafe { (*pair.qp).qp_num };
        Self::of(
            memory,
            number,
            pair.device.frames,
            pair.sizes.blueflame,
            tag,
        )
    }

    pub(super) fn of(
        memory: &Memory,
        number: u32,
        frames: Registered,
        uses_blueflame: bool,
        tag: Option<Tag>,
    ) -> Self {
        Self {
            pair: memory.pair,
            number,
            completions: CompletionQueue::new(memory.sent),
            frames,
            uses_blueflame: uses_blueflame && memory.pair.bf.size > 0,
            tag,
            taken: HEADER_BYTES - tag.map_or(0, |_| TAG_BYTES),
            requests: vec![(0, 0); memory.pair.sq.wqe_cnt as usize].into(),
            filled: 0,
            done: 0,
            waiting: 0,
            last: 0,
            last_units: 0,
            next_request: 0,
            register: 0,
        }
    }

    fn place(&self, block: u32) -> usize {
        (block & (self.pair.sq.wqe_cnt - 1)) as usize
    }

    fn at(&self, block: u32) -> *mut u8 {
        let offset = self.place(block) * MLX5_SEND_WQE_BB;
        self.pair.sq.buf.wrapping_byte_add(offset).cast()
    }

    /// Copies data into the queue, which ends and begins again.
    ///
    /// # Safety
    /// `from` has so many bytes, and the queue so many that are free from `to` on.
    unsafe fn copy(&self, from: *const u8, to: *mut u8, len: usize) {
        let start = self.pair.sq.buf.cast::<u8>();
        let end = start.wrapping_add(self.pair.sq.wqe_cnt as usize * MLX5_SEND_WQE_BB);
        let to_end = end.addr() - to.addr();
        let first = len.min(to_end);
        // SAFETY: the caller's promise, up to the queue's end.
        unsafe { to.copy_from_nonoverlapping(from, first) };
        if first < len {
            let from = from.wrapping_add(first);
            // SAFETY: the rest, from its beginning.
            unsafe { start.copy_from_nonoverlapping(from, len - first) };
        }
    }

    /// The beginning of a request of so many units.
    #[inline]
    fn write_control(&self, opcode: u8, units: usize, is_signaled: bool) {
        let index = self.filled & 0xffff;
        let control = mlx5_wqe_ctrl_seg {
            opmod_idx_opcode: (index << 8 | u32::from(opcode)).to_be(),
            qpn_ds: (self.number << 8 | units as u32).to_be(),
            fm_ce_se: if is_signaled {
                MLX5_WQE_CTRL_CQ_UPDATE
            } else {
                0
            },
            ..mlx5_wqe_ctrl_seg::default()
        };
        let start = self.at(self.filled).cast::<mlx5_wqe_ctrl_seg>();
        // SAFETY: a block is free, and holds this.
        unsafe { start.write_volatile(control) };
    }

    /// The request that has been written counts from here on: as so many, the last of which has its
    /// number.
    #[inline]
    fn count_request(&mut self, units: usize, count: u64) {
        let blocks = blocks(units);
        let place = self.place(self.filled);
        self.next_request += count;
        self.requests[place] = (self.next_request - 1, blocks);
        self.waiting += 1;
        (self.last, self.last_units) = (self.filled, units);
        self.filled = self.filled.wrapping_add(blocks);
    }

    #[inline]
    fn has_blocks(&self, count: u32) -> bool {
        self.filled.wrapping_sub(self.done) + count <= self.pair.sq.wqe_cnt
    }

    /// Writes the request. There is room, and the frame holds an Ethernet header. Returns how many
    /// units it has.
    fn write(&self, frame: Place, is_inline: bool, is_signaled: bool) -> usize {
        let rest = frame.len.saturating_sub(self.taken as u32);
        let units = units(rest as usize, is_inline);
        let start = self.at(self.filled);
        let address = self.frames.address(frame.offset);
        let from = address as *const u8;
        // SAFETY: the frame is the queue's, and its chunk longer than that.
        let mut header = unsafe { from.cast::<[u8; HEADER_BYTES]>().read() };
        if let Some(tag) = self.tag {
            header.copy_within(TAG_AT..HEADER_BYTES - TAG_BYTES, TAG_AT + TAG_BYTES);
            header[TAG_AT..TAG_AT + TAG_BYTES].copy_from_slice(&tag.bytes());
        }
        let mut ethernet = mlx5_wqe_eth_seg {
            inline_hdr_sz: (HEADER_BYTES as u16).to_be(),
            ..mlx5_wqe_eth_seg::default()
        };
        ethernet.inline_hdr_start.copy_from_slice(&header[..2]);
        ethernet.inline_hdr.copy_from_slice(&header[2..]);
        self.write_control(MLX5_OPCODE_SEND, units, is_signaled);
        let second = start.wrapping_add(CONTROL * UNIT);
        // SAFETY: a block is free, and holds this.
        unsafe { second.cast::<mlx5_wqe_eth_seg>().write_volatile(ethernet) };
        let third = second.wrapping_add(ETHERNET * UNIT);
        if is_inline {
            let head = (rest | MLX5_INLINE_SEG).to_be();
            // SAFETY: as above.
            unsafe { third.cast::<u32>().write_volatile(head) };
            let data = third.wrapping_add(INLINE_HEAD_BYTES);
            // SAFETY: as many blocks are free as the request has.
            unsafe { self.copy(from.wrapping_add(self.taken), data, rest as usize) };
        } else {
            let part = mlx5_wqe_data_seg {
                byte_count: rest.to_be(),
                lkey: self.frames.lkey.to_be(),
                addr: (address + self.taken as u64).to_be(),
            };
            // SAFETY: as above.
            unsafe { third.cast::<mlx5_wqe_data_seg>().write_volatile(part) };
        }
        units
    }

    /// A register's worth of the request: by a CPU that writes it at once, in one transaction.
    #[inline]
    fn write_blueflame(&self, blocks: u32) {
        type Block = [u64; MLX5_SEND_WQE_BB / size_of::<u64>()];
        let register = self.pair.bf.reg.wrapping_byte_add(self.register);
        for block in 0..blocks {
            let from = self.at(self.last.wrapping_add(block)).cast::<Block>();
            let to = register.cast::<Block>().wrapping_add(block as usize);
            // SAFETY: the request lies in the queue's blocks.
            let value = unsafe { from.read() };
            // SAFETY: the register is as wide as it says, and the request fits.
            unsafe { to.write_volatile(value) };
        }
    }

    fn write_doorbell(&self) {
        // SAFETY: a request begins with more than eight bytes.
        let beginning = unsafe { self.at(self.last).cast::<u64>().read() };
        let register = self.pair.bf.reg.wrapping_byte_add(self.register);
        // SAFETY: the queue pair's register.
        let register = unsafe { AtomicU64::from_ptr(register.cast()) };
        register.store(beginning, Ordering::Release);
    }
}

impl Work for SendQueue {
    #[inline]
    fn has_room(&self, inline_max: u32) -> bool {
        self.has_blocks(blocks(units(inline_max as usize, true)))
    }

    /// Copies at once what is inline.
    #[inline]
    fn put(&mut self, frame: Place, is_inline: bool, is_signaled: bool) -> bool {
        let units = self.write(frame, is_inline, is_signaled);
        self.count_request(units, 1);
        is_inline
    }

    #[inline]
    fn ring(&mut self) -> (usize, Result<(), i32>) {
        let count = std::mem::take(&mut self.waiting);
        if count == 0 {
            return (0, Ok(()));
        }
        before_device();
        let record = self.pair.dbrec.wrapping_add(MLX5_SND_DBR);
        // SAFETY: a queue pair's record has two places.
        let record = unsafe { AtomicU32::from_ptr(record) };
        record.store((self.filled & 0xffff).to_be(), Ordering::Release);
        // The record is there before the doorbell.
        flush_doorbell();
        let size = self.pair.bf.size as usize;
        let blocks = blocks(self.last_units);
        let fits = count == 1 && blocks as usize * MLX5_SEND_WQE_BB <= size;
        if self.uses_blueflame && fits {
            self.write_blueflame(blocks);
        } else {
            self.write_doorbell();
        }
        flush_doorbell();
        self.register ^= size;
        (count, Ok(()))
    }

    fn done(&mut self) -> Done {
        let mut done = Done::default();
        while let Some(entry) = self.completions.next() {
            done.is_lost |= !entry.is_success();
            let place = self.place(entry.request().into());
            let (request, blocks) = self.requests[place];
            // Blocks are counted with more bits than the device tells.
            let first = entry.request().wrapping_sub(self.done as u16);
            self.done = self.done.wrapping_add(u32::from(first) + blocks);
            done.last = Some(request);
        }
        self.completions.give_back();
        done
    }
}
