//! BBR version 3 (draft-ietf-ccwg-bbr): sends at the rate at which the path delivers, and keeps in
//! flight what that takes.
//!
//! The path is known by two measurements, the highest delivery rate and the shortest round trip,
//! which cannot be made at the same time: one needs a queue, the other none. So the sender goes
//! through states ([`State`]) that send faster than the path delivers, as fast, and slower. Losses
//! bound the model instead of halving a window: in the long term what was in flight when more than
//! 2 % of it were lost while the sender probed, in the short term the rate at which the path
//! delivers after a loss.
//!
//! The modules are the sections of the draft: what an acknowledgement measures (`samples`) and what
//! the model of the path learns of it (`update_model`), the states (`startup`, `probe_bw`,
//! `probe_rtt`), losses (`loss`), and what the sender is told (`control`). What they keep is in the
//! others.
//!
//! Differences from the draft:
//! * What is known at a transmission is kept for those of one moment together (`samples`).
//! * The state for undoing is saved where an episode of recovery begins, not with the first loss of
//!   each of its rounds: the whole episode is undone.
//! * An echoed congestion mark counts as a round trip with losses above the threshold (the draft
//!   leaves the reaction open).
//! * `BBR.extra_acked` is the highest of five to ten round trips instead of ten (as Linux's BBR has
//!   it).

mod amounts;
mod control;
pub(super) mod episode;
mod full_pipe;
mod loss;
mod min_rtt;
mod model;
mod probe_bw;
mod probe_rtt;
mod probing;
mod samples;
mod startup;
mod state;
mod update_model;

use core::time::Duration;

use crate::Instant;
use crate::time::Nanos;

use super::window::{Ack, Transmission, Window};

use episode::{Losses, Undo};
use full_pipe::FullPipe;
use min_rtt::MinRtt;
use model::{Aggregation, Bandwidth, Bounds, Latest, Rounds};
use probing::Probing;
use samples::Sampler;
use state::{Cycle, State};

/// What `TCP_CC_INFO` tells (`struct tcp_bbr_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BbrInfo {
    /// Octets a second.
    pub bandwidth: u64,
    pub min_rtt: Duration,
    /// In percent.
    pub pacing_gain: u32,
    pub cwnd_gain: u32,
}

/// What a connection knows of its path when its sending begins.
#[derive(Clone, Copy, Debug)]
pub struct PathFacts {
    /// Of the handshake.
    pub srtt: Option<Duration>,
    /// The peer reports what arrives out of order.
    pub has_sack: bool,
    /// Whatever differs between connections: nobody probes at the same time.
    pub seed: u32,
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    state: State,
    sampler: Sampler,
    rounds: Rounds,
    bandwidth: Bandwidth,
    bounds: Bounds,
    latest: Latest,
    aggregation: Aggregation,
    full_pipe: FullPipe,
    probing: Probing,
    min_rtt: MinRtt,
    losses: Losses,
    undo: Option<Undo>,
    /// `BBR.prior_cwnd`
    prior_cwnd: u32,
    /// `BBR.bw`
    bw: u64,
    /// `C.pacing_rate`, in octets a second.
    pacing_rate: u64,
    initial_window: u32,
    mss: u32,
    has_sack: bool,
    /// A round trip was measured.
    has_rtt: bool,
    /// `BBR.idle_restart`
    is_restarting: bool,
    /// The clock is known.
    has_begun: bool,
}

/// When an acknowledgement came, and what was in flight then.
#[derive(Clone, Copy, Debug)]
struct At {
    now: Instant,
    in_flight: u32,
    /// `C.is_cwnd_limited`
    is_window_limited: bool,
}

impl Bbr {
    /// `initial_window` in octets.
    pub(super) fn new(window: &Window, initial_window: u32) -> Self {
        let mut bbr = Self {
            state: State::Startup,
            sampler: Sampler::default(),
            rounds: Rounds::default(),
            bandwidth: Bandwidth::default(),
            bounds: Bounds::default(),
            latest: Latest::default(),
            aggregation: Aggregation::default(),
            full_pipe: FullPipe::default(),
            probing: Probing::default(),
            min_rtt: MinRtt::default(),
            losses: Losses::default(),
            undo: None,
            prior_cwnd: 0,
            bw: 0,
            pacing_rate: 0,
            initial_window,
            mss: window.mss,
            has_sack: true,
            has_rtt: false,
            is_restarting: false,
            has_begun: false,
        };
        bbr.start_pacing_rate(NOMINAL_RTT);
        bbr
    }

    /// What was not known when it was made.
    pub(super) fn learn(&mut self, facts: &PathFacts) {
        self.has_sack = facts.has_sack;
        self.probing.seed(facts.seed);
        if let Some(srtt) = facts.srtt {
            let srtt = Nanos::from(srtt).get();
            self.min_rtt.begin_with(srtt);
            self.has_rtt = srtt > 0;
            self.start_pacing_rate(srtt);
        }
    }

    /// Before the first transmission after which something is in flight: `HandleRestartFromIdle`.
    pub(super) fn before_flight(&mut self, window: &mut Window, now: Instant) {
        if !self.sampler.is_app_limited() {
            return;
        }
        self.is_restarting = true;
        self.aggregation.restart(now);
        match self.state {
            State::ProbeBw(_) => self.set_pacing_rate_with_gain(100),
            State::ProbeRtt => self.end_probe_rtt_if_due(window, now),
            State::Startup | State::Drain { .. } => {}
        }
    }

    pub(super) fn on_sent(&mut self, sent: &Transmission) {
        if !self.has_begun {
            self.has_begun = true;
            self.min_rtt.begin(sent.now);
            self.aggregation.restart(sent.now);
        }
        self.sampler.on_sent(sent);
    }

    /// An acknowledgement reports so many octets; [`Self::on_ack`] follows, or losses that it shows
    /// before.
    pub(super) fn on_delivered(&mut self, octets: u32, now: Instant) {
        self.sampler.on_delivered(octets, now);
    }

    /// The application has no more to send while the window has room for what is more than
    /// `in_flight` octets.
    pub(super) fn on_app_limited(&mut self, in_flight: u32) {
        self.sampler.mark_app_limited(in_flight);
    }

    /// `UpdateOnACK`
    pub(super) fn on_ack(&mut self, window: &mut Window, ack: &Ack, is_window_limited: bool) {
        self.mss = window.mss;
        let sample = self.sampler.on_ack(ack, self.min_rtt.nanos());
        let at = At {
            now: ack.now,
            in_flight: ack.in_flight,
            is_window_limited,
        };
        self.take_first_rtt(&sample);
        self.latest.update(&sample, self.sampler.delivered());
        self.update_congestion_signals(&sample, window);
        self.update_aggregation(&sample, window, at.now);
        self.full_pipe.check(&sample, self.rounds.has_started);
        self.check_startup_done(&sample);
        self.check_drain_done(&at);
        self.update_cycle(&sample, window, &at);
        self.min_rtt.update(sample.rtt, at.now);
        self.check_probe_rtt(&sample, window, &at);
        self.latest.advance(&sample);
        self.bound_bw();
        self.set_pacing_rate_with_gain(self.pacing_gain());
        self.set_cwnd(window, sample.newly_acked);
    }

    /// `BoundBWForModel`
    fn bound_bw(&mut self) {
        self.bw = self.bandwidth.max().min(self.bounds.bw_shortterm);
    }

    /// `IsInAProbeBWState`
    const fn is_in_probe_bw(&self) -> bool {
        matches!(self.state, State::ProbeBw(_))
    }

    /// `IsProbingBW`
    const fn is_accelerating(&self) -> bool {
        matches!(
            self.state,
            State::Startup | State::ProbeBw(Cycle::Refill | Cycle::Up)
        )
    }

    pub(super) fn info(&self) -> BbrInfo {
        BbrInfo {
            bandwidth: self.bw,
            min_rtt: Duration::from_nanos(self.min_rtt.nanos().unwrap_or(0)),
            pacing_gain: self.pacing_gain(),
            cwnd_gain: self.cwnd_gain(),
        }
    }
}

/// `InitPacingRate` without a measurement: a millisecond.
const NOMINAL_RTT: u64 = 1_000_000;

#[cfg(test)]
mod tests;
