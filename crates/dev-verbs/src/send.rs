//! The sending side: frames that the device has, and what it gives back of them.

use std::collections::VecDeque;
use std::sync::Arc;

use dev_core::{Frame, FramePool, Kick, KickOutcome, TxRing};

use crate::one_user::{OneUser, Use};
use crate::opened::Opened;
use crate::work::{Done, Place, Work};
use crate::{mlx5, provider};

/// In the place of a frame whose memory is free again.
const COPIED: u64 = u64::MAX;
/// A bit of an offset: the frame is copied when the device is told of it.
const WILL_BE_COPIED: u64 = 1 << 63;

#[derive(Debug)]
enum Queue {
    Provider(provider::SendQueue),
    Mlx5(mlx5::SendQueue),
}

/// Evaluates to the same expression of whichever it is.
macro_rules! of_either {
    ($queue:expr, $it:ident => $value:expr) => {
        match $queue {
            Queue::Provider($it) => $value,
            Queue::Mlx5($it) => $value,
        }
    };
}

#[derive(Debug)]
struct State {
    queue: Queue,
    /// Frames of requests that are not done, oldest first.
    in_flight: VecDeque<u64>,
    /// The number of the request behind them.
    next: u64,
    /// The first of them that the device was not told of.
    untold: u64,
    unsignaled: u32,
    /// Frames that it has given back, of the pool.
    free: Vec<u64>,
    is_lost: bool,
}

/// A send queue, of who fills it and of who rings its doorbell.
#[derive(Debug)]
pub(crate) struct SendQueue {
    batch: u32,
    inline_max: u32,
    state: OneUser<State>,
    /// Its queues live as long.
    _device: Arc<Opened>,
}

/// The use of the queue.
struct Filling<'a> {
    queue: &'a SendQueue,
    state: Use<'a, State>,
}

impl SendQueue {
    pub(crate) fn new(device: Arc<Opened>) -> Self {
        let sizes = device.sizes;
        let queue = match &device.memory {
            Some(memory) => {
                // SAFETY: the queue pair is live.
                let number = unsafe { (*device.qp).qp_num };
                let bf = sizes.blueflame;
                Queue::Mlx5(mlx5::SendQueue::new(memory, number, device.frames, bf))
            }
            None => Queue::Provider(provider::SendQueue::new(&device)),
        };
        let entries = sizes.send as usize;
        Self {
            batch: sizes.send_batch,
            inline_max: sizes.inline_max,
            state: OneUser::new(State {
                queue,
                in_flight: VecDeque::with_capacity(entries),
                next: 0,
                untold: 0,
                unsignaled: 0,
                free: Vec::with_capacity(entries),
                is_lost: false,
            }),
            _device: device,
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

impl State {
    fn oldest(&self) -> u64 {
        self.next - self.in_flight.len() as u64
    }

    /// Takes back what the device has sent.
    fn take_back(&mut self) {
        let Done { last, is_lost } = of_either!(&mut self.queue, it => it.done());
        self.is_lost |= is_lost;
        let Some(last) = last else {
            return;
        };
        // One that is not on its way would be a device's fault.
        let done = last.wrapping_sub(self.oldest()).wrapping_add(1);
        let done = usize::try_from(done).unwrap_or(0);
        let done = done.min(self.in_flight.len());
        let frames = self.in_flight.drain(..done).filter(|it| *it != COPIED);
        self.free.extend(frames);
    }
}

impl Filling<'_> {
    #[inline]
    fn has_room(&self) -> bool {
        let inline_max = self.queue.inline_max;
        of_either!(&self.state.queue, it => it.has_room(inline_max))
    }

    #[inline]
    fn put(&mut self, frame: Place) {
        let is_inline = frame.len <= self.queue.inline_max;
        let state = &mut *self.state;
        state.unsignaled += 1;
        let is_signaled = state.unsignaled >= self.queue.batch;
        if is_signaled {
            state.unsignaled = 0;
        }
        let is_free = of_either!(&mut state.queue, it => it.put(frame, is_inline, is_signaled));
        state.next += 1;
        state.in_flight.push_back(match (is_free, is_inline) {
            (true, _) => COPIED,
            (false, true) => frame.offset | WILL_BE_COPIED,
            (false, false) => frame.offset,
        });
        if is_free {
            state.free.push(frame.offset);
        }
    }

    /// Tells the device of what was put in.
    #[inline]
    fn post(&mut self) -> KickOutcome {
        let state = &mut *self.state;
        if state.is_lost {
            return KickOutcome::Lost;
        }
        let (told, result) = of_either!(&mut state.queue, it => it.ring());
        let first = (state.untold - state.oldest()) as usize;
        for place in state.in_flight.iter_mut().skip(first).take(told) {
            if *place != COPIED && *place & WILL_BE_COPIED != 0 {
                state.free.push(*place & !WILL_BE_COPIED);
                *place = COPIED;
            }
        }
        state.untold += told as u64;
        match result {
            Ok(()) => KickOutcome::Done,
            Err(libc::ENOMEM | libc::EAGAIN) => KickOutcome::Again,
            Err(_) => {
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
        let batch = self.queue.batch as usize;
        let mut used = self.queue.use_it();
        if !used.has_room() {
            let _ = used.post();
            used.state.take_back();
            if !used.has_room() {
                return None;
            }
        }
        if let Some(frame) = self.spare.take() {
            return Some(frame);
        }
        // The frame given back last is the first to be used again: its lines are in the cache.
        if used.state.free.is_empty() && used.state.in_flight.len() >= batch {
            used.state.take_back();
        }
        let free = used.state.free.pop();
        drop(used);
        free.and_then(|offset| pool.reclaim(offset, 0))
            .or_else(|| pool.take())
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        let mut used = self.queue.use_it();
        if !used.has_room() {
            let _ = used.post();
            used.state.take_back();
        }
        if used.state.is_lost || !used.has_room() {
            return pool.give(frame);
        }
        let len = frame.len() as u32;
        let offset = pool.release_to_device(frame);
        used.put(Place { offset, len });
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

/// Tells the device of what was put in.
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
