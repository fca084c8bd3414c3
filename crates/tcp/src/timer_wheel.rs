//! Timers of many connections: a hierarchical timing wheel (Varghese and Lauck, 1987, scheme 7).
//!
//! Each timer is known by a small number that its owner has anyway, such as the connection's index;
//! a connection has one timer, for the earliest of its deadlines. Arming, disarming and re-arming
//! take constant time and no memory once the numbers have been used. Re-arming for later, which
//! every acknowledgement does, is one store: the timer stays where it is and is moved on when its
//! old time comes. So [`TimerWheel::next_expiry`] may be early, and [`TimerWheel::poll`] then finds
//! nothing; it is never late.

use core::time::Duration;

use crate::Instant;
use crate::links::{NIL, position};

/// 64 slots a level, one bit each in a word.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
/// Ticks of 2^48 at most: with a tick of 1 ms more than the clock can count.
const LEVELS: usize = 8;
const MAX_TICK: u64 = (1 << 48) - 1;

/// [`Node::place`] of a timer that is not armed, and of one that has expired and waits for
/// [`TimerWheel::poll`].
const IDLE: u16 = u16::MAX;
const DUE: u16 = u16::MAX - 1;

/// A wheel with timers `0..`, as many as were ever armed.
#[derive(Clone, Debug)]
pub struct TimerWheel {
    tick_nanos: u64,
    /// Everything up to this tick has been looked at.
    now_tick: u64,
    levels: [Level; LEVELS],
    nodes: Vec<Node>,
    due: u32,
    armed: u32,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    occupied: u64,
    heads: [u32; SLOTS],
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// When it is to expire, which may be later than its place says.
    tick: u64,
    previous: u32,
    next: u32,
    /// Level and slot, or [`IDLE`] or [`DUE`].
    place: u16,
}

const _: () = assert!(size_of::<Node>() == 24);

impl TimerWheel {
    /// Deadlines are rounded up to multiples of `tick` (1 ms is usual) on the caller's clock.
    #[must_use]
    pub fn new(tick: Duration, now: Instant) -> Self {
        let tick_nanos = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self {
            tick_nanos,
            now_tick: now.as_nanos().checked_div(tick_nanos).unwrap_or(0),
            levels: [Level {
                occupied: 0,
                heads: [NIL; SLOTS],
            }; LEVELS],
            nodes: Vec::new(),
            due: NIL,
            armed: 0,
        }
    }

    /// Sets timer `id` to expire at `deadline`, not before it and less than a tick after it.
    pub fn arm(&mut self, id: u32, deadline: Instant) {
        let tick = self.tick_of(deadline);
        let index = position(id);
        if index >= self.nodes.len() {
            self.nodes.resize(index.saturating_add(1), Node::IDLE);
        }
        let Some(node) = self.nodes.get_mut(index) else {
            return;
        };
        match node.place {
            IDLE => self.armed = self.armed.saturating_add(1),
            DUE => self.unlink(id),
            _ if tick >= node.tick => {
                node.tick = tick;
                return;
            }
            _ => self.unlink(id),
        }
        if let Some(node) = self.nodes.get_mut(index) {
            node.tick = tick;
        }
        self.link(id, tick);
    }

    /// As [`Self::arm`], unless the timer is set to expire before that.
    pub fn arm_earlier(&mut self, id: u32, deadline: Instant) {
        let is_earlier = self
            .nodes
            .get(position(id))
            .is_some_and(|node| node.place != IDLE && node.tick <= self.tick_of(deadline));
        if !is_earlier {
            self.arm(id, deadline);
        }
    }

    /// The memory that arming timer `id` looks at first, for the processor to fetch.
    #[inline]
    #[must_use]
    pub fn address(&self, id: u32) -> *const u8 {
        let node = self.nodes.get(position(id));
        node.map_or(core::ptr::null(), |node| core::ptr::from_ref(node).cast())
    }

    /// Timer `id` does not expire any more.
    pub fn disarm(&mut self, id: u32) {
        if self.is_armed(id) {
            self.unlink(id);
            self.set_place(id, IDLE);
            self.armed = self.armed.saturating_sub(1);
        }
    }

    /// A timer that has expired by `now`, which disarms it. Call until `None`.
    pub fn poll(&mut self, now: Instant) -> Option<u32> {
        let now_tick = now.as_nanos().checked_div(self.tick_nanos).unwrap_or(0);
        while self.due == NIL {
            if !self.advance(now_tick) {
                return None;
            }
        }
        let id = self.due;
        self.disarm(id);
        Some(id)
    }

    /// When to call [`Self::poll`] next; not later than the first deadline.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        let tick = if self.due == NIL {
            self.next_slot()?.0
        } else {
            self.now_tick
        };
        Some(Instant::from_nanos(tick.saturating_mul(self.tick_nanos)))
    }

    #[must_use]
    pub fn is_armed(&self, id: u32) -> bool {
        self.nodes
            .get(position(id))
            .is_some_and(|node| node.place != IDLE)
    }

    /// Timers that are armed.
    #[must_use]
    pub const fn armed(&self) -> u32 {
        self.armed
    }

    fn tick_of(&self, deadline: Instant) -> u64 {
        deadline.as_nanos().div_ceil(self.tick_nanos).min(MAX_TICK)
    }

    /// Goes on to the next slot, but not past `now_tick`. Returns whether there was one.
    fn advance(&mut self, now_tick: u64) -> bool {
        let Some((tick, level, slot)) = self.next_slot().filter(|&(tick, ..)| tick <= now_tick)
        else {
            self.now_tick = self.now_tick.max(now_tick.min(MAX_TICK));
            return false;
        };
        self.now_tick = self.now_tick.max(tick);
        let Some(wheel) = self.levels.get_mut(level) else {
            return false;
        };
        let Some(head) = wheel.heads.get_mut(slot) else {
            return false;
        };
        let mut id = core::mem::replace(head, NIL);
        wheel.occupied &= !(1 << slot);
        while let Some(&Node { tick, next, .. }) = self.nodes.get(position(id)) {
            self.link(id, tick);
            id = next;
        }
        true
    }

    /// The first slot that holds timers: its tick, level and number. All timers of a level are
    /// ahead of `now_tick` in the level's present round, and those of a lower level come before
    /// those of a higher one.
    fn next_slot(&self) -> Option<(u64, usize, usize)> {
        let (level, occupied) = self
            .levels
            .iter()
            .map(|level| level.occupied)
            .enumerate()
            .find(|(_, occupied)| *occupied != 0)?;
        let slot = u64::from(occupied.trailing_zeros());
        let shift = SLOT_BITS.saturating_mul(u32::try_from(level).ok()?);
        let round = self.now_tick >> shift & !SLOT_MASK;
        Some(((round | slot) << shift, level, usize::try_from(slot).ok()?))
    }

    /// Puts a timer that is in no list where its tick belongs.
    fn link(&mut self, id: u32, tick: u64) {
        if tick <= self.now_tick {
            self.push(id, DUE);
            return;
        }
        // The highest digit, to the base of 64, in which the tick differs from now.
        let differing = tick ^ self.now_tick;
        let level = differing.ilog2().checked_div(SLOT_BITS).unwrap_or(0);
        let slot = tick >> SLOT_BITS.saturating_mul(level) & SLOT_MASK;
        let place = u64::from(level) << SLOT_BITS | slot;
        self.push(id, u16::try_from(place).unwrap_or(DUE));
    }

    fn push(&mut self, id: u32, place: u16) {
        let Some(head) = self.head_mut(place) else {
            return;
        };
        let next = core::mem::replace(head, id);
        if let Some(node) = self.nodes.get_mut(position(id)) {
            node.previous = NIL;
            node.next = next;
            node.place = place;
        }
        if let Some(node) = self.nodes.get_mut(position(next)) {
            node.previous = id;
        }
        if let Some((level, slot)) = split(place)
            && let Some(level) = self.levels.get_mut(level)
        {
            level.occupied |= 1 << slot;
        }
    }

    fn unlink(&mut self, id: u32) {
        let Some(&Node {
            previous,
            next,
            place,
            ..
        }) = self.nodes.get(position(id))
        else {
            return;
        };
        if let Some(node) = self.nodes.get_mut(position(next)) {
            node.previous = previous;
        }
        if let Some(node) = self.nodes.get_mut(position(previous)) {
            node.next = next;
            return;
        }
        let Some(head) = self.head_mut(place) else {
            return;
        };
        *head = next;
        if next == NIL
            && let Some((level, slot)) = split(place)
            && let Some(level) = self.levels.get_mut(level)
        {
            level.occupied &= !(1 << slot);
        }
    }

    fn head_mut(&mut self, place: u16) -> Option<&mut u32> {
        if place == DUE {
            return Some(&mut self.due);
        }
        let (level, slot) = split(place)?;
        self.levels.get_mut(level)?.heads.get_mut(slot)
    }

    fn set_place(&mut self, id: u32, place: u16) {
        if let Some(node) = self.nodes.get_mut(position(id)) {
            node.place = place;
        }
    }
}

impl Node {
    const IDLE: Self = Self {
        tick: 0,
        previous: NIL,
        next: NIL,
        place: IDLE,
    };
}

/// Level and slot of a place in the wheel.
fn split(place: u16) -> Option<(usize, usize)> {
    let level = usize::from(place >> SLOT_BITS);
    (level < LEVELS).then_some((level, usize::from(place) & (SLOTS - 1)))
}

#[cfg(test)]
mod tests;
