//! The congestion window, and what happens to it.

use core::time::Duration;

use crate::{Instant, SeqNumber};

/// No window grows beyond what window scaling can express (RFC 7323 §2.3).
pub const MAX_CWND: u32 = 1 << 30;

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    pub now: Instant,
    /// After the acknowledgement.
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    /// Octets that let the window grow: [`Self::delivered`] if `SND.UNA` has advanced or the
    /// network is known to reorder segments much, else none (Linux's `tcp_may_raise_cwnd`).
    pub acked: u32,
    /// Octets newly known to have arrived: cumulatively or selectively acknowledged.
    pub delivered: u32,
    /// Octets in flight after the acknowledgement, without those that are deemed lost.
    pub in_flight: u32,
    /// It advances `SND.UNA` and lets no further segments be deemed lost: `SafeACK` of RFC 9937 §6.
    pub is_safe: bool,
    /// Round-trip time of the latest segment acknowledged, if it was sent once.
    pub rtt: Option<Duration>,
    /// When the segment was sent that was sent last of those that have arrived, and where it ends.
    pub newest: Option<(Instant, SeqNumber)>,
}

/// Octets that are sent, for the first time or again.
#[derive(Clone, Copy, Debug)]
pub struct Transmission {
    pub now: Instant,
    pub octets: u32,
    /// Behind the last of them.
    pub end: SeqNumber,
    /// Nothing else is outstanding.
    pub is_alone: bool,
    /// Octets in flight, these included.
    pub in_flight: u32,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
}

/// The state of the connection in which a reduction takes place.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    pub now: Instant,
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    /// Octets in flight, without those that are deemed lost.
    pub in_flight: u32,
    /// Octets that were outstanding and not known to have arrived before the acknowledgement that
    /// gives the signal: `RecoverFS` of RFC 9937 §6.
    pub recover_flight_size: u32,
    /// It may still turn out that the reduction before was not needed.
    pub is_last_in_doubt: bool,
    /// Because of a congestion mark, not a loss.
    pub is_mark: bool,
}

/// The window that a `Controller` works on, in octets.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub cwnd: u32,
    pub ssthresh: u32,
    pub mss: u32,
}

impl Window {
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start (RFC 5681 §3.1 with RFC 3465): grows by `acked`, not beyond `ssthresh`. Returns
    /// what of `acked` is left for congestion avoidance.
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self
            .cwnd
            .saturating_add(acked)
            .min(self.ssthresh.max(self.cwnd));
        let used = grown.saturating_sub(self.cwnd);
        let reached = grown >= self.ssthresh;
        self.cwnd = grown.min(MAX_CWND);
        if reached {
            acked.saturating_sub(used)
        } else {
            0
        }
    }

    /// RFC 5681 §3.1: no threshold is below two segments.
    pub(super) fn at_least_two_segments(&self, ssthresh: u32) -> u32 {
        ssthresh.max(self.mss.saturating_mul(2))
    }
}

/// RFC 6928 §2: `min (10*MSS, max (2*MSS, 14600))`, where another number of segments may stand for
/// ten.
#[must_use]
pub fn initial_window(mss: u32, segments: u8) -> u32 {
    let segments = u32::from(segments.max(1));
    let most = mss.saturating_mul(segments);
    most.min(mss.saturating_mul(2).max(segments.saturating_mul(1460)))
}
