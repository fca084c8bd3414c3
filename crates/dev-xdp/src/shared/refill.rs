//! Empty frames on their way back to the kernel, and what is left of a process that has died.

use std::sync::atomic::Ordering;

use super::area::{Area, LEVEL_MIN};
use super::client::Client;
use super::lock::Locked;
use crate::queue::Producer;

/// Frames received while the kernel had enough, until it gets half as many.
const CALM_FRAMES: u32 = 1 << 17;

/// The fill ring of a queue, which the processes of an area fill in turns.
#[derive(Debug)]
pub(super) struct Refill {
    fill: Producer<u64>,
    queue: u32,
    /// Frames that this process has.
    owed: Vec<u32>,
    /// More may come while nobody looks than usually waits.
    expects_bursts: bool,
}

impl Refill {
    pub(super) fn new(fill: Producer<u64>, queue: u32) -> Self {
        Self {
            fill,
            queue,
            owed: Vec::with_capacity(128),
            expects_bursts: false,
        }
    }

    pub(super) fn expect_bursts(&mut self, expected: bool) {
        self.expects_bursts = expected;
    }

    /// A frame is this process's from here on, until it is given back.
    #[inline]
    pub(super) fn owe(&mut self, area: &Area, client: Client, frame: u32) {
        area.owner(frame).store(client.octet(), Ordering::Relaxed);
        self.owed.push(frame);
    }

    /// How many frames this process has.
    #[inline]
    pub(super) fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Gives them back, if nobody else is about it.
    #[inline(never)]
    pub(super) fn give_back(&mut self, area: &Area, client: Client) {
        if let Some(locked) = area.try_lock(client) {
            self.fill_up(&locked, area, client);
        }
    }

    /// Has the kernel have as many as it should, and puts the rest to those that are free.
    pub(super) fn fill_up(&mut self, _locked: &Locked<'_>, area: &Area, client: Client) {
        let has = self.fill.take_turn();
        let missing = self.adapt(area, has).saturating_sub(has);
        let first = self.fill.next();
        for _ in 0..missing {
            let next = self.owed.pop().or_else(|| area.pop_free(client.octet()));
            let Some(frame) = next else { break };
            if !self.fill.push(area.shape().rx_address(frame)) {
                self.owed.push(frame);
                break;
            }
        }
        self.hand_over(area, first);
        for frame in self.owed.drain(..) {
            area.push_free(frame);
            area.owner(frame).store(0, Ordering::Release);
        }
    }

    /// Shows the kernel what was written from `first` on. In this order: see `recover`.
    fn hand_over(&mut self, area: &Area, first: u32) {
        let end = self.fill.next();
        let moving = area.moving();
        for (place, value) in moving.iter().zip([self.queue, first, end]) {
            place.store(value, Ordering::Release);
        }
        self.fill.publish();
        for frame in self.written(area, first, end) {
            area.owner(frame).store(0, Ordering::Release);
        }
        // Done: what comes back of them belongs to whom it came to.
        moving[1].store(end, Ordering::Release);
    }

    /// The frames of these entries.
    fn written<'a>(
        &'a self,
        area: &'a Area,
        first: u32,
        end: u32,
    ) -> impl Iterator<Item = u32> + 'a {
        let count = end.wrapping_sub(first).min(self.fill.size());
        (0..count)
            .map(move |index| self.fill.written(first.wrapping_add(index)))
            .filter_map(|address| area.shape().rx_frame(address))
    }

    /// How many frames the kernel is to have, which `has` so many: more when it had hardly half of
    /// that, fewer when it had enough for long.
    fn adapt(&self, area: &Area, has: u32) -> u32 {
        let max = self.fill.size().min(area.shape().rx_frames);
        let level = area.level().load(Ordering::Relaxed);
        let level = level.clamp(LEVEL_MIN.min(max), max);
        let calm = area.calm().load(Ordering::Relaxed);
        let (next, calm) = if has < level / 2 {
            ((level * 2).min(max), 0)
        } else if calm < CALM_FRAMES {
            (level, calm.saturating_add(self.owed.len() as u32))
        } else {
            ((level / 2).max(LEVEL_MIN.min(max)), 0)
        };
        area.level().store(next, Ordering::Relaxed);
        area.calm().store(calm, Ordering::Relaxed);
        if self.expects_bursts { max } else { next }
    }
}

/// Frees what a dead process has left: the frames that bear its name, and those that it had not
/// read yet (`unread`). Nothing is delivered to it any more. `fills`: those of all queues, in their
/// order. If it died with the lock, [`finish_for`] comes first.
pub(super) fn recover(
    locked: &Locked<'_>,
    area: &Area,
    fills: &mut [Refill],
    dead: Client,
    unread: impl IntoIterator<Item = u32>,
) -> usize {
    let shape = area.shape();
    let mut is_left = vec![false; shape.rx_frames as usize];
    for frame in 0..shape.rx_frames {
        is_left[frame as usize] = area.owner(frame).load(Ordering::Acquire) == dead.octet();
    }
    for frame in unread {
        is_left[frame as usize] = true;
    }
    // It had got so far with giving them back, but for taking its name off.
    for frame in area.free_frames().filter(|frame| *frame < shape.rx_frames) {
        is_left[frame as usize] = false;
        area.owner(frame).store(0, Ordering::Relaxed);
    }
    let left = (0..shape.rx_frames).filter(|frame| is_left[*frame as usize]);
    let count = left
        .inspect(|frame| {
            area.push_free(*frame);
            area.owner(*frame).store(0, Ordering::Release);
        })
        .count();
    for refill in fills {
        refill.fill_up(locked, area, Client::BROKER);
    }
    count
}

/// Ends what a dead process was about under its lock, which the caller has.
pub(super) fn finish_for(locked: &Locked<'_>, area: &Area, fills: &mut [Refill], dead: Client) {
    finish_move(area, fills, dead);
    for refill in fills {
        refill.fill_up(locked, area, Client::BROKER);
    }
}

/// A move of frames to the kernel that its process did not live to end: if the kernel was shown
/// them, they are not the process's any more. Some may have come back since, to others.
fn finish_move(area: &Area, fills: &mut [Refill], dead: Client) {
    let [queue, first, end] = area
        .moving()
        .each_ref()
        .map(|it| it.load(Ordering::Acquire));
    let Some(refill) = fills.get_mut(queue as usize) else {
        return;
    };
    refill.fill.take_turn();
    if refill.fill.next() != end {
        return;
    }
    for frame in refill.written(area, first, end) {
        let owner = area.owner(frame);
        let _ = owner.compare_exchange(dead.octet(), 0, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
