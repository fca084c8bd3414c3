//! The timers of one connection.

use crate::Instant;

/// Each can be set once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// The first, beside what every segment touches.
    DelayedAck,
    /// What [`Recovery`](crate::recovery::Recovery) waits for: `deadline`, kept here as well.
    Recovery,
    /// A SYN again, or the zero-window probe.
    Retransmit,
    KeepAlive,
    /// FIN-WAIT-2 of an orphan, TIME-WAIT.
    Linger,
    /// The next paced segment.
    Pacing,
    /// `TCP_USER_TIMEOUT`, once something was sent again or probed for.
    UserTimeout,
}

/// When each timer expires, and when the owner is to call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Timers {
    /// A bit for each timer.
    set: u8,
    /// A timer was set to expire before `wake_up`.
    is_earlier: bool,
    /// The owner was told to call at this time, at the latest.
    wake_up: Instant,
    /// Those that are not set have any time.
    at: [Instant; Self::COUNT],
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            set: 0,
            is_earlier: false,
            wake_up: NEVER,
            at: [NEVER; Self::COUNT],
        }
    }
}

impl Timer {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Timers {
    const COUNT: usize = 7;
    /// Where that ends which received data touches, in octets: [`Timer::DelayedAck`] is the first.
    pub(crate) const RECEIVING: usize = core::mem::offset_of!(Self, at) + size_of::<Instant>();

    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(slot) = self.at.get_mut(timer as usize) {
            *slot = at;
        }
        self.set |= timer.bit();
        self.is_earlier |= at < self.wake_up;
    }

    #[inline]
    pub(crate) fn stop(&mut self, timer: Timer) {
        self.set &= !timer.bit();
    }

    /// Sets the timer if there is a time, else stops it.
    #[inline]
    pub(crate) fn put(&mut self, timer: Timer, at: Option<Instant>) {
        match at {
            Some(at) => self.set(timer, at),
            None => self.stop(timer),
        }
    }

    pub(crate) fn stop_all(&mut self) {
        self.set = 0;
    }

    #[inline]
    pub(crate) fn get(&self, timer: Timer) -> Option<Instant> {
        let at = self.at.get(timer as usize)?;
        self.is_set(timer).then_some(*at)
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.set & timer.bit() != 0
    }

    /// Whether the timer has expired; if so it is stopped.
    pub(crate) fn take_expired(&mut self, timer: Timer, now: Instant) -> bool {
        let is_expired = self.get(timer).is_some_and(|at| at <= now);
        if is_expired {
            self.stop(timer);
        }
        is_expired
    }

    /// The earliest.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        let mut next = NEVER;
        let mut set = self.set;
        while set != 0 {
            if let Some(at) = self.at.get(set.trailing_zeros() as usize) {
                next = next.min(*at);
            }
            set &= set.wrapping_sub(1);
        }
        (next != NEVER).then_some(next)
    }

    /// The earliest, if the owner must be told of it: it would call later, or never.
    #[inline]
    pub(crate) fn take_wake_up(&mut self) -> Option<Instant> {
        if !self.is_earlier {
            return None;
        }
        self.is_earlier = false;
        let next = self.next().filter(|next| *next < self.wake_up)?;
        self.wake_up = next;
        Some(next)
    }

    /// The owner has called; if it had been told to, it must be told anew.
    pub(crate) fn on_wake_up(&mut self, now: Instant) {
        if self.wake_up <= now {
            self.wake_up = NEVER;
            self.is_earlier = true;
        }
    }

    pub(crate) fn check_invariants(&self) {
        let is_told = self.next().is_none_or(|next| self.wake_up <= next);
        assert!(
            is_told || self.is_earlier,
            "nobody will call in time: {self:?}"
        );
    }
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn the_owner_is_told_of_earlier_times_only() {
        let mut timers = Timers::default();
        assert_eq!(timers.take_wake_up(), None);
        timers.set(Timer::KeepAlive, at(1000));
        assert_eq!(timers.take_wake_up(), Some(at(1000)));
        assert_eq!(timers.take_wake_up(), None);
        timers.set(Timer::Pacing, at(100));
        timers.set(Timer::DelayedAck, at(200));
        assert_eq!(timers.take_wake_up(), Some(at(100)));
        // It will call at 100 anyway.
        timers.stop(Timer::Pacing);
        timers.set(Timer::DelayedAck, at(150));
        assert_eq!(timers.take_wake_up(), None);
        timers.on_wake_up(at(99));
        assert_eq!(timers.take_wake_up(), None);
        timers.on_wake_up(at(100));
        assert_eq!(timers.take_wake_up(), Some(at(150)));
    }

    #[test]
    fn a_timer_that_was_stopped_at_once_wakes_nobody() {
        let mut timers = Timers::default();
        timers.set(Timer::KeepAlive, at(1000));
        assert_eq!(timers.take_wake_up(), Some(at(1000)));
        timers.set(Timer::DelayedAck, at(40));
        timers.stop(Timer::DelayedAck);
        assert_eq!(timers.take_wake_up(), None);
        assert_eq!(timers.next(), Some(at(1000)));
        timers.stop_all();
        assert_eq!(timers.next(), None);
        assert!(!timers.is_set(Timer::KeepAlive));
    }
}
