//! The model of the path: its rate, what of it can be used, and how acknowledgements come in lumps.

use super::amounts::{UNBOUNDED, UNBOUNDED_RATE};
use super::samples::Sample;
use crate::Instant;

/// `BBR.Beta`, in percent.
pub(super) const BETA: u32 = 70;

/// Round trips counted by what is delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u32,
    next_delivered: u64,
    /// `BBR.round_start`: this acknowledgement begins one.
    pub(super) has_started: bool,
}

impl Rounds {
    /// `StartRound`
    pub(super) fn start(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }

    /// `UpdateRound`. Returns whether one begins.
    pub(super) fn update(&mut self, sample: &Sample, delivered: u64) -> bool {
        self.has_started = sample.has_data && sample.prior_delivered >= self.next_delivered;
        if self.has_started {
            self.start(delivered);
            self.count = self.count.wrapping_add(1);
        }
        self.has_started
    }
}

/// `BBR.max_bw_filter`: the highest rate of the cycle before and of this one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bandwidth {
    last_cycle: u64,
    this_cycle: u64,
}

impl Bandwidth {
    /// `BBR.max_bw`
    pub(super) fn max(&self) -> u64 {
        self.last_cycle.max(self.this_cycle)
    }

    pub(super) fn update(&mut self, sample: &Sample) {
        if sample.rate > 0 && (sample.rate >= self.max() || !sample.is_app_limited) {
            self.this_cycle = self.this_cycle.max(sample.rate);
        }
    }

    /// `AdvanceMaxBwFilter`. A cycle without samples is none.
    pub(super) fn advance(&mut self) {
        if self.this_cycle > 0 {
            self.last_cycle = self.this_cycle;
            self.this_cycle = 0;
        }
    }
}

/// What losses have taught.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u32,
    pub(super) inflight_longterm: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bw_shortterm: UNBOUNDED_RATE,
            inflight_shortterm: UNBOUNDED,
            inflight_longterm: UNBOUNDED,
        }
    }
}

impl Bounds {
    /// `ResetShortTermModel`
    pub(super) fn forget_short_term(&mut self) {
        self.bw_shortterm = UNBOUNDED_RATE;
        self.inflight_shortterm = UNBOUNDED;
    }
}

/// What the last round trip has delivered, and whether losses were found in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    /// `BBR.bw_latest`, `BBR.inflight_latest`
    pub(super) bw: u64,
    pub(super) inflight: u64,
    /// `BBR.loss_round_delivered`
    round_delivered: u64,
    /// `BBR.loss_round_start`
    pub(super) has_round_started: bool,
    pub(super) is_loss_in_round: bool,
}

impl Latest {
    /// `UpdateLatestDeliverySignals`
    pub(super) fn update(&mut self, sample: &Sample, delivered: u64) {
        self.has_round_started = false;
        if !sample.has_data {
            return;
        }
        self.bw = self.bw.max(sample.rate);
        self.inflight = self.inflight.max(sample.delivered);
        if sample.prior_delivered >= self.round_delivered {
            self.round_delivered = delivered;
            self.has_round_started = true;
        }
    }

    /// `AdvanceLatestDeliverySignals`
    pub(super) fn advance(&mut self, sample: &Sample) {
        if self.has_round_started {
            self.bw = sample.rate;
            self.inflight = sample.delivered;
        }
    }

    /// `ResetCongestionSignals`
    pub(super) fn reset(&mut self) {
        self.is_loss_in_round = false;
        self.bw = 0;
        self.inflight = 0;
    }

    /// The first loss of a round trip begins one of its own (`NoteLoss`).
    pub(super) fn note_loss(&mut self, delivered: u64) {
        if !self.is_loss_in_round {
            self.round_delivered = delivered;
        }
        self.is_loss_in_round = true;
    }
}

/// How much more is acknowledged at times than the rate lets expect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    pub(super) since: Instant,
    pub(super) delivered: u64,
    /// The highest of the last round trips, and of those before.
    recent: u32,
    earlier: u32,
    recent_since: u32,
}

impl Aggregation {
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = now;
        self.delivered = 0;
    }

    /// `BBR.extra_acked`
    pub(super) fn extra_acked(&self) -> u32 {
        self.recent.max(self.earlier)
    }

    pub(super) fn take(&mut self, extra: u32, round: u32, rounds: u32) {
        if round.wrapping_sub(self.recent_since) >= rounds {
            self.earlier = self.recent;
            self.recent = 0;
            self.recent_since = round;
        }
        self.recent = self.recent.max(extra);
    }
}
