//! Taking back what retransmissions have done that were not needed.

use crate::{Instant, SeqNumber};

use super::acknowledgement::Acknowledgement;
use super::undo::Cause;
use super::{Recovery, State};

impl Recovery {
    /// RFC 4015, RFC 5682 §4: as if the last episode had not been.
    #[cold]
    pub(super) fn undo_reduction(&mut self) -> bool {
        if self.scoreboard.segments().lost > 0 {
            self.scoreboard.unmark_lost();
        }
        self.congestion.on_spurious();
        self.rtt.reset_backoff();
        if matches!(self.state, State::Loss { .. }) {
            // As Linux (`tcp_try_undo_loss`): the next timeout is the first of a series.
            self.timeouts = 0;
        }
        if self.undo.end_last() == Some(Cause::Overtaken) {
            self.rack.on_spurious_loss();
        }
        self.state = State::Open;
        true
    }

    /// RFC 3708: takes back what duplicates have shown not to have been needed. Returns whether the
    /// last episode was.
    #[cold]
    pub(super) fn undo_duplicates(&mut self, now: Instant) -> bool {
        if self.undo.take_earlier_duplicate() {
            if self.undo.is_last_in_doubt() {
                self.congestion.on_earlier_spurious(now);
            } else {
                self.congestion.on_spurious();
            }
        }
        self.undo.is_all_duplicate() && self.undo_reduction()
    }

    /// The peer got the octets before `end` twice, `segments` of them. Returns whether that tells
    /// of a reordering window that was too short (RFC 8985 §6.2 step 4). Of what was sent again
    /// while there was no window it does not.
    #[cold]
    pub(super) fn judge_duplicate(&mut self, end: SeqNumber, segments: u32) -> bool {
        let is_own = self.dsack_duplicates <= self.total_retransmissions;
        match self.undo.on_dsack(end, segments) {
            Some(Cause::Overtaken) if is_own && !self.tlp.is_under_way() => {
                self.rack.on_spurious_loss();
                false
            }
            Some(Cause::Overtaken | Cause::Late | Cause::Timeout) | None => true,
        }
    }

    #[inline]
    pub(super) fn is_original(&self, ack: &Acknowledgement<'_>) -> bool {
        self.undo
            .is_original_acknowledged(ack.echo.map(|(value, _)| value))
    }
}
