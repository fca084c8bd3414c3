//! HyStart++ (RFC 9406): leaves the initial slow start when round trips lengthen, before segments are lost.
//!
//! Difference from the RFC: the least lengthening that counts is 10 microseconds instead of 4 ms. §4.3 recommends that for the
//! Internet and leaves other networks to the implementation. Round trips of a data centre are shorter than 4 ms with full
//! queues: there slow start would end by loss always. Where they jitter by more than an eighth for a whole round, conservative
//! slow start finds that out.

use crate::SeqNumber;
use crate::time::Nanos;

use super::{Ack, Window};

// RFC 9406 §4.3
/// In nanoseconds.
const MIN_RTT_THRESH: u64 = 10_000;
const MAX_RTT_THRESH: u64 = 16_000_000;
const MIN_RTT_DIVISOR: u64 = 8;
const RTT_SAMPLES: u32 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u32 = 5;

/// The state of one connection's initial slow start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    /// The round ends when this is acknowledged (`windowEnd`).
    window_end: Option<SeqNumber>,
    last_round_min_rtt: Option<Nanos>,
    current_round_min_rtt: Option<Nanos>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Conservative slow start (CSS).
#[derive(Clone, Copy, Debug)]
struct Conservative {
    baseline_min_rtt: Nanos,
    rounds: u32,
}

impl HyStart {
    /// Grows the window in slow start. Sets `ssthresh` and so ends slow start when conservative slow start has lasted long
    /// enough. Returns what is left of the acknowledged octets for congestion avoidance.
    pub(super) fn on_ack(&mut self, window: &mut Window, ack: &Ack) -> u32 {
        // §4.2: rounds are counted in sequence numbers.
        let round_ended = self.window_end.is_none_or(|end| ack.snd_una >= end);
        if round_ended {
            self.begin_round(ack);
        }
        if let Some(rtt) = ack.rtt.map(Nanos::from) {
            self.current_round_min_rtt = Some(
                self.current_round_min_rtt
                    .map_or(rtt, |least| least.min(rtt)),
            );
            self.samples = self.samples.saturating_add(1);
            self.judge();
        }
        match &mut self.conservative {
            None => window.slow_start(ack.acked),
            Some(conservative) => {
                let rounds = conservative.rounds;
                if rounds >= CSS_ROUNDS {
                    window.ssthresh = window.cwnd;
                    return ack.acked;
                }
                window.slow_start(ack.acked / CSS_GROWTH_DIVISOR)
            }
        }
    }

    fn begin_round(&mut self, ack: &Ack) {
        if self.window_end.is_some()
            && let Some(conservative) = &mut self.conservative
        {
            conservative.rounds = conservative.rounds.saturating_add(1);
        }
        self.window_end = Some(ack.snd_nxt);
        self.last_round_min_rtt = self.current_round_min_rtt;
        self.current_round_min_rtt = None;
        self.samples = 0;
    }

    /// §4.2: enters conservative slow start, or returns from it if the round trips have shortened again.
    fn judge(&mut self) {
        if self.samples < RTT_SAMPLES {
            return;
        }
        let Some(current) = self.current_round_min_rtt else {
            return;
        };
        match self.conservative {
            None => {
                let Some(last) = self.last_round_min_rtt else {
                    return;
                };
                let threshold =
                    (last.get() / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current.get() >= last.get().saturating_add(threshold) {
                    self.conservative = Some(Conservative {
                        baseline_min_rtt: current,
                        rounds: 0,
                    });
                }
            }
            Some(Conservative {
                baseline_min_rtt, ..
            }) if current < baseline_min_rtt => self.conservative = None,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
