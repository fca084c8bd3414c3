//! The cycle in which a connection that knows its path looks for more (section "ProbeBW").

use crate::Instant;

use super::samples::Sample;
use super::{At, Bbr, State, UNBOUNDED, Window, percent_of};

/// Round trips after which Reno would have made good for a loss, at most
/// (`IsRenoCoexistenceProbeTime`).
const MOST_RENO_ROUNDS: u32 = 63;
/// `BBR.bw_probe_wait` is this and up to a second more, in nanoseconds.
const PROBE_WAIT: u64 = 2_000_000_000;
const PROBE_WAIT_SPREAD: u64 = 1_000_000_000;
/// `BBR.Headroom`, in percent.
const HEADROOM: u32 = 15;
const MOST_GROWTH_ROUNDS: u8 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cycle {
    /// Slower than the path: what was too much leaves it.
    Down,
    /// As fast as the path.
    Cruise,
    /// The same for a round trip, without the short-term bounds.
    Refill,
    /// Faster than the path.
    Up,
}

/// `BBR.ack_phase`: what acknowledgements tell of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The state of looking for more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probing {
    pub(super) ack_phase: AckPhase,
    /// `BBR.is_bw_probe_sample`
    pub(super) is_sample: bool,
    /// `BBR.prev_probe_too_high`, `BBR.prev_probe_precautionary`
    pub(super) was_too_high: bool,
    was_precautionary: bool,
    growth_rounds: u8,
    /// `BBR.rounds_since_probe_up`
    rounds_since: u32,
    /// `BBR.bw_probe_up_acked`, `BBR.probe_up_acked_per_inc`
    acked: u32,
    acked_per_segment: u32,
    /// `BBR.bw_probe_wait`, in nanoseconds, since `BBR.cycle_stamp`.
    wait: u64,
    pub(super) since: Instant,
    random: u64,
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_sample: false,
            was_too_high: false,
            was_precautionary: false,
            growth_rounds: 0,
            rounds_since: 0,
            acked: 0,
            acked_per_segment: UNBOUNDED,
            wait: 0,
            since: Instant::ZERO,
            random: 0,
        }
    }
}

impl Probing {
    pub(super) fn seed(&mut self, seed: u32) {
        self.random = seed.into();
    }

    pub(super) fn count_round(&mut self) {
        self.rounds_since = self.rounds_since.saturating_add(1);
    }

    /// `PickProbeWait`
    fn pick_wait(&mut self) {
        let random = self.next_random();
        self.rounds_since = u32::from(random & 1 != 0);
        self.wait = PROBE_WAIT.saturating_add((random >> 1) % PROBE_WAIT_SPREAD);
    }

    /// Connections must not probe in step; nobody gains by foreseeing it. Weyl's sequence, mixed
    /// (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// `RaiseInflightLongtermSlope`
    fn raise_slope(&mut self, window: &Window) {
        let growth = window.cwnd.checked_shr(self.growth_rounds.into());
        self.growth_rounds = self.growth_rounds.saturating_add(1).min(MOST_GROWTH_ROUNDS);
        self.acked_per_segment = growth.unwrap_or(0).max(window.mss);
    }
}

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
        let headroom = super::octets(percent_of(longterm.into(), HEADROOM)).max(self.mss);
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
