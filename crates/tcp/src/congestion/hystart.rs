//! HyStart: leaves the initial slow start when the window is more than the path holds, before the
//! queue overflows.
//!
//! As in Linux (`tcp_cubic.c`; Ha and Rhee, "Taming the elephants: New TCP slow start", 2011) there
//! are two signs of that:
//! * The train of acknowledgements that comes back in one round trip has the rate of the
//!   bottleneck. The rate times the shortest round trip is what the path holds without a queue
//!   ([`Train`]).
//! * Round trips lengthen. That is judged as HyStart++ (RFC 9406) does it: conservative slow start
//!   finds out whether they stay long.
//!
//! Differences from Linux: slow start ends when a train takes half of the shortest round trip. The
//! window is then between once and one and a half times what the path holds. Here the rate is
//! computed, and it is between one and a half and one and three quarters: nothing is lost if the
//! queue is three quarters as long as the path.
//!
//! Differences from RFC 9406:
//! * The least lengthening that counts is 10 microseconds instead of 4 ms. §4.3 recommends that for
//!   the Internet and leaves other networks to the implementation. Round trips of a data centre are
//!   shorter than 4 ms with full queues: there slow start would end by loss always.
//! * What round trips are compared with is the shortest of the connection instead of that of the
//!   round before, as in Linux.
//! * Conservative slow start lasts for one round instead of five and does not grow instead of by a
//!   quarter: when round trips lengthen, the window has become twice what shows in them. Five
//!   rounds of growth overflow a queue that is as long as the path.

use core::time::Duration;

use crate::time::Nanos;
use crate::{Instant, SeqNumber};

use super::window::{Ack, Window};

/// `hystart_low_window`, in segments: what a smaller window overflows is no queue.
const LOW_WINDOW: u32 = 16;
/// Acknowledgements that are farther apart than this part of the shortest round trip belong to no
/// train (Linux: two milliseconds).
const TRAIN_GAP_DIVISOR: u64 = 8;
/// A train that tells the rate takes this part of the shortest round trip at least,
const TRAIN_LENGTH_DIVISOR: u64 = 4;
/// and has so many acknowledgements.
const TRAIN_ACKS: u32 = 8;

// RFC 9406 §4.3
/// In nanoseconds.
const MIN_RTT_THRESH: u64 = 10_000;
const MAX_RTT_THRESH: u64 = 16_000_000;
const MIN_RTT_DIVISOR: u64 = 8;
const RTT_SAMPLES: u32 = 8;

/// The state of one connection's initial slow start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    /// The round ends when more than this is acknowledged (`windowEnd`).
    window_end: Option<SeqNumber>,
    /// Of the connection.
    least_rtt: Option<Nanos>,
    current_round_min_rtt: Option<Nanos>,
    samples: u32,
    conservative: Option<Conservative>,
    train: Train,
}

/// How long conservative slow start (CSS) has lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conservative {
    /// The round in which round trips were found to be longer.
    Begun,
    /// The next one, in which they are measured again.
    Measuring,
}

impl HyStart {
    /// Grows the window in slow start, or sets `ssthresh` and so ends slow start. Returns what is
    /// left of the acknowledged octets for congestion avoidance.
    pub(super) fn on_ack(&mut self, window: &mut Window, ack: &Ack) -> u32 {
        if self.window_end.is_none_or(|end| ack.snd_una > end) {
            self.begin_round(ack);
        } else {
            self.train.extend(ack, self.least_rtt);
        }
        let is_longer = match ack.rtt {
            Some(rtt) => self.compare_round_trip(rtt.into()),
            None => None,
        };
        if window.cwnd >= window.mss.saturating_mul(LOW_WINDOW) {
            if self.judge(is_longer) || self.is_path_full(window, ack) {
                window.ssthresh = window.cwnd;
                return ack.acked;
            }
            if self.conservative.is_some() {
                return 0;
            }
        }
        window.slow_start(ack.acked)
    }

    fn begin_round(&mut self, ack: &Ack) {
        self.window_end = Some(ack.snd_nxt);
        self.current_round_min_rtt = None;
        self.samples = 0;
        self.conservative = match self.conservative {
            Some(Conservative::Begun) => Some(Conservative::Measuring),
            // Too few samples to tell: as if round trips had not been longer.
            Some(Conservative::Measuring) | None => None,
        };
        self.train = Train::begin(ack.now);
    }

    /// RFC 9406 §4.2: whether all round trips of this round are longer, if there are enough to
    /// tell.
    fn compare_round_trip(&mut self, rtt: Nanos) -> Option<bool> {
        let shorter = |least: Option<Nanos>| least.map_or(rtt, |least| least.min(rtt));
        let least = shorter(self.least_rtt);
        let current = shorter(self.current_round_min_rtt);
        self.least_rtt = Some(least);
        self.current_round_min_rtt = Some(current);
        self.samples = self.samples.saturating_add(1);
        let threshold = (least.get() / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        (self.samples >= RTT_SAMPLES)
            .then_some(current.get() >= least.get().saturating_add(threshold))
    }

    /// RFC 9406 §4.2: enters conservative slow start, or returns from it if the round trips have
    /// shortened again. Returns whether they have stayed long.
    fn judge(&mut self, is_longer: Option<bool>) -> bool {
        match (is_longer, self.conservative) {
            (Some(true), Some(Conservative::Measuring)) => return true,
            (Some(true), None) => self.conservative = Some(Conservative::Begun),
            (Some(false), _) => self.conservative = None,
            (Some(true), Some(Conservative::Begun)) | (None, _) => {}
        }
        false
    }

    /// The window, which is in flight, is one and a half times what the path holds at the rate of
    /// the train.
    fn is_path_full(&self, window: &Window, ack: &Ack) -> bool {
        // If the application or the peer's window holds it back, the train has their rate.
        let was_in_flight = ack.in_flight.saturating_add(ack.delivered);
        if was_in_flight.saturating_add(window.mss) < window.cwnd {
            return false;
        }
        let Some((octets, nanos)) = self.train.rate() else {
            return false;
        };
        let least = self.least_rtt.map_or(0, Nanos::get);
        // cwnd >= 3/2 * octets / nanos * least
        let twice = u64::from(window.cwnd).saturating_mul(2);
        twice.saturating_mul(nanos) >= u64::from(octets).saturating_mul(3).saturating_mul(least)
    }
}

/// Acknowledgements that come one after the other within a round, as the bottleneck has spaced the
/// segments.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    start: Instant,
    end: Instant,
    /// Delivered after its start.
    octets: u32,
    acks: u32,
    /// It is long enough to tell the rate.
    is_long: bool,
}

impl Train {
    /// What the acknowledgement at `start` reports was delivered before the train.
    fn begin(start: Instant) -> Self {
        Self {
            start,
            end: start,
            ..Self::default()
        }
    }

    fn extend(&mut self, ack: &Ack, least_rtt: Option<Nanos>) {
        let least = least_rtt.map_or(0, Nanos::get);
        let at_least = |time: Duration, divisor| {
            time >= Duration::from_nanos(least.checked_div(divisor).unwrap_or(0))
        };
        if at_least(ack.now.saturating_since(self.end), TRAIN_GAP_DIVISOR) {
            *self = Self::begin(ack.now);
            return;
        }
        self.end = ack.now;
        self.octets = self.octets.saturating_add(ack.delivered);
        self.acks = self.acks.saturating_add(1);
        self.is_long = self.acks >= TRAIN_ACKS
            && at_least(ack.now.saturating_since(self.start), TRAIN_LENGTH_DIVISOR);
    }

    /// Octets, and the nanoseconds in which they were delivered; of a long train.
    fn rate(&self) -> Option<(u32, u64)> {
        let nanos = self.end.saturating_since(self.start).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.is_long.then_some((self.octets, nanos))
    }
}

#[cfg(test)]
mod tests;
