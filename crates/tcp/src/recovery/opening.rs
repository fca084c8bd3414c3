//! Data that goes with the SYN (RFC 7413), which arrives, or is to be sent again as soon as the
//! handshake is over.

use core::time::Duration;

use super::Recovery;
use super::deadlines::Deadlines;
use crate::{Instant, SeqNumber};

impl Recovery {
    /// As [`Self::on_sent`], for data that went out with the SYN: it is outstanding, and is to be
    /// sent again.
    #[cold]
    pub(crate) fn on_sent_in_vain(&mut self, seq: SeqNumber, len: u32, now: Instant) {
        self.scoreboard.push(seq, len, now);
        self.scoreboard.resegment(self.settings.mss, false);
        self.snd_nxt = seq + len;
        self.last_sent_at = Some(now);
        self.deadlines.retransmission = Some(now + self.rtt.rto_nanos());
        self.repeat_everything(now);
    }

    /// Everything outstanding is to be sent again, for a reason that is not congestion: the SYN
    /// that carried it did not get through as it was (RFC 7413).
    pub(crate) fn repeat_everything(&mut self, now: Instant) {
        self.scoreboard
            .mark_lost_on_timeout(Duration::ZERO, now, |_| {});
        self.deadlines.probe = None;
    }

    /// Another timer, that of a SYN-ACK, stands for these.
    pub(crate) fn hold_timers(&mut self) {
        self.deadlines = Deadlines::default();
    }

    /// The retransmission timer begins anew if something is outstanding (RFC 6298 §5.3).
    pub(crate) fn restart_timer(&mut self, now: Instant) {
        let is_needed = !self.scoreboard.is_empty();
        self.deadlines.retransmission = is_needed.then(|| now + self.rtt.rto_nanos());
    }
}
