//! The sending side: frames that the device has, and what it gives back of them.

use std::collections::VecDeque;
use std::sync::Arc;

use dev_core::{Frame, FramePool, Kick, KickOutcome, TxRing};

use crate::one_user::{OneUser, Use};
use crate::pair::Pair;
use crate::tag::{TAG_BYTES, Tag};
use crate::work::{Done, Place, Work};
use crate::{mlx5, provider};

/// The longest packet that is sent to be cut.
const LONGEST_BYTES: u32 = 1 << 16;
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
    /// The first of them that the provider was not told of.
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
    /// What frames get before they are put in.
    tag: Option<Tag>,
    /// Bytes that they get in the queue.
    added: u32,
    state: OneUser<State>,
    pair: Arc<Pair>,
}

/// The use of the queue.
struct Filling<'a> {
    queue: &'a SendQueue,
    state: Use<'a, State>,
}

impl SendQueue {
    pub(crate) fn new(pair: Arc<Pair>) -> Self {
        let (sizes, device) = (pair.sizes, &pair.device);
        let (queue, tag, added) = match &pair.memory {
            // The tag goes into the queue, with the frame's beginning.
            Some(memory) => (
                Queue::Mlx5(mlx5::SendQueue::new(memory, &pair, device.tag)),
                None,
                device.tag.map_or(0, |_| TAG_BYTES),
            ),
            None => (
                Queue::Provider(provider::SendQueue::new(&pair)),
                device.tag,
                0,
            ),
        };
        let entries = sizes.send as usize;
        Self {
            batch: sizes.send_batch,
            inline_max: sizes.inline_max,
            tag,
            added: added as u32,
            state: OneUser::new(State {
                queue,
                in_flight: VecDeque::with_capacity(entries),
                next: 0,
                untold: 0,
                unsignaled: 0,
                free: Vec::with_capacity(entries),
                is_lost: false,
            }),
            pair,
        }
    }

    /// Whether the device cuts packets of any length into segments.
    pub(crate) fn cuts(&self) -> bool {
        self.pair.memory.is_some() && self.pair.device.cuts_bytes >= LONGEST_BYTES
    }

    /// An empty frame: one that the device has given back, or of the pool.
    pub(crate) fn free_frame(&self, pool: &FramePool) -> Option<Frame> {
        let mut used = self.use_it();
        if used.state.free.is_empty() {
            used.state.take_back();
        }
        let free = used.state.free.pop();
        drop(used);
        free.and_then(|offset| pool.reclaim(offset, 0))
            .or_else(|| pool.take())
    }

    /// Makes room for a packet that the device cuts. Returns whether there is some.
    pub(crate) fn make_room_for_whole(&self) -> bool {
        self.use_it().make_room_for_whole()
    }

    /// Sends a packet that the device cuts into pieces of `segment_len`, or a short one, by itself.
    /// Returns whether there was room.
    pub(crate) fn send_whole(
        &self,
        headers: &[u8],
        parts: &[Place],
        segment_len: Option<u16>,
    ) -> bool {
        let mut used = self.use_it();
        if !used.make_room_for_whole() {
            return false;
        }
        let state = &mut *used.state;
        let Queue::Mlx5(queue) = &mut state.queue else {
            return false;
        };
        let is_signaled = count_unsignaled(&mut state.unsignaled, parts.len(), self.batch);
        queue.put_whole(headers, parts, segment_len, is_signaled);
        state.next += parts.len() as u64;
        state.in_flight.extend(parts.iter().map(|part| part.offset));
        // What it does not take is lost, as on any way.
        let _ = used.post();
        true
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

/// Counts frames that no completion will tell of, and so many more. Returns whether one is to.
#[inline]
fn count_unsignaled(unsignaled: &mut u32, more: usize, batch: u32) -> bool {
    *unsignaled += more as u32;
    let is_due = *unsignaled >= batch;
    if is_due {
        *unsignaled = 0;
    }
    is_due
}

impl State {
    /// The device was told of so many more: what was to be copied has been.
    fn copied(&mut self, told: usize) {
        let first = (self.untold - self.oldest()) as usize;
        for place in self.in_flight.iter_mut().skip(first).take(told) {
            if *place != COPIED && *place & WILL_BE_COPIED != 0 {
                self.free.push(*place & !WILL_BE_COPIED);
                *place = COPIED;
            }
        }
        self.untold += told as u64;
    }

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
    fn make_room_for_whole(&mut self) -> bool {
        let has_room = |state: &State| match &state.queue {
            Queue::Mlx5(queue) => queue.has_room_for_whole() && !state.is_lost,
            Queue::Provider(_) => false,
        };
        has_room(&self.state) || {
            self.state.take_back();
            has_room(&self.state)
        }
    }

    #[inline]
    fn has_room(&self) -> bool {
        let inline_max = self.queue.inline_max;
        of_either!(&self.state.queue, it => it.has_room(inline_max))
    }

    /// Makes room for a frame. Returns whether there is some.
    #[inline]
    fn make_room(&mut self) -> bool {
        self.has_room() || {
            let _ = self.post();
            self.state.take_back();
            self.has_room()
        }
    }

    #[inline]
    fn put(&mut self, frame: Place) {
        let is_inline = frame.len + self.queue.added <= self.queue.inline_max;
        let state = &mut *self.state;
        let is_signaled = count_unsignaled(&mut state.unsignaled, 1, self.queue.batch);
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
        if matches!(state.queue, Queue::Provider(_)) {
            state.copied(told);
        }
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

/// A sending side: of each device that carries packets of the interface.
#[derive(Debug)]
pub struct VerbsTx {
    queues: Arc<[SendQueue]>,
    /// A frame that was taken and not used.
    spare: Option<Frame>,
}

impl VerbsTx {
    pub(crate) fn new(queues: Arc<[SendQueue]>) -> Self {
        Self {
            queues,
            spare: None,
        }
    }
}

/// By which device a frame leaves: a flow's by one, as long as the same devices are active.
#[inline]
pub(crate) fn queue_of<'a>(queues: &'a [SendQueue], frame: &[u8]) -> &'a SendQueue {
    if let [only] = queues {
        return only;
    }
    let is_active = |queue: &&SendQueue| queue.pair.device.is_active();
    let count = queues.iter().filter(is_active).count();
    let place = flow_number(frame).checked_rem(count).unwrap_or(0);
    let chosen = queues.iter().filter(is_active).nth(place);
    chosen.unwrap_or(&queues[0])
}

/// The same for all packets of a flow: of its addresses and ports.
fn flow_number(frame: &[u8]) -> usize {
    let is_v6 = frame.get(12) == Some(&0x86);
    let flow = if is_v6 { 22..58 } else { 26..38 };
    let words = frame.get(flow).unwrap_or(&[]).chunks_exact(4);
    let numbers = words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    // The upper bits of a product depend on all below.
    let mix = |sum: u64, it: u32| (sum ^ u64::from(it)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (numbers.fold(1, mix) >> 48) as usize
}

impl TxRing for VerbsTx {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        let mut free = None;
        for queue in &*self.queues {
            let mut used = queue.use_it();
            if !used.make_room() {
                if let Some(frame) = free.and_then(|offset| pool.reclaim(offset, 0)) {
                    pool.give(frame);
                }
                return None;
            }
            if self.spare.is_some() || free.is_some() {
                continue;
            }
            // The frame given back last is the first to be used again: its lines are in the cache.
            if used.state.free.is_empty() && used.state.in_flight.len() >= queue.batch as usize {
                used.state.take_back();
            }
            free = used.state.free.pop();
        }
        if let Some(frame) = self.spare.take() {
            return Some(frame);
        }
        free.and_then(|offset| pool.reclaim(offset, 0))
            .or_else(|| pool.take())
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        let queue = queue_of(&self.queues, pool.data(&frame));
        let tagged = match queue.tag {
            Some(tag) => tag.put_in(pool, frame),
            None => Some(frame),
        };
        let Some(frame) = tagged else {
            return;
        };
        let mut used = queue.use_it();
        if !used.make_room() || used.state.is_lost {
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

/// Tells the devices of what was put in.
#[derive(Debug)]
pub struct VerbsKick {
    queues: Arc<[SendQueue]>,
}

impl VerbsKick {
    pub(crate) fn new(queues: Arc<[SendQueue]>) -> Self {
        Self { queues }
    }
}

impl Kick for VerbsKick {
    #[inline]
    fn kick(&self) -> KickOutcome {
        if let [only] = &*self.queues {
            return only.use_it().post();
        }
        let mut outcome = KickOutcome::Done;
        for queue in &*self.queues {
            let of_one = queue.use_it().post();
            if of_one != KickOutcome::Done {
                outcome = of_one;
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_one_number() {
        let mut frame = [0_u8; 64];
        frame[12] = 0x08;
        frame[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4]);
        let number = flow_number(&frame);
        frame[38..60].fill(7);
        assert_eq!(flow_number(&frame), number, "whatever it carries");
        let ports = (0..=255).map(|port| {
            frame[37] = port;
            flow_number(&frame) % 2
        });
        let of_one = ports.sum::<usize>();
        assert!((100..156).contains(&of_one), "{of_one} of 256");
        assert_eq!(flow_number(&[]), 0);
    }
}
