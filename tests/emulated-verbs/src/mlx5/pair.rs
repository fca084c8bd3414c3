//! A queue pair in memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rdma_core_sys::{
    IBV_WC_SEND, IBV_WC_SUCCESS, MLX5_ETH_WQE_L4_CSUM, MLX5_INLINE_SEG, MLX5_OPCODE_SEND,
    MLX5_OPCODE_TSO, MLX5_RCV_DBR, MLX5_SEND_WQE_BB, MLX5_SND_DBR, MLX5_WQE_CTRL_CQ_UPDATE,
    ibv_qp_cap, ibv_sge, ibv_wc, mlx5_wqe_ctrl_seg, mlx5_wqe_data_seg, mlx5_wqe_eth_seg,
    mlx5dv_blueflame, mlx5dv_qp, mlx5dv_queue,
};

use super::shared;
use crate::device::State;
use crate::violation::violation;
use crate::wire::Leaving;

/// Bytes of each half of the register.
const REGISTER_BYTES: usize = 256;
const RECEIVE_STRIDE: usize = 16;
const UNIT: usize = 16;
/// Where the headers begin in the Ethernet part of a request.
const HEADERS_AT: usize = std::mem::offset_of!(mlx5_wqe_eth_seg, inline_hdr_start);
/// Bytes in front of a send queue's data, at least: what the card wants inline.
const HEADER_BYTES: usize = 18;

#[derive(Debug)]
pub(crate) struct PairMemory {
    memory: mlx5dv_qp,
    /// Places of the receive queue that were read.
    posted: u32,
    /// Places whose packets have come.
    received: u32,
    /// Blocks of the send queue that were read, and those that a completion has told of.
    sent: u32,
    told: u32,
}

// SAFETY: its memory is shared by design; who uses it has the device's lock.
unsafe impl Send for PairMemory {}

/// Reads what stands at an address.
///
/// # Safety
/// It is readable.
unsafe fn read<T>(at: *const u8) -> T {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<T>().read_volatile() }
}

impl PairMemory {
    pub(crate) fn new(cap: &ibv_qp_cap) -> Self {
        // Control, Ethernet and the head of inline data stand before those.
        let longest = 3 * UNIT + cap.max_inline_data as usize;
        let blocks = longest.div_ceil(MLX5_SEND_WQE_BB) * cap.max_send_wr as usize;
        let blocks = blocks.next_power_of_two().min(1 << 15);
        let places = (cap.max_recv_wr as usize).next_power_of_two();
        let queue = |entries: usize, stride: usize| mlx5dv_queue {
            buf: shared(entries * stride).cast(),
            wqe_cnt: entries as u32,
            stride: stride as u32,
        };
        let memory = mlx5dv_qp {
            dbrec: shared(8).cast(),
            sq: queue(blocks, MLX5_SEND_WQE_BB),
            rq: queue(places, RECEIVE_STRIDE),
            bf: mlx5dv_blueflame {
                reg: shared(2 * REGISTER_BYTES).cast(),
                size: REGISTER_BYTES as u32,
            },
            comp_mask: 0,
            uar_mmap_offset: 0,
            tirn: 0,
            tisn: 0,
            rqn: 0,
            sqn: 0,
            tir_icm_addr: 0,
        };
        Self {
            memory,
            posted: 0,
            received: 0,
            sent: 0,
            told: 0,
        }
    }

    pub(crate) fn memory(&self) -> mlx5dv_qp {
        self.memory
    }

    fn record(&self, place: usize) -> u32 {
        // SAFETY: it has two places.
        let record = unsafe { AtomicU32::from_ptr(self.memory.dbrec.wrapping_add(place)) };
        u32::from_be(record.load(Ordering::Acquire))
    }

    /// How many more a record says, which counts with 16 bits.
    fn more(&self, place: usize, known: u32, entries: u32) -> u32 {
        let count = self.record(place).wrapping_sub(known) & 0xffff;
        if count > entries {
            violation("a queue pair's record says more than its queue holds");
        }
        count
    }

    /// Memory that the program has posted since the last look.
    pub(crate) fn posted(&mut self) -> Vec<ibv_sge> {
        let queue = self.memory.rq;
        let count = self.more(MLX5_RCV_DBR, self.posted, queue.wqe_cnt);
        let place = |place: u32| {
            let place = (place & (queue.wqe_cnt - 1)) as usize;
            let at = queue.buf.wrapping_byte_add(place * RECEIVE_STRIDE);
            // SAFETY: inside the queue.
            let part: mlx5_wqe_data_seg = unsafe { read(at.cast()) };
            ibv_sge {
                addr: u64::from_be(part.addr),
                length: u32::from_be(part.byte_count),
                lkey: u32::from_be(part.lkey),
            }
        };
        let first = self.posted;
        self.posted = first.wrapping_add(count);
        if self.posted.wrapping_sub(self.received) > queue.wqe_cnt {
            violation("a receive queue is overrun");
        }
        (0..count)
            .map(|next| place(first.wrapping_add(next)))
            .collect()
    }

    /// A packet has come. Returns the place of its memory.
    pub(crate) fn count_received(&mut self) -> u16 {
        self.received = self.received.wrapping_add(1);
        self.received.wrapping_sub(1) as u16
    }

    /// Whether a doorbell has been rung, and all that it says is right.
    fn is_rung(&self, number: u32) -> bool {
        let mut is_rung = false;
        for half in 0..2 {
            let register = self.memory.bf.reg.wrapping_byte_add(half * REGISTER_BYTES);
            // SAFETY: inside the register.
            let register = unsafe { AtomicU64::from_ptr(register.cast()) };
            if register.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let rung = register.swap(0, Ordering::Acquire).to_ne_bytes();
            let word = |at: usize| {
                u32::from_be_bytes([rung[at], rung[at + 1], rung[at + 2], rung[at + 3]])
            };
            let (request, pair) = (word(0) >> 8 & 0xffff, word(4) >> 8);
            if pair != number {
                violation("a doorbell is of another queue pair");
            }
            let behind = self.record(MLX5_SND_DBR).wrapping_sub(request) & 0xffff;
            if behind == 0 || behind > self.memory.sq.wqe_cnt {
                violation("a doorbell is rung before the record says so");
            }
            is_rung = true;
        }
        is_rung
    }

    fn at(&self, block: u32) -> *const u8 {
        let place = (block & (self.memory.sq.wqe_cnt - 1)) as usize;
        let at = self
            .memory
            .sq
            .buf
            .wrapping_byte_add(place * MLX5_SEND_WQE_BB);
        at.cast_const().cast()
    }

    /// What stands in the queue from so many bytes after a block on, which ends and begins again.
    fn bytes(&self, block: u32, from: usize, len: usize) -> Vec<u8> {
        let size = self.memory.sq.wqe_cnt as usize * MLX5_SEND_WQE_BB;
        let start = self.at(block).addr() - self.memory.sq.buf.addr() + from;
        let byte = |index: usize| {
            let at = self.memory.sq.buf.wrapping_byte_add((start + index) % size);
            // SAFETY: inside the queue.
            unsafe { read(at.cast_const().cast()) }
        };
        (0..len).map(byte).collect()
    }

    /// Takes the next request.
    fn next(&mut self, number: u32) -> Request {
        let block = self.sent;
        // SAFETY: a block holds both.
        let (control, ethernet): (mlx5_wqe_ctrl_seg, mlx5_wqe_eth_seg) = unsafe {
            (
                read(self.at(block)),
                read(self.at(block).wrapping_add(UNIT)),
            )
        };
        let head = u32::from_be(control.opmod_idx_opcode);
        let opcode = (head & 0xff) as u8;
        let is_known = matches!(opcode, MLX5_OPCODE_SEND | MLX5_OPCODE_TSO);
        if !is_known || head >> 8 & 0xffff != block & 0xffff {
            violation("a request to send is not there, or one of an earlier round");
        }
        let pair_and_units = u32::from_be(control.qpn_ds);
        let units = (pair_and_units & 0x3f) as usize;
        if pair_and_units >> 8 != number || units < 4 {
            violation("a request to send is of another queue pair, or too short");
        }
        let headers_len = usize::from(u16::from_be(ethernet.inline_hdr_sz));
        if headers_len < HEADER_BYTES {
            violation("a request to send has not the header that the card wants");
        }
        let data_unit = 1 + (HEADERS_AT + headers_len).div_ceil(UNIT);
        let mut frame = self.bytes(block, UNIT + HEADERS_AT, headers_len);
        let mut memory = Vec::new();
        for unit in data_unit..units {
            let part: [u8; UNIT] = self
                .bytes(block, unit * UNIT, UNIT)
                .try_into()
                .unwrap_or_default();
            // SAFETY: as long as the part.
            let part: mlx5_wqe_data_seg = unsafe { read(part.as_ptr()) };
            let len = u32::from_be(part.byte_count);
            if len & MLX5_INLINE_SEG != 0 {
                let len = (len & !MLX5_INLINE_SEG) as usize;
                if unit != data_unit || data_unit + (4 + len).div_ceil(UNIT) != units {
                    violation("a request to send is longer or shorter than its inline data");
                }
                frame.extend(self.bytes(block, unit * UNIT + 4, len));
                break;
            }
            memory.push(ibv_sge {
                addr: u64::from_be(part.addr),
                length: len,
                lkey: u32::from_be(part.lkey),
            });
        }
        let blocks = (units * UNIT).div_ceil(MLX5_SEND_WQE_BB) as u32;
        self.sent = block.wrapping_add(blocks);
        if self.sent.wrapping_sub(self.told) > self.memory.sq.wqe_cnt {
            violation("a send queue is overrun");
        }
        let segment_len = u16::from_be(ethernet.mss);
        if (opcode == MLX5_OPCODE_TSO) != (segment_len > 0) {
            violation("a packet is to be cut into pieces of no length, or not to be cut");
        }
        Request {
            block,
            frame,
            memory,
            checksums: ethernet.cs_flags & MLX5_ETH_WQE_L4_CSUM != 0,
            segment_len,
            headers_len,
            is_signaled: control.fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE != 0,
        }
    }
}

struct Request {
    block: u32,
    /// Its header, and what was inline.
    frame: Vec<u8>,
    memory: Vec<ibv_sge>,
    /// They are to be computed.
    checksums: bool,
    segment_len: u16,
    headers_len: usize,
    is_signaled: bool,
}

/// Takes what the program has put into a send queue, if it has rung. Returns whether it has.
pub(super) fn look(state: &mut State, number: u32, frames: &mut Vec<Leaving>) -> bool {
    let Some(memory) = &state.pair(number).memory else {
        return false;
    };
    if !memory.is_rung(number) {
        return false;
    }
    let end =
        memory
            .sent
            .wrapping_add(memory.more(MLX5_SND_DBR, memory.sent, memory.memory.sq.wqe_cnt));
    while let Some(memory) = &mut state.pair(number).memory
        && memory.sent != end
    {
        let request = memory.next(number);
        if end.wrapping_sub(memory.sent) > memory.memory.sq.wqe_cnt {
            violation("a request to send reaches beyond what the record says");
        }
        frames.push(take(state, number, request));
    }
    true
}

/// Does what a request asks for. Returns what leaves.
fn take(state: &mut State, number: u32, request: Request) -> Leaving {
    let mut frame = request.frame;
    let mut all_held = Vec::new();
    // A part of a plain request begins behind its header in memory.
    let is_plain = request.memory.len() == 1 && !request.checksums;
    for part in request.memory {
        state.check(&part);
        let before = if is_plain {
            request.headers_len as u64
        } else {
            0
        };
        let held = part.addr - before;
        state.pair(number).hold(held);
        all_held.push(held);
        let (from, len) = (part.addr as *const u8, part.length as usize);
        // SAFETY: registered memory, which the program has left to the device.
        frame.extend_from_slice(unsafe { std::slice::from_raw_parts(from, len) });
    }
    let pair = state.pair(number);
    pair.unsignaled.extend(all_held);
    if request.is_signaled {
        let (released, queue) = (std::mem::take(&mut pair.unsignaled), pair.send_to);
        for address in released.iter().filter(|address| **address != 0) {
            pair.held.remove(address);
        }
        if let Some(memory) = &mut pair.memory {
            memory.told = memory.sent;
        }
        let completion = ibv_wc {
            status: IBV_WC_SUCCESS,
            opcode: IBV_WC_SEND,
            qp_num: number,
            ..ibv_wc::default()
        };
        state.complete_in_memory(queue, &completion, request.block as u16, 0);
    }
    Leaving {
        frame,
        checksums: request.checksums,
        segment_len: request.segment_len,
        headers_len: request.headers_len,
    }
}
