//! Loss detection and recovery of the sending side: what is in flight, what is lost, what to send
//! again and when.
//!
//! With SACK, losses are found by RACK and TLP (RFC 8985) on the scoreboard (RFC 6675), without it
//! by three duplicate acknowledgements (RFC 5681 §3.2, RFC 6582). Timeouts that were not needed are
//! recognised (RFC 5682, RFC 3522, RFC 3708) and taken back. The congestion window is
//! [`Congestion`]'s, the timeout [`RttEstimator`]'s; this module tells them what happens.
//!
//! # Driving it
//!
//! * new data was sent: [`Recovery::on_sent`]; before it, [`Recovery::room`] says how much may go;
//! * to send again: [`Recovery::next_to_retransmit`], then [`Recovery::on_retransmitted`], until
//!   there is none. That goes before new data;
//! * an acknowledgement came: [`Recovery::on_ack`];
//! * [`Recovery::deadline`] has come: [`Recovery::on_timeout`].
//!
//! The limited transmit of RFC 3042 needs no code: what a duplicate acknowledgement reports has
//! left the network, so there is room for a new segment.
//!
//! Differences from the RFCs, as in Linux:
//! * SACK information outlives a timeout (RFC 6675 §5.1; RFC 2018 §5, a SHOULD, discarded it)
//!   unless the receiver has thrown away what it reported, which shows in its not acknowledging the
//!   first outstanding segment;
//! * without SACK the first three duplicates inflate nothing (RFC 6582 §3.2): each takes one
//!   segment out of flight.

mod acknowledgement;
mod deadlines;
mod delivery;
mod on_ack;
mod opening;
mod rack;
mod scoreboard;
mod sending;
mod spurious;
mod timeout;
mod tlp;
mod undo;

use core::time::Duration;

use crate::congestion::{Congestion, PathFacts, Reduction};
use crate::rtt::RttEstimator;
use crate::{CaState, CongestionAlgorithm, Instant, SeqNumber};

use deadlines::Deadlines;
use rack::Rack;
use tlp::Tlp;
use undo::{Cause, Undo};

pub use acknowledgement::{Acknowledgement, Outcome};
pub use deadlines::Timeout;
pub use scoreboard::{Counts, Scoreboard, SentSegment};

/// What a connection has negotiated and configured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub algorithm: CongestionAlgorithm,
    /// Octets of payload in a full segment.
    pub mss: u32,
    pub initial_window_segments: u8,
    /// Both sides permitted SACK.
    pub sack: bool,
    pub tail_loss_probe: bool,
    pub slow_start_after_idle: bool,
    /// Duplicates that mean loss while no reordering was seen.
    pub dup_threshold: u8,
}

/// Loss recovery of one connection.
#[derive(Clone, Debug)]
pub struct Recovery {
    pub congestion: Congestion,
    pub rtt: RttEstimator,
    scoreboard: Scoreboard,
    rack: Rack,
    tlp: Tlp,
    undo: Undo,
    state: State,
    settings: Settings,
    snd_una: SeqNumber,
    snd_nxt: SeqNumber,
    /// Without SACK: segments that duplicate acknowledgements stand for.
    duplicates: u32,
    /// Without SACK: the end of the last recovery (`recover` of RFC 6582 §3.1).
    recover: SeqNumber,
    deadlines: Deadlines,
    probe: ProbeDue,
    last_sent_at: Option<Instant>,
    /// Timeouts in a row without an acknowledgement of anything new.
    timeouts: u8,
    total_retransmissions: u32,
    octets_retransmitted: u64,
    dsack_duplicates: u32,
}

/// Congestion states of Linux, where `Disorder` is `Open` with something reported out of order.
#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// Reducing because of ECN, until `high` is acknowledged.
    Cwr {
        high: SeqNumber,
    },
    /// Fast recovery, until `high` is acknowledged.
    Recovery {
        high: SeqNumber,
    },
    /// After a timeout, until `high` is acknowledged.
    Loss {
        high: SeqNumber,
        frto: Frto,
    },
}

/// Forward RTO recovery (RFC 5682 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frto {
    /// It is not known yet whether the timeout was spurious.
    Open,
    /// Step 2b: new data goes before retransmissions.
    PrefersNew,
    /// The timeout was needed.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeDue {
    No,
    NewData,
    Retransmission,
}

impl Recovery {
    /// For a connection whose handshake is complete; `snd_una` is its first data octet.
    #[must_use]
    pub fn new(settings: Settings, rtt: RttEstimator, snd_una: SeqNumber) -> Self {
        let congestion = Congestion::new(
            settings.algorithm,
            settings.mss,
            settings.initial_window_segments,
        );
        Self {
            congestion: congestion.knowing(&PathFacts {
                srtt: rtt.srtt(),
                has_sack: settings.sack,
                // The initial sequence number is a keyed hash (RFC 6528 §3).
                seed: snd_una.0,
            }),
            rtt,
            scoreboard: Scoreboard::default(),
            rack: Rack::new(settings.dup_threshold),
            tlp: Tlp::default(),
            undo: Undo::default(),
            state: State::Open,
            settings,
            snd_una,
            snd_nxt: snd_una,
            duplicates: 0,
            recover: snd_una - 1,
            deadlines: Deadlines::default(),
            probe: ProbeDue::No,
            last_sent_at: None,
            timeouts: 0,
            total_retransmissions: 0,
            octets_retransmitted: 0,
            dsack_duplicates: 0,
        }
    }

    /// The handshake is over: idleness counts from here on.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.last_sent_at = Some(now);
    }

    /// Another algorithm takes over. What is outstanding is not known to it.
    pub(crate) fn set_algorithm(&mut self, algorithm: CongestionAlgorithm) {
        self.settings.algorithm = algorithm;
        let fresh = Self::new(self.settings, self.rtt.clone(), self.snd_nxt);
        self.congestion = fresh.congestion;
    }

    /// A congestion mark was echoed (RFC 3168 §6.1.2). Call before [`Self::on_ack`]. Returns
    /// whether the window is reduced, and CWR to be set on the next new segment.
    pub fn on_ecn_echo(&mut self, now: Instant) -> bool {
        let reduction = Reduction {
            is_mark: true,
            ..self.reduction(now, 0)
        };
        let is_reduced = self.congestion.on_congestion_event(&reduction);
        if is_reduced {
            self.confirm_reductions();
            self.state = State::Cwr { high: self.snd_nxt };
        }
        is_reduced
    }

    /// The congestion window is, or was, reduced, and what was sent before has not all been
    /// acknowledged.
    #[inline]
    pub(crate) fn is_reducing(&self) -> bool {
        !matches!(self.state, State::Open)
    }

    /// What is deemed lost belongs to an episode that has begun.
    fn is_recovering(&self) -> bool {
        matches!(self.state, State::Recovery { .. } | State::Loss { .. })
    }

    /// RFC 8985 §6.2 step 5: deems lost what is overdue, and sets the timer for what is not yet.
    fn detect_overdue(&mut self, now: Instant) {
        let Self {
            congestion,
            scoreboard,
            rack,
            rtt,
            ..
        } = self;
        let lost = |lost: &SentSegment| congestion.on_lost(lost.seq, lost.len, lost.sent_at, now);
        self.deadlines.reordering = rack.detect_lost(scoreboard, rtt, now, lost);
    }

    /// The first segment is deemed lost.
    fn mark_first_lost(&mut self, now: Instant) {
        let congestion = &mut self.congestion;
        let lost = |lost: &SentSegment| congestion.on_lost(lost.seq, lost.len, lost.sent_at, now);
        self.scoreboard.mark_first_lost(lost);
    }

    /// What was sent `timeout` ago is deemed lost.
    fn mark_lost_on_timeout(&mut self, timeout: Duration, now: Instant) {
        let congestion = &mut self.congestion;
        let lost = |lost: &SentSegment| congestion.on_lost(lost.seq, lost.len, lost.sent_at, now);
        self.scoreboard.mark_lost_on_timeout(timeout, now, lost);
    }

    /// Segments were deemed lost: fast recovery begins, unless one is going on. `newly_delivered`
    /// octets are what the acknowledgement that shows it reports. If the window is being reduced
    /// already, for a mark, that goes on up to its own end: it is not reduced twice for one window
    /// of data (RFC 3168 §6.1.2).
    fn enter_recovery(&mut self, now: Instant, newly_delivered: u32) {
        if self.is_recovering() {
            return;
        }
        let cause = if self.rack.is_order_kept() {
            Cause::Overtaken
        } else {
            Cause::Late
        };
        let reduction = Reduction {
            is_last_in_doubt: self.undo.begin(self.snd_una, cause),
            ..self.reduction(now, newly_delivered)
        };
        let is_reduced = self.congestion.on_congestion_event(&reduction);
        let high = match self.state {
            State::Cwr { high } if !is_reduced => high,
            _ => self.snd_nxt,
        };
        self.tlp.cancel();
        self.deadlines.probe = None;
        self.state = State::Recovery { high };
        self.recover = high;
    }

    /// RFC 4821 §7.6.2: if nothing is lost but a probe of the path, which is longer than the other
    /// segments by more than FIN, that says nothing of congestion. It is cut, to be sent again.
    fn cut_lost_probe(&mut self, lost: u32) -> bool {
        let mss = self.settings.mss;
        let is_probe = lost == 1
            && matches!(self.state, State::Open)
            && self.settings.sack
            && self.scoreboard.first().is_some_and(|first| {
                first.len > mss.saturating_add(1) && first.seq == self.snd_una
            });
        if is_probe {
            self.scoreboard.resegment(mss, true);
        }
        is_probe
    }

    /// The last reduction is not to be undone, and so none before it.
    fn confirm_reductions(&mut self) {
        self.undo.end();
        self.congestion.confirm();
    }

    /// RFC 9937 §6: `RecoverFS` is what was outstanding before the acknowledgement, without what
    /// had been reported earlier.
    fn reduction(&self, now: Instant, newly_delivered: u32) -> Reduction {
        let octets = self.scoreboard.octets();
        Reduction {
            now,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            in_flight: self.in_flight(),
            recover_flight_size: octets
                .outstanding
                .saturating_sub(octets.sacked)
                .saturating_add(newly_delivered),
            is_last_in_doubt: false,
            is_mark: false,
        }
    }

    /// The path's segment size has changed: what is outstanding is cut to it.
    ///
    /// If `is_too_big`, the path has dropped the longer segments, and these are sent again at once,
    /// without a reaction of congestion control (RFC 1191 §6.4).
    pub fn set_mss(&mut self, mss: u32, is_too_big: bool) {
        let mss = mss.max(1);
        self.settings.mss = mss;
        self.congestion.set_mss(mss);
        self.scoreboard.resegment(mss, is_too_big);
    }

    /// Octets in flight: neither acknowledged nor deemed lost.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        let reported = self.duplicates.saturating_mul(self.settings.mss);
        self.scoreboard.in_flight().saturating_sub(reported)
    }

    /// What is sent and not acknowledged.
    #[must_use]
    pub const fn scoreboard(&self) -> &Scoreboard {
        &self.scoreboard
    }

    /// For `TCP_INFO`.
    #[must_use]
    pub fn ca_state(&self) -> CaState {
        match self.state {
            State::Open if self.scoreboard.segments().sacked > 0 || self.duplicates > 0 => {
                CaState::Disorder
            }
            State::Open => CaState::Open,
            State::Cwr { .. } => CaState::Cwr,
            State::Recovery { .. } => CaState::Recovery,
            State::Loss { .. } => CaState::Loss,
        }
    }

    /// Timeouts in a row without an acknowledgement of anything new.
    #[must_use]
    pub const fn timeouts(&self) -> u8 {
        self.timeouts
    }

    /// Where sending touches the scoreboard's memory, as addresses to prefetch.
    #[inline]
    pub(crate) fn lines(&self) -> [*const u8; 2] {
        self.scoreboard.lines()
    }

    /// Gives back memory that is only kept for speed.
    pub(crate) fn shrink(&mut self) {
        self.scoreboard.shrink();
    }

    /// When data was sent last.
    #[must_use]
    pub const fn last_sent_at(&self) -> Option<Instant> {
        self.last_sent_at
    }

    /// Segments sent again over the life of the connection.
    #[must_use]
    pub const fn total_retransmissions(&self) -> u32 {
        self.total_retransmissions
    }

    #[must_use]
    pub const fn octets_retransmitted(&self) -> u64 {
        self.octets_retransmitted
    }

    /// Duplicates that the peer reported over the life of the connection.
    #[must_use]
    pub const fn dsack_duplicates(&self) -> u32 {
        self.dsack_duplicates
    }

    /// Whether the next acknowledgement matters even if nothing is outstanding: it tells what
    /// became of a tail loss probe.
    #[inline]
    #[must_use]
    pub const fn is_probe_under_way(&self) -> bool {
        self.tlp.is_under_way()
    }

    /// `tcpi_reordering`, in segments.
    #[must_use]
    pub fn reordering(&self) -> u32 {
        self.rack.reordering(self.settings.mss)
    }

    /// Acknowledgements that showed that the network reorders segments.
    #[must_use]
    pub fn reorderings(&self) -> u32 {
        self.rack.reorderings()
    }
}

#[cfg(test)]
mod tests;
