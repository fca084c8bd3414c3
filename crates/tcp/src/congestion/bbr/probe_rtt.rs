//! The shortest round trip, and the state that looks for it (section "ProbeRTT").

use crate::Instant;
use crate::time::Nanos;

use super::probe_bw::{AckPhase, Cycle};
use super::samples::Sample;
use super::{At, Bbr, State, Window};

/// `BBR.ProbeRTTInterval`, in nanoseconds.
const PROBE_RTT_INTERVAL: u64 = 5_000_000_000;
/// `BBR.MinRTTFilterLen`
const MIN_RTT_FILTER_LEN: u64 = 10_000_000_000;
/// `BBR.ProbeRTTDuration`
const PROBE_RTT_DURATION: Nanos = Nanos::new(200_000_000);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    /// `BBR.min_rtt`, in nanoseconds.
    min: Option<u64>,
    min_at: Instant,
    /// `BBR.probe_rtt_min_delay`
    recent: Option<u64>,
    recent_at: Instant,
    /// `BBR.probe_rtt_expired`
    is_due: bool,
    /// `BBR.probe_rtt_done_stamp`
    done_at: Option<Instant>,
    /// `BBR.probe_rtt_round_done`
    is_round_done: bool,
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

impl Bbr {
    /// `CheckProbeRTT`
    pub(super) fn check_probe_rtt(&mut self, sample: &Sample, window: &mut Window, at: &At) {
        if self.state != State::ProbeRtt && self.min_rtt.is_due && !self.is_restarting {
            self.save_cwnd(window);
            self.state = State::ProbeRtt;
            self.min_rtt.done_at = None;
            self.probing.ack_phase = AckPhase::ProbeStopping;
            self.rounds.start(self.sampler.delivered());
        }
        if self.state == State::ProbeRtt {
            self.stay_in_probe_rtt(window, at);
        }
        if sample.delivered > 0 {
            self.is_restarting = false;
        }
    }

    /// `HandleProbeRTT`
    fn stay_in_probe_rtt(&mut self, window: &mut Window, at: &At) {
        // Low rates are not the path's.
        self.sampler.mark_app_limited(at.in_flight);
        if self.min_rtt.done_at.is_none() {
            if at.in_flight <= self.probe_rtt_cwnd() {
                self.min_rtt.done_at = Some(at.now + PROBE_RTT_DURATION);
                self.min_rtt.is_round_done = false;
                self.rounds.start(self.sampler.delivered());
            }
            return;
        }
        self.min_rtt.is_round_done |= self.rounds.has_started;
        if self.min_rtt.is_round_done {
            self.end_probe_rtt_if_due(window, at.now);
        }
    }

    /// `CheckProbeRTTDone` and `ExitProbeRTT`
    pub(super) fn end_probe_rtt_if_due(&mut self, window: &mut Window, now: Instant) {
        if self.min_rtt.done_at.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.recent_at = now;
        self.restore_cwnd(window);
        self.bounds.forget_short_term();
        if self.full_pipe.is_reached {
            self.start_down(now);
            self.state = State::ProbeBw(Cycle::Cruise);
        } else {
            self.state = State::Startup;
        }
    }

    /// `ProbeRTTCwnd`
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(50).max(self.min_pipe())
    }
}
