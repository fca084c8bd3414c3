//! What recovery waits for, and what it does when that time has come: retransmission timeout, tail
//! loss probe, reordering timeout.

use core::time::Duration;

use super::deadlines::{Deadlines, Timeout};
use super::undo::Cause;
use super::{Frto, ProbeDue, Recovery, State, tlp};
use crate::Instant;
use crate::congestion::Reduction;

impl Recovery {
    /// When to call [`Self::on_timeout`].
    #[inline]
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let Deadlines {
            retransmission,
            probe,
            reordering,
        } = self.deadlines;
        [retransmission, probe, reordering]
            .into_iter()
            .flatten()
            .min()
    }

    /// A deadline may have come. `can_send_new`: there is new data, and the peer's window has room
    /// for it.
    pub fn on_timeout(&mut self, now: Instant, can_send_new: bool) -> Timeout {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.deadlines.reordering) {
            self.on_reordering_timeout(now);
            return Timeout::Overdue;
        }
        if is_due(self.deadlines.probe) {
            return self.on_probe_timeout(now, can_send_new);
        }
        if is_due(self.deadlines.retransmission) {
            return self.on_retransmission_timeout(now);
        }
        Timeout::Nothing
    }

    /// RFC 8985 §6.2: "Upon RACK reordering timer expiration"
    fn on_reordering_timeout(&mut self, now: Instant) {
        self.detect_overdue(now);
        let lost = self.scoreboard.to_retransmit();
        if lost > 0 && !self.cut_lost_probe(lost) {
            let is_in_reduction = matches!(self.state, State::Cwr { .. });
            self.enter_recovery(now, 0);
            if is_in_reduction {
                self.congestion.on_late_loss(self.in_flight());
            }
        }
        if self.deadlines.retransmission.is_none() {
            self.deadlines.retransmission = Some(now + self.rtt.rto_nanos());
        }
    }

    /// RFC 8985 §7.3
    fn on_probe_timeout(&mut self, now: Instant, can_send_new: bool) -> Timeout {
        self.deadlines.probe = None;
        self.deadlines.retransmission = Some(now + self.rtt.rto_nanos());
        if self.tlp.is_under_way() || self.scoreboard.is_empty() {
            return Timeout::Nothing;
        }
        self.probe = if can_send_new {
            ProbeDue::NewData
        } else {
            ProbeDue::Retransmission
        };
        Timeout::Probe
    }

    /// RFC 6298 §5.4 to §5.7, RFC 8985 §6.3, RFC 5682 §3.1 step 1
    fn on_retransmission_timeout(&mut self, now: Instant) -> Timeout {
        self.deadlines = Deadlines::default();
        if self.scoreboard.is_empty() {
            return Timeout::Nothing;
        }
        let is_new_episode = match self.state {
            State::Open | State::Cwr { .. } => true,
            State::Recovery { high } | State::Loss { high, .. } => self.snd_una >= high,
        };
        let is_repeated = self.timeouts > 0;
        // The driver had no room: nothing that the network could have lost (`tcp_retransmit_timer`,
        // local congestion).
        let is_unsent = is_repeated && self.scoreboard.waits_for_first();
        if self.settings.sack {
            self.mark_lost_on_timeout(self.rack.timeout(), now);
        } else {
            self.mark_lost_on_timeout(Duration::ZERO, now);
            self.duplicates = 0;
        }
        self.tlp.cancel();
        self.probe = ProbeDue::No;
        if !is_unsent {
            self.rtt.on_timeout();
            self.timeouts = self.timeouts.saturating_add(1);
        }
        let reduction = Reduction {
            is_last_in_doubt: is_new_episode && self.undo.begin(self.snd_una, Cause::Timeout),
            ..self.reduction(now, 0)
        };
        self.congestion.on_rto(&reduction);
        // Step 1 leaves out timeouts during another recovery, whose retransmissions confuse the
        // judgement.
        let frto = if is_new_episode || is_repeated {
            Frto::Open
        } else {
            Frto::Done
        };
        self.state = State::Loss {
            high: self.snd_nxt,
            frto,
        };
        self.recover = self.snd_nxt;
        self.deadlines.retransmission = Some(now + self.rtt.rto_nanos());
        Timeout::Retransmission
    }

    /// RFC 8985 §7.2: arms the probe timer if a probe is of use.
    pub(super) fn schedule_probe(&mut self, now: Instant) {
        self.deadlines.probe = None;
        let is_calm = matches!(self.state, State::Open | State::Cwr { .. });
        if !self.settings.tail_loss_probe
            || !self.settings.sack
            || !is_calm
            || self.tlp.is_under_way()
            || self.scoreboard.is_empty()
            || self.scoreboard.segments().sacked > 0
        {
            return;
        }
        let is_single = self.scoreboard.segments().outstanding == 1;
        let timeout = tlp::probe_timeout(self.rtt.srtt(), is_single, self.rtt.min_rto());
        let probe = now + timeout;
        // A probe in the place of an earlier timeout, which begins anew after it.
        let rto = self.deadlines.retransmission;
        self.deadlines.probe = Some(rto.map_or(probe, |rto| rto.min(probe)));
    }
}
