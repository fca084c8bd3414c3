//! The timers of one connection.

use crate::Instant;

/// Each can be set once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Timer {
    /// Retransmission timeout, tail loss probe, reordering timeout or zero-window probe: one at a time, as in Linux.
    Retransmit,
    DelayedAck,
    KeepAlive,
    /// FIN-WAIT-2 of an orphan, TIME-WAIT.
    Linger,
    /// The next paced segment.
    Pacing,
    /// `TCP_USER_TIMEOUT`, once something was sent again or probed for.
    UserTimeout,
}

/// When each timer expires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers([Instant; Self::COUNT]);

impl Default for Timers {
    fn default() -> Self {
        Self([NEVER; Self::COUNT])
    }
}

impl Timers {
    const COUNT: usize = 6;

    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(slot) = self.0.get_mut(timer as usize) {
            *slot = at;
        }
    }

    #[inline]
    pub(crate) fn stop(&mut self, timer: Timer) {
        self.set(timer, NEVER);
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::default();
    }

    #[inline]
    pub(crate) fn get(&self, timer: Timer) -> Option<Instant> {
        self.0
            .get(timer as usize)
            .copied()
            .filter(|at| *at != NEVER)
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.get(timer).is_some()
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
        self.0.iter().copied().min().filter(|at| *at != NEVER)
    }
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);
