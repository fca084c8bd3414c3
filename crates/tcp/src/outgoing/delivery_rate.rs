//! The rate at which data arrives at the peer (draft-cheng-iccrg-delivery-rate-estimation-02;
//! kernel `net/ipv4/tcp_rate.c`).
//!
//! A sample is what was delivered between the sending of a segment and its acknowledgement, over
//! the time between. Differences from the draft, which keeps the beginning of a sample with every
//! segment (§3.1.2):
//! * one segment at a time is followed, the last one sent before anything more was delivered: a
//!   sample for each round trip instead of one for each acknowledgement, and nothing kept with the
//!   others;
//! * what counts are octets, not segments of any size.

use core::time::Duration;

use crate::{Instant, SeqNumber};

/// Times are in ticks of 2^10 ns, modulo 2^32 (73 minutes): they are compared within a flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// `C.delivered`: octets, modulo 2^32.
    delivered: u32,
    /// `C.delivered_time`
    delivered_at: u32,
    /// `C.first_sent_time`
    first_sent_at: u32,
    /// `C.app_limited`: `delivered` when the last segment has arrived that was sent before the
    /// application had no more.
    app_limited_until: Option<u32>,
    followed: Option<Followed>,
    estimate: Estimate,
}

/// The segment that is followed (`P` in the draft), and what was known when it was sent.
#[derive(Clone, Copy, Debug)]
struct Followed {
    end: SeqNumber,
    sent_at: u32,
    first_sent_at: u32,
    delivered: u32,
    delivered_at: u32,
    is_app_limited: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    octets: u32,
    ticks: u32,
    is_app_limited: bool,
}

/// A transmission, the first of a segment or another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) end: SeqNumber,
    /// Nothing else is outstanding.
    pub(crate) is_alone: bool,
}

impl DeliveryRate {
    /// §3.2 of the draft
    #[inline]
    pub(crate) fn on_sent(&mut self, sent: Sent, now: Instant) {
        let now = ticks(now);
        if sent.is_alone {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        let is_kept = self.followed.is_some_and(|followed| {
            followed.delivered != self.delivered && sent.end > followed.end
        });
        if !is_kept {
            self.followed = Some(Followed {
                end: sent.end,
                sent_at: now,
                first_sent_at: self.first_sent_at,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                is_app_limited: self.app_limited_until.is_some(),
            });
        }
    }

    /// §3.4: the application writes, and had less than a segment waiting, while the network had
    /// room for what is more than `in_flight` octets.
    #[inline]
    pub(crate) fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = Some(self.delivered.wrapping_add(in_flight));
    }

    /// §3.3: `delivered` octets have arrived, and everything before `snd_una`.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        snd_una: SeqNumber,
        delivered: u32,
        min_rtt: impl FnOnce() -> Option<Duration>,
    ) {
        if delivered == 0 {
            return;
        }
        let now = ticks(now);
        self.delivered = self.delivered.wrapping_add(delivered);
        self.delivered_at = now;
        if let Some(until) = self.app_limited_until
            && self.delivered.wrapping_sub(until).cast_signed() > 0
        {
            self.app_limited_until = None;
        }
        if let Some(followed) = self.followed
            && snd_una >= followed.end
        {
            self.followed = None;
            self.first_sent_at = followed.sent_at;
            let sending = followed.sent_at.wrapping_sub(followed.first_sent_at);
            let arriving = now.wrapping_sub(followed.delivered_at);
            self.take_sample(
                Estimate {
                    octets: self.delivered.wrapping_sub(followed.delivered),
                    ticks: sending.max(arriving),
                    is_app_limited: followed.is_app_limited,
                },
                min_rtt(),
            );
        }
    }

    fn take_sample(&mut self, sample: Estimate, min_rtt: Option<Duration>) {
        // "No reliable sample": faster than anything can be. Parts of ticks are not seen.
        let is_too_fast = |least: Duration| {
            let ticks = u128::from(sample.ticks.saturating_add(1));
            ticks << TICK_BITS < least.as_nanos()
        };
        // As Linux: what the application held back counts if it shows a higher rate only.
        if (!sample.is_app_limited || sample.is_as_fast_as(&self.estimate))
            && !min_rtt.is_some_and(is_too_fast)
        {
            self.estimate = sample;
        }
    }

    /// In octets a second; 0 before there is a sample.
    pub(crate) fn octets_per_second(&self) -> u64 {
        self.estimate.octets_per_second()
    }

    /// The application, not the network, made the rate what it is.
    pub(crate) const fn is_app_limited(&self) -> bool {
        self.estimate.is_app_limited
    }
}

impl Estimate {
    fn is_as_fast_as(&self, other: &Self) -> bool {
        let product = |octets: u32, ticks: u32| u64::from(octets).saturating_mul(ticks.into());
        product(self.octets, other.ticks) >= product(other.octets, self.ticks)
    }

    fn octets_per_second(&self) -> u64 {
        let nanos = u64::from(self.ticks) << TICK_BITS;
        u64::from(self.octets)
            .saturating_mul(1_000_000_000)
            .checked_div(nanos)
            .unwrap_or(0)
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "modulo 2^32")]
const fn ticks(now: Instant) -> u32 {
    (now.as_nanos() >> TICK_BITS) as u32
}

const TICK_BITS: u32 = 10;

#[cfg(test)]
mod tests;
