//! Losses: what they say of the path, and what is taken back if there were none (sections "Updating
//! the Model Upon Packet Loss", "Updating the Model Upon Detecting a Spurious Loss Recovery" and
//! "Modulating cwnd in Loss Recovery").

use super::Bbr;
use super::amounts::{octets, percent_of};
use super::episode::{LostSegment, Undo};
use super::model::BETA;
use super::state::{Cycle, State};
use crate::Instant;
use crate::congestion::window::Window;

/// `BBR.LossThresh`, in percent.
const LOSS_THRESH: u64 = 2;
impl Bbr {
    /// `HandleLostPacket`
    pub(in crate::congestion) fn on_lost(
        &mut self,
        window: &Window,
        lost: &LostSegment,
        now: Instant,
    ) {
        let end = lost.seq + lost.len;
        self.sampler.on_lost(lost.len);
        self.note_loss(window);
        if self.losses.last_end != Some(lost.seq) {
            self.losses.ranges_in_round = self.losses.ranges_in_round.saturating_add(1);
        }
        self.losses.last_end = Some(end);
        if !self.probing.is_sample {
            return;
        }
        let Some(flight) = self.sampler.find(lost.sent_at, end).copied() else {
            return;
        };
        let in_flight = flight.in_flight_at(end);
        let lost_since = self.sampler.lost_since(&flight);
        if self.is_inflight_too_high(lost_since, in_flight) {
            let at_loss = inflight_at_loss(in_flight, lost_since, lost.len);
            self.on_inflight_too_high(window, at_loss, flight.is_app_limited, now);
        }
    }

    /// `NoteLoss`
    fn note_loss(&mut self, window: &Window) {
        if self.losses.recovering_since.is_none() && !self.losses.is_saved {
            self.save_state(window);
            self.losses.is_saved = true;
        }
        self.latest.note_loss(self.sampler.delivered());
    }

    /// `SaveStateUponLoss`
    fn save_state(&mut self, window: &Window) {
        self.save_cwnd(window);
        self.undo = Some(Undo {
            state: None,
            bw_shortterm: self.bounds.bw_shortterm,
            inflight_shortterm: self.bounds.inflight_shortterm,
            inflight_longterm: self.bounds.inflight_longterm,
        });
    }

    /// `IsInflightTooHigh`
    pub(super) const fn is_inflight_too_high(&self, lost: u64, in_flight: u32) -> bool {
        let threshold = (in_flight as u64).saturating_mul(LOSS_THRESH) / 100;
        lost > threshold || lost > 0 && !self.has_sack
    }

    /// `HandleInflightTooHigh`
    fn on_inflight_too_high(
        &mut self,
        window: &Window,
        in_flight: u32,
        is_app_limited: bool,
        now: Instant,
    ) {
        self.probing.was_too_high = true;
        self.probing.is_sample = false;
        if !is_app_limited {
            let target = percent_of(self.target_inflight(window).into(), BETA);
            self.bounds.inflight_longterm = in_flight.max(octets(target));
        }
        if self.state == State::ProbeBw(Cycle::Up) {
            if let Some(undo) = &mut self.undo {
                undo.state = Some(self.state);
            }
            self.start_down(now);
        }
    }

    /// A congestion mark was echoed, the first for a window of data: as a round trip with losses
    /// above the threshold.
    pub(in crate::congestion) fn on_mark(&mut self, window: &Window, in_flight: u32, now: Instant) {
        self.latest.note_loss(self.sampler.delivered());
        if self.probing.is_sample {
            let is_app_limited = self.sampler.is_app_limited();
            self.on_inflight_too_high(window, in_flight, is_app_limited, now);
        } else if self.state == State::Startup {
            self.end_startup_for_loss();
        }
    }

    /// `OnEnterFastRecovery`, or the first part of `OnEnterRTO`. If no segment was deemed lost for
    /// it, a probe has repaired a loss.
    pub(in crate::congestion) fn on_recovery_begins(&mut self, window: &Window) {
        if !self.losses.is_saved {
            self.note_loss(window);
        }
        self.losses.is_saved = false;
        self.save_cwnd(window);
        self.losses.recovering_since = Some(self.rounds.count);
    }

    /// Everything is repaired.
    pub(in crate::congestion) fn on_recovery_ends(&mut self, window: &mut Window) {
        self.losses.recovering_since = None;
        self.losses.is_saved = false;
        self.restore_cwnd(window);
    }

    /// The last recovery is not to be undone.
    pub(in crate::congestion) fn confirm(&mut self) {
        self.undo = None;
    }

    /// `HandleSpuriousLossDetection`
    pub(in crate::congestion) fn on_spurious(&mut self, window: &mut Window) {
        let Some(undo) = self.undo.take() else {
            return;
        };
        self.on_recovery_ends(window);
        self.latest.is_loss_in_round = false;
        self.full_pipe.reset(0);
        let bounds = &mut self.bounds;
        bounds.bw_shortterm = bounds.bw_shortterm.max(undo.bw_shortterm);
        bounds.inflight_shortterm = bounds.inflight_shortterm.max(undo.inflight_shortterm);
        bounds.inflight_longterm = bounds.inflight_longterm.max(undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.is_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::ProbeBw(Cycle::Up))
                if !matches!(self.state, State::ProbeBw(Cycle::Up) | State::ProbeRtt) =>
            {
                self.start_refill();
            }
            Some(_) | None => {}
        }
    }

    /// `SaveCwnd`
    pub(in crate::congestion) fn save_cwnd(&mut self, window: &Window) {
        let is_good =
            self.losses.recovering_since.is_none() && !matches!(self.state, State::ProbeRtt);
        self.prior_cwnd = if is_good {
            window.cwnd
        } else {
            self.prior_cwnd.max(window.cwnd)
        };
    }

    /// `RestoreCwnd`
    pub(super) fn restore_cwnd(&self, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_cwnd);
    }
}

/// `InflightAtLoss`: what was in flight when losses crossed the threshold, within the lost segment
/// of `len` octets.
fn inflight_at_loss(in_flight: u32, lost: u64, len: u32) -> u32 {
    let before = u64::from(in_flight.saturating_sub(len));
    let lost_before = lost.saturating_sub(len.into()).saturating_mul(100);
    let allowed = before.saturating_mul(LOSS_THRESH);
    let prefix = allowed.saturating_sub(lost_before) / (100 - LOSS_THRESH);
    octets(before.saturating_add(prefix))
}
