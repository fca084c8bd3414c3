//! What the sender is told: rate, quantum and window (section "Updating Control Parameters").

use super::amounts::{UNBOUNDED, octets, octets_in, percent_of};
use super::samples::Sample;
use super::state::{Cycle, State};
use super::{Bbr, NOMINAL_RTT};
use crate::congestion::window::{MAX_CWND, Window};

/// `BBR.PacingMarginPercent`: the rate is so much below what the model says.
const PACING_MARGIN: u64 = 1;
/// `BBR.StartupPacingGain`, in percent.
const STARTUP_PACING_GAIN: u32 = 277;
/// `C.send_quantum` at most, in octets.
const MOST_QUANTUM: u64 = 64 << 10;
/// `BBR.MinPipeCwnd`, in segments.
const MIN_PIPE: u32 = 4;
/// `BBR.offload_budget`, in quanta.
const OFFLOAD_QUANTA: u32 = 3;

/// What the rate or the amount of the model was if `paced` has come of it.
pub(super) const fn without_margin(paced: u64) -> u64 {
    paced.saturating_mul(100) / (100 - PACING_MARGIN)
}

impl Bbr {
    /// In percent.
    pub(super) const fn pacing_gain(&self) -> u32 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain { .. } => 50,
            State::ProbeBw(Cycle::Down) => 90,
            State::ProbeBw(Cycle::Cruise | Cycle::Refill) | State::ProbeRtt => 100,
            State::ProbeBw(Cycle::Up) => 125,
        }
    }

    /// In percent.
    pub(super) const fn cwnd_gain(&self) -> u32 {
        match self.state {
            State::ProbeBw(Cycle::Up) => 225,
            State::ProbeRtt => 50,
            State::Startup | State::Drain { .. } | State::ProbeBw(_) => 200,
        }
    }

    /// In octets a second.
    pub(in crate::congestion) const fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// `InitPacingRate`: of a round trip in nanoseconds.
    pub(super) fn start_pacing_rate(&mut self, rtt: u64) {
        let rtt = if rtt > 0 { rtt } else { NOMINAL_RTT };
        let rate = u64::from(self.initial_window)
            .saturating_mul(1_000_000_000)
            .checked_div(rtt)
            .unwrap_or(0);
        self.pacing_rate = percent_of(rate, STARTUP_PACING_GAIN).max(1);
    }

    /// "the initial C.srtt after the first non-zero RTT sample"
    pub(super) fn take_first_rtt(&mut self, sample: &Sample) {
        if let Some(rtt @ 1..) = sample.rtt
            && !self.has_rtt
        {
            self.has_rtt = true;
            self.start_pacing_rate(rtt);
        }
    }

    /// `SetPacingRateWithGain`, in percent
    pub(super) fn set_pacing_rate_with_gain(&mut self, gain: u32) {
        let rate = percent_of(self.bw, gain);
        let rate = rate.saturating_sub(rate.saturating_mul(PACING_MARGIN) / 100);
        // Without a sample there is no rate.
        if rate > 0 && (self.full_pipe.is_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// `SetSendQuantum`, in octets
    pub(in crate::congestion) fn send_quantum(&self) -> u32 {
        let quantum = (self.pacing_rate / 1000).min(MOST_QUANTUM);
        octets(quantum).max(self.mss.saturating_mul(2))
    }

    /// `BDPMultiple`: `gain` in percent.
    pub(super) fn bdp(&self, gain: u32) -> u32 {
        self.bdp_of(self.bw, gain)
    }

    fn bdp_of(&self, bw: u64, gain: u32) -> u32 {
        match self.min_rtt.nanos() {
            Some(rtt) => octets(percent_of(octets_in(bw, rtt), gain)),
            None => self.initial_window,
        }
    }

    /// `BBR.MinPipeCwnd`, in octets
    pub(super) const fn min_pipe(&self) -> u32 {
        self.mss.saturating_mul(MIN_PIPE)
    }

    /// `QuantizationBudget`
    fn with_budget(&self, inflight: u32) -> u32 {
        let offload_budget = self.send_quantum().saturating_mul(OFFLOAD_QUANTA);
        let inflight = inflight.max(offload_budget).max(self.min_pipe());
        if self.state == State::ProbeBw(Cycle::Up) {
            inflight.saturating_add(self.mss.saturating_mul(2))
        } else {
            inflight
        }
    }

    /// `Inflight`: `gain` in percent
    pub(super) fn inflight(&self, bw: u64, gain: u32) -> u32 {
        self.with_budget(self.bdp_of(bw, gain))
    }

    /// `UpdateMaxInflight`
    fn max_inflight(&self) -> u32 {
        let inflight = self.bdp(self.cwnd_gain());
        self.with_budget(inflight.saturating_add(self.aggregation.extra_acked()))
    }

    /// `SetCwnd`, with `BoundCwndForProbeRTT` and `BoundCwndForModel`
    pub(super) fn set_cwnd(&mut self, window: &mut Window, newly_acked: u32) {
        let most = self.max_inflight();
        let grown = window.cwnd.saturating_add(newly_acked);
        let cwnd = if self.full_pipe.is_reached {
            grown.min(most)
        } else if window.cwnd < most || self.sampler.delivered() < self.initial_window.into() {
            grown
        } else {
            window.cwnd
        };
        let cwnd = cwnd.max(self.min_pipe()).min(self.cwnd_bound());
        window.cwnd = cwnd.min(MAX_CWND);
    }

    fn cwnd_bound(&self) -> u32 {
        let bound = match self.state {
            State::Startup | State::Drain { .. } => UNBOUNDED,
            State::ProbeBw(Cycle::Down | Cycle::Refill | Cycle::Up) => {
                self.bounds.inflight_longterm
            }
            State::ProbeBw(Cycle::Cruise) => self.inflight_with_headroom(),
            State::ProbeRtt => self.inflight_with_headroom().min(self.probe_rtt_cwnd()),
        };
        bound
            .min(self.bounds.inflight_shortterm)
            .max(self.min_pipe())
    }
}
