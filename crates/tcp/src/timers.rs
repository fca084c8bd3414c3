//! The timers of one connection.

use crate::Instant;

/// Each can be set once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
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
    /// The last: its time is beside what every segment touches, not in [`Times`].
    DelayedAck,
}

/// Which timers are set, and when the owner is to call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Timers {
    /// A bit for each timer.
    set: u8,
    /// A timer was set to expire before `wake_up`.
    is_earlier: bool,
    /// The owner was told to call at this time, at the latest.
    wake_up: Instant,
    /// When [`Timer::DelayedAck`] expires: the one that received data sets.
    delayed_ack: Instant,
}

/// When the other timers expire. Those that are not set have any time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times([Instant; Self::COUNT]);

impl Default for Timers {
    fn default() -> Self {
        Self {
            set: 0,
            is_earlier: false,
            wake_up: NEVER,
            delayed_ack: NEVER,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self([NEVER; Self::COUNT])
    }
}

impl Times {
    const COUNT: usize = Timer::DelayedAck as usize;

    #[inline]
    fn get(&self, timer: Timer) -> Instant {
        self.0.get(timer as usize).copied().unwrap_or(NEVER)
    }

    #[inline]
    fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(time) = self.0.get_mut(timer as usize) {
            *time = at;
        }
    }
}

impl Timer {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Timers {
    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, at: Instant, times: &mut Times) {
        if timer == Timer::DelayedAck {
            self.delayed_ack = at;
        } else {
            times.set(timer, at);
        }
        self.set |= timer.bit();
        self.is_earlier |= at < self.wake_up;
    }

    #[inline]
    pub(crate) fn stop(&mut self, timer: Timer) {
        self.set &= !timer.bit();
    }

    pub(crate) fn stop_all(&mut self) {
        self.set = 0;
    }

    #[inline]
    pub(crate) fn get(&self, timer: Timer, times: &Times) -> Option<Instant> {
        self.is_set(timer).then(|| match timer {
            Timer::DelayedAck => self.delayed_ack,
            timer => times.get(timer),
        })
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.set & timer.bit() != 0
    }

    /// Whether the timer has expired; if so it is stopped.
    pub(crate) fn take_expired(&mut self, timer: Timer, now: Instant, times: &Times) -> bool {
        let is_expired = self.get(timer, times).is_some_and(|at| at <= now);
        if is_expired {
            self.stop(timer);
        }
        is_expired
    }

    /// The earliest.
    #[inline]
    pub(crate) fn next(&self, times: &Times) -> Option<Instant> {
        let mut next = if self.is_set(Timer::DelayedAck) {
            self.delayed_ack
        } else {
            NEVER
        };
        let mut set = self.set & !Timer::DelayedAck.bit();
        while set != 0 {
            if let Some(at) = times.0.get(set.trailing_zeros() as usize) {
                next = next.min(*at);
            }
            set &= set.wrapping_sub(1);
        }
        (next != NEVER).then_some(next)
    }

    /// The earliest, if the owner must be told of it: it would call later, or never.
    #[inline]
    pub(crate) fn take_wake_up(&mut self, times: &Times) -> Option<Instant> {
        if !self.is_earlier {
            return None;
        }
        self.is_earlier = false;
        let next = self.next(times).filter(|next| *next < self.wake_up)?;
        self.wake_up = next;
        Some(next)
    }

    /// The owner has called, perhaps for another reason than that it was told to: its one timer is
    /// no longer set, so it is told anew.
    pub(crate) fn on_wake_up(&mut self) {
        self.wake_up = NEVER;
        self.is_earlier = true;
    }

    pub(crate) fn check_invariants(&self, times: &Times) {
        let is_told = self.next(times).is_none_or(|next| self.wake_up <= next);
        assert!(
            is_told || self.is_earlier,
            "nobody will call in time: {self:?} {times:?}"
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
        let (mut timers, mut times) = (Timers::default(), Times::default());
        assert_eq!(timers.take_wake_up(&times), None);
        timers.set(Timer::KeepAlive, at(1000), &mut times);
        assert_eq!(timers.take_wake_up(&times), Some(at(1000)));
        assert_eq!(timers.take_wake_up(&times), None);
        timers.set(Timer::Pacing, at(100), &mut times);
        timers.set(Timer::DelayedAck, at(200), &mut times);
        assert_eq!(timers.take_wake_up(&times), Some(at(100)));
        // It will call at 100 anyway.
        timers.stop(Timer::Pacing);
        timers.set(Timer::DelayedAck, at(150), &mut times);
        assert_eq!(timers.take_wake_up(&times), None);
        timers.on_wake_up();
        assert_eq!(timers.take_wake_up(&times), Some(at(150)));
        // It calls early, because its timer was used for something else.
        timers.on_wake_up();
        assert_eq!(timers.take_wake_up(&times), Some(at(150)));
        assert_eq!(timers.take_wake_up(&times), None);
    }

    #[test]
    fn a_timer_that_was_stopped_at_once_wakes_nobody() {
        let (mut timers, mut times) = (Timers::default(), Times::default());
        timers.set(Timer::KeepAlive, at(1000), &mut times);
        assert_eq!(timers.take_wake_up(&times), Some(at(1000)));
        timers.set(Timer::DelayedAck, at(40), &mut times);
        timers.stop(Timer::DelayedAck);
        assert_eq!(timers.take_wake_up(&times), None);
        assert_eq!(timers.next(&times), Some(at(1000)));
        timers.stop_all();
        assert_eq!(timers.next(&times), None);
        assert!(!timers.is_set(Timer::KeepAlive));
    }
}
