//! The cycle in which a connection that knows its path looks for more (section "ProbeBW").

use crate::Instant;

use super::amounts::{UNBOUNDED, octets, percent_of};
use super::probing::AckPhase;
use super::samples::Sample;
use super::state::{Cycle, State};
use super::{At, Bbr};
use crate::congestion::window::Window;

/// Round trips after which Reno would have made good for a loss, at most
/// (`IsRenoCoexistenceProbeTime`).
const MOST_RENO_ROUNDS: u32 = 63;
/// `BBR.Headroom`, in percent.
const HEADROOM: u32 = 15;
impl Bbr {
    /// `StartProbeBW_DOWN`
    pub(super) fn start_down(&mut self, now: Instant) {
        self.latest.reset();
        self.probing.acked_per_segment = UNBOUNDED;
        self.probing.pick_wait();
        self.probing.since = now;
        self.probing.ack_phase = AckPhase::ProbeStopping;
        self.rounds.start(self.sampler.delivered());
        self.state = State::ProbeBw(Cycle::Down);
    }

    /// `StartProbeBW_REFILL`
    pub(super) fn start_refill(&mut self) {
        self.bounds.forget_short_term();
        self.probing.growth_rounds = 0;
        self.probing.acked = 0;
        self.probing.was_precautionary = false;
        self.probing.ack_phase = AckPhase::Refilling;
        self.rounds.start(self.sampler.delivered());
        self.state = State::ProbeBw(Cycle::Refill);
    }

    /// `StartProbeBW_UP`
    fn start_up(&mut self, sample: &Sample, window: &Window) {
        self.probing.ack_phase = AckPhase::ProbeStarting;
        self.rounds.start(self.sampler.delivered());
        self.full_pipe.reset(sample.rate);
        self.state = State::ProbeBw(Cycle::Up);
        self.probing.raise_slope(window);
    }

    /// `UpdateProbeBWCyclePhase`
    pub(super) fn update_cycle(&mut self, sample: &Sample, window: &Window, at: &At) {
        if !self.full_pipe.is_reached || self.adapt_long_term(sample, window, at) {
            return;
        }
        let State::ProbeBw(cycle) = self.state else {
            return;
        };
        match cycle {
            Cycle::Down | Cycle::Cruise if self.is_time_to_probe(window, at.now) => {
                self.start_refill();
            }
            Cycle::Down => {
                if self.is_time_to_cruise(at.in_flight) {
                    self.state = State::ProbeBw(Cycle::Cruise);
                }
            }
            Cycle::Cruise => {}
            Cycle::Refill => {
                if self.rounds.has_started {
                    self.probing.is_sample = true;
                    self.start_up(sample, window);
                }
            }
            Cycle::Up => {
                if self.judge_going_down(sample, window, at) {
                    self.start_down(at.now);
                }
            }
        }
    }

    /// `AdaptLongTermModel`. Returns whether the state has changed.
    fn adapt_long_term(&mut self, sample: &Sample, window: &Window, at: &At) -> bool {
        let phase = self.probing.ack_phase;
        if self.rounds.has_started && phase == AckPhase::ProbeStarting {
            self.probing.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.rounds.has_started && phase == AckPhase::ProbeStopping {
            self.probing.is_sample = false;
            self.probing.ack_phase = AckPhase::Init;
            if self.is_in_probe_bw() {
                if !sample.is_app_limited {
                    self.bandwidth.advance();
                }
                if self.probing.was_precautionary && !self.probing.was_too_high {
                    self.start_refill();
                    return true;
                }
            }
        }
        if self.is_inflight_too_high(sample.lost, sample.in_flight)
            || self.bounds.inflight_longterm == UNBOUNDED
        {
            return false;
        }
        let longterm = &mut self.bounds.inflight_longterm;
        *longterm = sample.in_flight.max(*longterm);
        if self.state == State::ProbeBw(Cycle::Up) {
            self.raise_long_term(sample, window, at);
        }
        false
    }

    /// `ProbeInflightLongtermUpward`
    fn raise_long_term(&mut self, sample: &Sample, window: &Window, at: &At) {
        if !at.is_window_limited || window.cwnd < self.bounds.inflight_longterm {
            return;
        }
        let probing = &mut self.probing;
        probing.acked = probing.acked.saturating_add(sample.newly_acked);
        let per_segment = probing.acked_per_segment;
        let segments = probing.acked.checked_div(per_segment).unwrap_or(0);
        probing.acked = probing.acked.checked_rem(per_segment).unwrap_or(0);
        let growth = segments.saturating_mul(window.mss);
        let longterm = &mut self.bounds.inflight_longterm;
        *longterm = longterm.saturating_add(growth);
        if self.rounds.has_started {
            self.probing.raise_slope(window);
        }
    }

    /// `IsTimeToProbeBW`
    fn is_time_to_probe(&self, window: &Window, now: Instant) -> bool {
        let has_waited = now.nanos_since(self.probing.since) > self.probing.wait;
        let segments = self.target_inflight(window).checked_div(window.mss);
        let rounds = segments.map_or(MOST_RENO_ROUNDS, |it| it.min(MOST_RENO_ROUNDS));
        has_waited || self.probing.rounds_since >= rounds
    }

    /// `IsTimeToCruise`
    fn is_time_to_cruise(&self, in_flight: u32) -> bool {
        in_flight <= self.inflight_with_headroom()
            && in_flight <= self.inflight(self.bandwidth.max(), 100)
    }

    /// `IsTimeToGoDown`
    fn judge_going_down(&mut self, sample: &Sample, window: &Window, at: &At) -> bool {
        let longterm = self.bounds.inflight_longterm;
        // Before the acknowledgement, to a segment: more than whole segments are never in flight.
        let was_in_flight = at.in_flight.saturating_add(sample.newly_acked);
        if self.probing.was_too_high && was_in_flight.saturating_add(window.mss) > longterm {
            self.probing.was_precautionary = true;
            self.probing.was_too_high = false;
            return true;
        }
        if at.is_window_limited && window.cwnd >= longterm {
            self.full_pipe.reset(sample.rate);
            return false;
        }
        if self.full_pipe.is_now {
            self.probing.was_too_high = false;
        }
        self.full_pipe.is_now
    }

    /// `InflightWithHeadroom`
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        let longterm = self.bounds.inflight_longterm;
        if longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = octets(percent_of(longterm.into(), HEADROOM)).max(self.mss);
        longterm.saturating_sub(headroom).max(self.min_pipe())
    }

    #[cfg(test)]
    pub(super) const fn probing_wait(&self) -> u64 {
        self.probing.wait
    }

    /// `TargetInflight`
    pub(super) fn target_inflight(&self, window: &Window) -> u32 {
        self.bdp(100).min(window.cwnd)
    }
}
