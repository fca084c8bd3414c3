//! For how long there was something to send, and what held it back (kernel `tcp_chrono_start`,
//! `tcp_chrono_stop`).

use core::time::Duration;

use crate::Instant;

/// What bounds the sender. The later ones take precedence; all but the first count as busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// Nothing is to be sent or acknowledged.
    #[default]
    Idle,
    /// The network, or the application that has no more to send.
    Busy,
    /// The peer's window.
    ReceiveWindow,
    /// The send buffer: all of it is in flight, and the application has more.
    SendBuffer,
}

/// Counts in ticks of about a millisecond, as Linux does: rounding loses as much as it gains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chronometer {
    since: Instant,
    /// Of every limit but [`Limit::Idle`].
    totals: [u32; 3],
    limit: Limit,
}

impl Chronometer {
    /// `limit` holds the sender back, unless one that takes precedence does.
    #[inline]
    pub(crate) fn start(&mut self, limit: Limit, now: Instant) {
        if limit > self.limit {
            self.switch_to(limit, now);
        }
    }

    /// `limit` does not hold the sender back any more, if it did.
    #[inline]
    pub(crate) fn stop(&mut self, limit: Limit, now: Instant) {
        if limit == self.limit {
            self.switch_to(Limit::Busy, now);
        }
    }

    /// Everything is sent and acknowledged.
    #[inline]
    pub(crate) fn rest(&mut self, now: Instant) {
        if self.limit != Limit::Idle {
            self.switch_to(Limit::Idle, now);
        }
    }

    #[inline]
    fn switch_to(&mut self, limit: Limit, now: Instant) {
        if let Some(total) = self.totals.get_mut(self.limit.index()) {
            *total = total.saturating_add(ticks_between(self.since, now));
        }
        self.since = now;
        self.limit = limit;
    }

    /// `tcpi_busy_time`, which includes the others, `tcpi_rwnd_limited` and `tcpi_sndbuf_limited`.
    pub(crate) fn times(&self, now: Instant) -> [Duration; 3] {
        let mut present = *self;
        present.switch_to(Limit::Idle, now);
        let [busy, receive_window, send_buffer] = present
            .totals
            .map(|ticks| Duration::from_nanos(u64::from(ticks) << TICK_BITS));
        let all = busy
            .saturating_add(receive_window)
            .saturating_add(send_buffer);
        [all, receive_window, send_buffer]
    }
}

impl Limit {
    /// Among the totals; beyond them for [`Limit::Idle`].
    const fn index(self) -> usize {
        (self as usize).wrapping_sub(1)
    }
}

/// A tick has 2^20 ns; 2^32 of them are 52 days. Of a clock that steps back nothing is counted.
#[inline]
fn ticks_between(earlier: Instant, later: Instant) -> u32 {
    let ticks = |at: Instant| at.as_nanos() >> TICK_BITS;
    u32::try_from(ticks(later).saturating_sub(ticks(earlier))).unwrap_or(u32::MAX)
}

const TICK_BITS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// The time after so many ticks.
    fn at(ticks: u64) -> Instant {
        Instant::from_nanos(ticks << TICK_BITS)
    }

    fn times(chronometer: &Chronometer, ticks: u64) -> [u128; 3] {
        let tick = u128::from(1_u32 << TICK_BITS);
        chronometer
            .times(at(ticks))
            .map(|time| time.as_nanos() / tick)
    }

    #[test]
    fn a_limit_is_measured_while_it_lasts_and_busy_is_all() {
        let mut chronometer = Chronometer::default();
        assert_eq!(times(&chronometer, 1000), [0; 3]);
        chronometer.start(Limit::Busy, at(1000));
        assert_eq!(times(&chronometer, 1005), [5, 0, 0]);
        chronometer.start(Limit::ReceiveWindow, at(1010));
        chronometer.start(Limit::Busy, at(1020));
        assert_eq!(times(&chronometer, 1030), [30, 20, 0]);
        chronometer.stop(Limit::SendBuffer, at(1030));
        chronometer.stop(Limit::ReceiveWindow, at(1040));
        chronometer.start(Limit::SendBuffer, at(1041));
        chronometer.start(Limit::ReceiveWindow, at(1042));
        chronometer.rest(at(1050));
        chronometer.rest(at(1060));
        assert_eq!(times(&chronometer, 2000), [50, 30, 9]);
    }

    #[test]
    fn a_clock_that_steps_back_adds_nothing() {
        let mut chronometer = Chronometer::default();
        chronometer.start(Limit::Busy, at(100));
        chronometer.start(Limit::ReceiveWindow, at(90));
        assert_eq!(times(&chronometer, 95), [5, 5, 0]);
    }
}
