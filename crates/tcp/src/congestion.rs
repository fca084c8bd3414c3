//! Congestion control: how much may be in flight.
//!
//! [`Congestion`] owns what all algorithms share: the window, the episodes of reduction (once per
//! round trip), rate reduction during recovery (PRR), undoing a reduction that was not needed,
//! restart after idleness, and that a window grows only while the sender uses it. What differs is
//! behind `Controller`.
//!
//! Differences from the RFCs:
//! * `ssthresh` derives from the window instead of `FlightSize` (RFC 5681 §3.1 equation 4), as in
//!   Linux. RFC 9438 §4.6 permits that where the window does not grow beyond what is in flight,
//!   which `Usage` ensures but for slow start, where no more counts than was used.
//! * At the end of recovery the window is not always `ssthresh` at once (RFC 9937 §6): see
//!   `Congestion::end_recovery`.
//! * One acknowledgement may grow the window in slow start by all that it reports, as in Linux (`L`
//!   is unlimited in RFC 3465 §2.2; RFC 9406 §4.3 recommends eight segments): receivers that merge
//!   segments acknowledge dozens at once.
//! * What counts as acknowledged is what an acknowledgement that advances reports as delivered, as
//!   in Linux: segments that were selectively acknowledged before let the window grow no more (RFC
//!   3465 §2.1 counts them).
//! * After a retransmission timeout the window is what is still in flight and one segment (RFC 5681
//!   §3.1: one segment), since RFC 8985 §6.3 declares only those segments lost that are overdue.

mod algorithm;
mod bbr;
mod controller;
mod cubic;
mod hystart;
mod new_reno;
mod none;
mod prr;
mod spurious;
mod state;
mod usage;
mod window;

use core::time::Duration;

use crate::{CongestionAlgorithm, Instant, SeqNumber};

use bbr::Bbr;
use bbr::episode::LostSegment;
use controller::Controller;
use cubic::Cubic;
use new_reno::NewReno;
use none::Uncontrolled;
use prr::Prr;
use state::{Before, State, controller};
use usage::Usage;

pub use bbr::{BbrInfo, PathFacts};
pub use window::{Ack, MAX_CWND, Reduction, Transmission, Window, initial_window};

/// Where a connection is between reductions.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Open,
    /// The window shrinks along with what is in flight, until everything up to `high` is
    /// acknowledged.
    Reducing {
        high: SeqNumber,
        prr: Prr,
    },
    /// After a timeout, until everything up to `high` is acknowledged.
    Loss {
        high: SeqNumber,
    },
}

/// Congestion control of one connection.
#[derive(Clone, Debug)]
pub struct Congestion {
    window: Window,
    state: State,
    phase: Phase,
    usage: Usage,
    initial_window_segments: u8,
    /// What was before the last reduction, until it is known that the reduction was right.
    before_reduction: Option<Box<Before>>,
    /// The model that sets the window, and a rate, where losses alone do not. The state is that of
    /// no control then.
    bbr: Option<Box<Bbr>>,
}

/// The rate at which to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    pub octets_per_second: u64,
    /// Octets that may leave together.
    pub quantum: u32,
}

impl Congestion {
    /// `mss` is the sender's maximum segment size without options (`SMSS`);
    /// `initial_window_segments` is 10 by RFC 6928.
    #[must_use]
    pub fn new(algorithm: CongestionAlgorithm, mss: u32, initial_window_segments: u8) -> Self {
        let mss = mss.max(1);
        let state = match algorithm {
            CongestionAlgorithm::NewReno => State::NewReno(NewReno::default()),
            CongestionAlgorithm::Cubic => State::Cubic(Cubic::default()),
            CongestionAlgorithm::Bbr | CongestionAlgorithm::None => {
                State::Uncontrolled(Uncontrolled)
            }
        };
        let initial_window = initial_window(mss, initial_window_segments);
        let window = Window {
            cwnd: match algorithm {
                CongestionAlgorithm::None => MAX_CWND,
                _ => initial_window,
            },
            // RFC 5681 §3.1: "The initial value of ssthresh SHOULD be set arbitrarily high".
            ssthresh: u32::MAX,
            mss,
        };
        let is_bbr = algorithm == CongestionAlgorithm::Bbr;
        Self {
            window,
            state,
            phase: Phase::Open,
            usage: Usage::default(),
            initial_window_segments,
            before_reduction: None,
            bbr: is_bbr.then(|| Box::new(Bbr::new(&window, initial_window))),
        }
    }

    /// What is known of the path when sending begins. For an algorithm that has a model of it.
    #[must_use]
    pub fn knowing(mut self, facts: &PathFacts) -> Self {
        if let Some(bbr) = &mut self.bbr {
            bbr.learn(facts);
        }
        self
    }

    pub fn on_sent(&mut self, sent: &Transmission) {
        if let Phase::Reducing { prr, .. } = &mut self.phase {
            prr.on_sent(sent.octets);
        }
        let full = sent.in_flight.saturating_add(self.window.mss) > self.cwnd();
        self.usage
            .on_sent(sent.in_flight, full, sent.snd_una, sent.snd_nxt);
        if let Some(bbr) = &mut self.bbr {
            bbr.on_sent(sent);
        }
    }

    pub fn on_ack(&mut self, ack: &Ack) {
        if self.bbr.is_some() {
            self.follow_model(ack);
            return;
        }
        let uncontrolled = self.is_uncontrolled();
        match &mut self.phase {
            Phase::Reducing { .. } if uncontrolled => {}
            Phase::Reducing { high, prr } => {
                if ack.snd_una < *high {
                    prr.on_delivered(ack.delivered, ack.in_flight, ack.is_safe, &mut self.window);
                } else {
                    self.end_recovery(ack.in_flight);
                }
                return;
            }
            Phase::Loss { high } if ack.snd_una >= *high => self.phase = Phase::Open,
            Phase::Loss { .. } | Phase::Open => {}
        }
        if ack.acked == 0 {
            return;
        }
        if self.is_limiting() {
            controller!(&mut self.state, on_ack(&mut self.window, ack));
        } else {
            controller!(&mut self.state, on_unused_window(ack.now));
        }
    }

    /// Loss was detected, or a congestion mark echoed. If an acknowledgement told that, call this
    /// before [`Self::on_ack`].
    ///
    /// Returns whether the window is reduced: not twice for one window of data (RFC 3168 §6.1.2,
    /// RFC 5681 §4.3). When it was for a mark, the next new segment carries CWR.
    pub fn on_congestion_event(&mut self, at: &Reduction) -> bool {
        if !self.reduce(at) {
            return false;
        }
        self.phase = Phase::Reducing {
            high: at.snd_nxt,
            prr: Prr::new(at.recover_flight_size),
        };
        if !self.is_uncontrolled() {
            // Until an acknowledgement lets PRR compute more: one segment, the retransmission.
            let one_more = at.in_flight.saturating_add(self.window.mss);
            self.window.cwnd = self.window.cwnd.min(one_more);
        }
        true
    }

    /// An acknowledgement for an algorithm that has a model.
    fn follow_model(&mut self, ack: &Ack) {
        let is_over = self.is_episode_over(ack.snd_una);
        let Some(bbr) = &mut self.bbr else {
            return;
        };
        if is_over {
            self.phase = Phase::Open;
            bbr.on_recovery_ends(&mut self.window);
        }
        bbr.on_ack(&mut self.window, ack, self.usage.is_full());
    }

    /// An acknowledgement reports so many octets. Call this before [`Self::on_lost`].
    #[inline]
    pub fn on_delivered(&mut self, octets: u32, now: Instant) {
        if let Some(bbr) = &mut self.bbr {
            bbr.on_delivered(octets, now);
        }
    }

    /// A segment is newly deemed lost. Call this before [`Self::on_congestion_event`], for each of
    /// them.
    #[inline]
    pub fn on_lost(&mut self, seq: SeqNumber, len: u32, sent_at: Instant, now: Instant) {
        let Some(bbr) = &mut self.bbr else {
            return;
        };
        // The loss of a probe of the path says nothing of congestion (RFC 4821 §7.6.2). FIN counts.
        if len <= self.window.mss.saturating_add(1) {
            bbr.on_lost(&self.window, &LostSegment { seq, len, sent_at }, now);
        }
    }

    /// The application has no more to send, while `in_flight` octets are not all that the window
    /// has room for.
    #[inline]
    pub fn on_app_limited(&mut self, in_flight: u32) {
        if let Some(bbr) = &mut self.bbr {
            bbr.on_app_limited(in_flight);
        }
    }

    /// Nothing is in flight, and something is about to be.
    #[inline]
    pub fn before_flight(&mut self, now: Instant) {
        if let Some(bbr) = &mut self.bbr {
            bbr.before_flight(&mut self.window, now);
        }
    }

    /// The rate that the algorithm wants. `None`: what the window has room for leaves at once.
    #[inline]
    #[must_use]
    pub fn pacing(&self) -> Option<Pacing> {
        self.bbr.as_ref().map(|bbr| Pacing {
            octets_per_second: bbr.pacing_rate(),
            quantum: bbr.send_quantum(),
        })
    }

    /// What [`CongestionAlgorithm::Bbr`] knows of the path.
    #[must_use]
    pub fn bbr_info(&self) -> Option<BbrInfo> {
        self.bbr.as_ref().map(|bbr| bbr.info())
    }

    /// A timer has shown losses while the window is being reduced. What is lost left room, for
    /// which PRR has not reckoned: goes on with it as if one segment were reported, the
    /// retransmission (`tcp_rack_reo_timeout`). `in_flight` is without what is lost.
    #[cold]
    pub fn on_late_loss(&mut self, in_flight: u32) {
        if let Phase::Reducing { prr, .. } = &mut self.phase
            && !matches!(self.state, State::Uncontrolled(_))
        {
            prr.on_delivered(self.window.mss, in_flight, false, &mut self.window);
        }
    }

    /// The retransmission timer has expired. `at.in_flight` is what remains after the overdue
    /// segments are deemed lost.
    pub fn on_rto(&mut self, at: &Reduction) {
        self.reduce(at);
        controller!(&mut self.state, on_rto());
        if let Some(bbr) = &mut self.bbr {
            bbr.save_cwnd(&self.window);
        }
        if !self.is_uncontrolled() || self.bbr.is_some() {
            self.window.cwnd = at.in_flight.saturating_add(self.window.mss);
        }
        self.phase = Phase::Loss { high: at.snd_nxt };
    }

    /// Call before the first transmission after nothing was in flight for `idle`.
    ///
    /// RFC 2861 §3, as in Linux: halves the window for each `rto` that has passed, down to the
    /// restart window (RFC 5681 §4.1), and remembers three quarters of it as `ssthresh`.
    pub fn after_idle(&mut self, idle: Duration, rto: Duration) {
        controller!(&mut self.state, on_idle(idle));
        if idle <= rto || self.is_uncontrolled() {
            return;
        }
        let cwnd = self.window.cwnd;
        let restart_window = self.initial_window().min(cwnd);
        self.window.ssthresh = self.window.ssthresh.max(cwnd.saturating_sub(cwnd / 4));
        let halvings = u32::try_from(
            idle.as_nanos()
                .checked_div(rto.as_nanos())
                .unwrap_or(u128::MAX),
        )
        .unwrap_or(u32::MAX);
        self.window.cwnd = cwnd.checked_shr(halvings).unwrap_or(0).max(restart_window);
        self.usage = Usage::default();
    }

    /// RFC 5681 §3.1: the handshake was retransmitted, so the initial window is one segment.
    pub fn on_handshake_retransmitted(&mut self) {
        if !self.is_uncontrolled() || self.bbr.is_some() {
            self.window.cwnd = self.window.mss;
        }
    }

    /// The path's maximum segment size has changed. One segment can always go.
    pub fn set_mss(&mut self, mss: u32) {
        self.window.mss = mss.max(1);
        self.window.cwnd = self.window.cwnd.max(self.window.mss);
    }

    /// The window, not the application or the peer, bounded what was in flight in the last round
    /// trip.
    #[must_use]
    pub fn is_limiting(&self) -> bool {
        self.usage.is_limited(&self.window)
    }

    /// Octets that may be in flight.
    #[must_use]
    pub const fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    #[must_use]
    pub const fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    #[must_use]
    pub const fn algorithm(&self) -> CongestionAlgorithm {
        match self.state {
            State::NewReno(_) => CongestionAlgorithm::NewReno,
            State::Cubic(_) => CongestionAlgorithm::Cubic,
            State::Uncontrolled(_) if self.bbr.is_some() => CongestionAlgorithm::Bbr,
            State::Uncontrolled(_) => CongestionAlgorithm::None,
        }
    }

    /// Once per window of data: lowers `ssthresh` and remembers how to undo that.
    fn reduce(&mut self, at: &Reduction) -> bool {
        let is_new = matches!(self.phase, Phase::Open) || self.is_episode_over(at.snd_una);
        if !is_new {
            return false;
        }
        if let Some(bbr) = &mut self.bbr {
            if !matches!(self.phase, Phase::Open) {
                bbr.on_recovery_ends(&mut self.window);
            }
            if at.is_mark {
                bbr.on_mark(&self.window, at.in_flight, at.now);
            } else {
                bbr.on_recovery_begins(&self.window);
            }
            return true;
        }
        self.end_recovery(at.in_flight);
        let (window, state) = (self.window, self.state.checkpoint());
        if self.window.in_slow_start() && !self.is_uncontrolled() {
            // Slow start grows the window to twice of what is in flight, if the peer's window or
            // the application allows no more. That says nothing about the network (RFC 5681 §3.1
            // equation 4 reduces `FlightSize`).
            let used = self.usage.used(&self.window).max(self.initial_window());
            self.window.cwnd = self.window.cwnd.min(used);
        }
        self.remember(window, state, at.is_last_in_doubt);
        self.window.ssthresh = controller!(&mut self.state, on_reduction(&self.window, at.now));
        true
    }

    /// RFC 9937 §6, at the end of recovery: "cwnd = ssthresh". But if nothing is in flight, because
    /// the peer's window has held new data back, that is a burst which overflows the queue that
    /// recovery has just drained. RFC 6582 §3.2 step 3 warns of it: at once goes a half or an
    /// initial window, and slow start brings the rest in a round trip.
    fn end_recovery(&mut self, in_flight: u32) {
        if let Phase::Reducing { .. } = self.phase
            && !self.is_uncontrolled()
        {
            let burst = (self.window.ssthresh / 2).max(self.initial_window());
            self.window.cwnd = self.window.ssthresh.min(in_flight.saturating_add(burst));
        }
        self.phase = Phase::Open;
    }

    fn initial_window(&self) -> u32 {
        initial_window(self.window.mss, self.initial_window_segments)
    }

    /// An episode of reduction has begun, and all that was sent before has been acknowledged.
    fn is_episode_over(&self, snd_una: SeqNumber) -> bool {
        match self.phase {
            Phase::Reducing { high, .. } | Phase::Loss { high } => snd_una >= high,
            Phase::Open => false,
        }
    }

    const fn is_uncontrolled(&self) -> bool {
        matches!(self.state, State::Uncontrolled(_))
    }
}

#[cfg(test)]
mod tests;
