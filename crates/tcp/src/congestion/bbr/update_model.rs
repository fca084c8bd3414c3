//! What an acknowledgement says of the path (section "Updating Network Path Model Parameters").

use super::Bbr;
use super::amounts::{UNBOUNDED, UNBOUNDED_RATE, octets, octets_in, percent_of};
use super::control::without_margin;
use super::model::BETA;
use super::samples::Sample;
use crate::Instant;
use crate::congestion::window::Window;

/// Round trips of one of the two parts of the window of `BBR.extra_acked`:
/// `BBR.ExtraAckedFilterLen` is both.
const HALF_EXTRA_ACKED_ROUNDS: u32 = 5;

impl Bbr {
    /// `UpdateCongestionSignals`, with `UpdateMaxBw` and `AdaptLowerBoundsFromCongestion`.
    pub(super) fn update_congestion_signals(&mut self, sample: &Sample, window: &Window) {
        if self.rounds.update(sample, self.sampler.delivered()) {
            self.probing.count_round();
        }
        self.bandwidth.update(sample);
        if !self.latest.has_round_started {
            return;
        }
        if self.latest.is_loss_in_round && !self.is_accelerating() {
            self.lower_short_term(window);
        }
        self.latest.is_loss_in_round = false;
    }

    /// `InitLowerBounds` and `LossLowerBounds`. The sender's own margin is no sign of congestion:
    /// with it in the bounds each of many rounds that lose a segment by chance would take another
    /// percent of the rate.
    fn lower_short_term(&mut self, window: &Window) {
        let bounds = &mut self.bounds;
        if bounds.bw_shortterm == UNBOUNDED_RATE {
            bounds.bw_shortterm = self.bandwidth.max();
        }
        if bounds.inflight_shortterm == UNBOUNDED {
            bounds.inflight_shortterm = window.cwnd;
        }
        let reduced = percent_of(bounds.bw_shortterm, BETA);
        bounds.bw_shortterm = without_margin(self.latest.bw).max(reduced);
        let reduced = percent_of(bounds.inflight_shortterm.into(), BETA);
        bounds.inflight_shortterm = octets(without_margin(self.latest.inflight).max(reduced));
    }

    /// `UpdateACKAggregation`
    pub(super) fn update_aggregation(&mut self, sample: &Sample, window: &Window, now: Instant) {
        let expected = octets_in(self.bw, now.nanos_since(self.aggregation.since));
        let expected = if self.aggregation.delivered <= expected {
            self.aggregation.restart(now);
            0
        } else {
            expected
        };
        let newly_acked = u64::from(sample.newly_acked);
        self.aggregation.delivered = self.aggregation.delivered.saturating_add(newly_acked);
        let extra = self.aggregation.delivered.saturating_sub(expected);
        let extra = octets(extra).min(window.cwnd);
        let rounds = if self.full_pipe.is_reached {
            HALF_EXTRA_ACKED_ROUNDS
        } else {
            1
        };
        self.aggregation.take(extra, self.rounds.count, rounds);
    }
}
