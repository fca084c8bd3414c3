//! The state that looks for the shortest round trip (section "ProbeRTT").

use crate::Instant;
use crate::time::Nanos;

use super::probing::AckPhase;
use super::samples::Sample;
use super::state::{Cycle, State};
use super::{At, Bbr};
use crate::congestion::window::Window;

/// `BBR.ProbeRTTDuration`
const PROBE_RTT_DURATION: Nanos = Nanos::new(200_000_000);

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
