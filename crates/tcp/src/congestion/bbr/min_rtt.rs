//! The shortest round trip.

use crate::Instant;

/// `BBR.ProbeRTTInterval`, in nanoseconds.
const PROBE_RTT_INTERVAL: u64 = 5_000_000_000;
/// `BBR.MinRTTFilterLen`
const MIN_RTT_FILTER_LEN: u64 = 10_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    /// `BBR.min_rtt`, in nanoseconds.
    min: Option<u64>,
    min_at: Instant,
    /// `BBR.probe_rtt_min_delay`
    recent: Option<u64>,
    pub(super) recent_at: Instant,
    /// `BBR.probe_rtt_expired`
    pub(super) is_due: bool,
    /// `BBR.probe_rtt_done_stamp`
    pub(super) done_at: Option<Instant>,
    /// `BBR.probe_rtt_round_done`
    pub(super) is_round_done: bool,
}

impl MinRtt {
    pub(super) fn begin_with(&mut self, rtt: u64) {
        self.min = Some(rtt);
    }

    /// Time counts from here on.
    pub(super) fn begin(&mut self, now: Instant) {
        self.min_at = now;
        self.recent_at = now;
    }

    pub(super) const fn nanos(&self) -> Option<u64> {
        self.min
    }

    /// `UpdateMinRTT`
    pub(super) fn update(&mut self, rtt: Option<u64>, now: Instant) {
        self.is_due = now.nanos_since(self.recent_at) > PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (self.is_due || self.recent.is_none_or(|recent| rtt < recent))
        {
            self.recent = Some(rtt);
            self.recent_at = now;
        }
        let Some(recent) = self.recent else {
            return;
        };
        let is_expired = now.nanos_since(self.min_at) > MIN_RTT_FILTER_LEN;
        if is_expired || self.min.is_none_or(|min| recent < min) {
            self.min = Some(recent);
            self.min_at = self.recent_at;
        }
    }
}
