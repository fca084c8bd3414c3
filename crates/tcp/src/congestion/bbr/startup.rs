//! Finding the rate of the path: Startup, its end, and Drain (sections "Startup" and "Drain").

use super::amounts::octets;
use super::samples::Sample;
use super::state::State;
use super::{At, Bbr};

/// `BBRStartupFullLossCnt`
const STARTUP_LOST_RANGES: u32 = 6;

/// Drain ends after so many round trips, whatever is in flight.
const DRAIN_ROUNDS: u32 = 3;

impl Bbr {
    /// `CheckStartupDone`
    pub(super) fn check_startup_done(&mut self, sample: &Sample) {
        if self.state != State::Startup {
            return;
        }
        if !self.full_pipe.is_reached && self.judge_startup_loss(sample) {
            self.end_startup_for_loss();
        }
        if self.full_pipe.is_reached {
            self.state = State::Drain {
                since: self.rounds.count,
            };
        }
    }

    /// Section "Exiting Startup Based on Packet Loss"
    fn judge_startup_loss(&mut self, sample: &Sample) -> bool {
        let is_round_over = self.latest.has_round_started;
        let ranges = self.losses.ranges_in_round;
        if is_round_over {
            self.losses.ranges_in_round = 0;
        }
        let Some(since) = self.losses.recovering_since else {
            return false;
        };
        if !self.has_sack {
            return ranges > 0;
        }
        let has_lasted = self.rounds.count.wrapping_sub(since) >= 1;
        is_round_over
            && has_lasted
            && ranges >= STARTUP_LOST_RANGES
            && self.is_inflight_too_high(sample.lost, sample.in_flight)
    }

    /// What was in flight is more than the path holds.
    pub(super) fn end_startup_for_loss(&mut self) {
        if let Some(undo) = &mut self.undo {
            undo.state = Some(State::Startup);
        }
        self.full_pipe.is_reached = true;
        let delivered = octets(self.latest.inflight);
        self.bounds.inflight_longterm = self.bdp(100).max(delivered);
    }

    /// `CheckDrainDone`
    pub(super) fn check_drain_done(&mut self, at: &At) {
        let State::Drain { since } = self.state else {
            return;
        };
        let rounds = self.rounds.count.wrapping_sub(since);
        if at.in_flight <= self.inflight(self.bw, 100) || rounds > DRAIN_ROUNDS {
            self.start_down(at.now);
        }
    }
}
