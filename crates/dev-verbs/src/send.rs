//! The sending side: requests are collected, and posted when the device is told of them: one
//! doorbell for all.

use std::collections::VecDeque;
use std::sync::Arc;

use dev_core::{Frame, FramePool, Kick, KickOutcome, TxRing};
use rdma_core_sys::{
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WR_SEND, ibv_send_wr, ibv_sge, ibv_wc,
    poll_cq, post_send,
};

use crate::one_user::{OneUser, Use};
use crate::opened::Opened;

/// Requests that are collected at most.
const COLLECTED_MAX: usize = 64;
const COMPLETIONS: usize = 16;
/// In the place of a frame that was copied into the queue.
const COPIED: u64 = u64::MAX;

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

#[derive(Debug)]
struct State {
    requests: Box<[ibv_send_wr]>,
    parts: Box<[ibv_sge]>,
    collected: usize,
    /// Frames that the device has, oldest first.
    in_flight: VecDeque<u64>,
    /// The number of the request behind them.
    next: u64,
    unsignaled: u32,
    /// Frames that it has given back, of the pool.
    free: Vec<u64>,
    is_lost: bool,
}

/// A send queue, of who fills it and of who rings its doorbell.
#[derive(Debug)]
pub(crate) struct SendQueue {
    device: Arc<Opened>,
    base: u64,
    state: OneUser<State>,
}

// SAFETY: pointers inside it point into it.
unsafe impl Send for State {}

/// The use of the queue.
struct Filling<'a> {
    queue: &'a SendQueue,
    state: Use<'a, State>,
}

impl SendQueue {
    pub(crate) fn new(device: Arc<Opened>, pool: &FramePool) -> Self {
        let entries = device.sizes.send as usize;
        Self {
            device,
            base: pool.memory().base().as_ptr() as u64,
            state: OneUser::new(State {
                requests: (0..COLLECTED_MAX).map(|_| empty_request()).collect(),
                parts: (0..COLLECTED_MAX).map(|_| ibv_sge::default()).collect(),
                collected: 0,
                in_flight: VecDeque::with_capacity(entries),
                next: 0,
                unsignaled: 0,
                free: Vec::with_capacity(entries + COLLECTED_MAX),
                is_lost: false,
            }),
        }
    }

    /// Nobody has it for longer than it takes to post.
    #[inline]
    fn use_it(&self) -> Filling<'_> {
        Filling {
            queue: self,
            state: self.state.use_it(),
        }
    }
}

impl Filling<'_> {
    #[inline]
    fn has_room(&self) -> bool {
        let entries = self.queue.device.sizes.send as usize;
        self.state.in_flight.len() + self.state.collected < entries
    }

    /// Takes back what the device has sent.
    fn take_back(&mut self) {
        let mut completions = [ibv_wc::default(); COMPLETIONS];
        let cq = self.queue.device.send_cq;
        // SAFETY: the queue is live, its one user is this, and there is room for so many.
        let count = unsafe { poll_cq(cq, COMPLETIONS as i32, completions.as_mut_ptr()) };
        let state = &mut *self.state;
        let count = match usize::try_from(count) {
            Ok(count) => count.min(COMPLETIONS),
            Err(_) => {
                state.is_lost = true;
                0
            }
        };
        for completion in &completions[..count] {
            state.is_lost |= completion.status != IBV_WC_SUCCESS;
            let oldest = state.next - state.in_flight.len() as u64;
            // It is of the last of them.
            let done = completion.wr_id.wrapping_sub(oldest).wrapping_add(1);
            let done = usize::try_from(done).unwrap_or(0);
            let done = done.min(state.in_flight.len());
            let frames = state.in_flight.drain(..done).filter(|it| *it != COPIED);
            state.free.extend(frames);
        }
    }

    #[inline]
    fn collect(&mut self, offset: u64, len: u32) {
        let sizes = self.queue.device.sizes;
        let part = ibv_sge {
            addr: self.queue.base + offset,
            length: len,
            lkey: self.queue.device.lkey,
        };
        let state = &mut *self.state;
        let place = state.collected;
        state.unsignaled += 1;
        let mut flags = 0;
        if state.unsignaled >= sizes.send_batch {
            flags |= IBV_SEND_SIGNALED;
            state.unsignaled = 0;
        }
        if len <= sizes.inline_max {
            flags |= IBV_SEND_INLINE;
        }
        state.parts[place] = part;
        let request = &mut state.requests[place];
        request.wr_id = state.next + place as u64;
        request.send_flags = flags;
        state.collected += 1;
    }

    /// Posts what was collected.
    #[inline]
    fn post(&mut self) -> KickOutcome {
        let (qp, base) = (self.queue.device.qp, self.queue.base);
        let state = &mut *self.state;
        let count = state.collected;
        if state.is_lost {
            return KickOutcome::Lost;
        }
        if count == 0 {
            return KickOutcome::Done;
        }
        let (first, part) = (state.requests.as_mut_ptr(), state.parts.as_mut_ptr());
        for (place, request) in state.requests.iter_mut().enumerate().take(count) {
            request.sg_list = part.wrapping_add(place);
            request.next = match place + 1 < count {
                true => first.wrapping_add(place + 1),
                false => std::ptr::null_mut(),
            };
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair is live, and the list ends with the last request.
        let failed = unsafe { post_send(qp, first, &raw mut bad) };
        let taken = match failed {
            0 => count,
            _ => (0..count)
                .find(|place| std::ptr::eq(first.wrapping_add(*place), bad))
                .unwrap_or(0),
        };
        for place in 0..taken {
            let offset = state.parts[place].addr - base;
            let is_copied = state.requests[place].send_flags & IBV_SEND_INLINE != 0;
            if is_copied {
                state.free.push(offset);
            }
            state
                .in_flight
                .push_back(if is_copied { COPIED } else { offset });
        }
        state.next += taken as u64;
        // What is left keeps its number, which follows from its place.
        state.requests.copy_within(taken..count, 0);
        state.parts.copy_within(taken..count, 0);
        state.collected = count - taken;
        match failed {
            0 => KickOutcome::Done,
            libc::ENOMEM | libc::EAGAIN => KickOutcome::Again,
            _ => {
                state.is_lost = true;
                KickOutcome::Lost
            }
        }
    }
}

/// A sending side.
#[derive(Debug)]
pub struct VerbsTx {
    queue: Arc<SendQueue>,
    /// A frame that was taken and not used.
    spare: Option<Frame>,
}

impl VerbsTx {
    pub(crate) fn new(queue: Arc<SendQueue>) -> Self {
        Self { queue, spare: None }
    }
}

impl TxRing for VerbsTx {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        let batch = self.queue.device.sizes.send_batch as usize;
        let mut used = self.queue.use_it();
        if !used.has_room() {
            used.take_back();
            if !used.has_room() {
                return None;
            }
        }
        if let Some(frame) = self.spare.take() {
            return Some(frame);
        }
        // The frame given back last is the first to be used again: its lines are in the cache.
        if used.state.free.is_empty() && used.state.in_flight.len() >= batch {
            used.take_back();
        }
        let free = used.state.free.pop();
        drop(used);
        free.and_then(|offset| pool.reclaim(offset, 0))
            .or_else(|| pool.take())
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        let mut used = self.queue.use_it();
        if used.state.is_lost || !used.has_room() {
            return pool.give(frame);
        }
        if used.state.collected == COLLECTED_MAX {
            let _ = used.post();
        }
        if used.state.collected == COLLECTED_MAX {
            return pool.give(frame);
        }
        let len = frame.len() as u32;
        used.collect(pool.release_to_device(frame), len);
    }

    fn cancel(&mut self, frame: Frame) {
        debug_assert!(self.spare.is_none());
        self.spare = Some(frame);
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        true
    }
}

/// Posts what was collected.
#[derive(Debug)]
pub struct VerbsKick {
    queue: Arc<SendQueue>,
}

impl VerbsKick {
    pub(crate) fn new(queue: Arc<SendQueue>) -> Self {
        Self { queue }
    }
}

impl Kick for VerbsKick {
    #[inline]
    fn kick(&self) -> KickOutcome {
        self.queue.use_it().post()
    }
}
