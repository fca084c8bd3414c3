//! What may go out, and what went: new data, and what is sent again.

use crate::congestion::Transmission;

use super::{Frto, ProbeDue, Recovery, SentSegment, State};
use crate::{Instant, SeqNumber};

impl Recovery {
    /// Call when there is data to send, before asking for [`Self::room`]: a window that nothing has
    /// used for long must be probed anew (RFC 5681 §4.1).
    pub fn before_sending(&mut self, now: Instant) {
        if !self.scoreboard.is_empty() {
            return;
        }
        self.congestion.before_flight(now);
        if self.settings.slow_start_after_idle
            && let Some(last) = self.last_sent_at
        {
            self.congestion
                .after_idle(now.saturating_since(last), self.rtt.base_rto());
            self.last_sent_at = Some(now);
        }
    }

    /// The application has less than a segment for the network. If that could take more, and
    /// nothing waits to be sent again, what is in flight says nothing of the path
    /// (draft-ietf-ccwg-bbr, `CheckIfApplicationLimited`).
    #[inline]
    pub(crate) fn note_app_limited(&mut self) {
        let in_flight = self.in_flight();
        if in_flight < self.congestion.cwnd() && self.scoreboard.to_retransmit() == 0 {
            self.congestion.on_app_limited(in_flight);
        }
    }

    /// Octets of new data for which the congestion window has room.
    #[must_use]
    pub fn room(&self) -> u32 {
        if self.probe == ProbeDue::NewData {
            // RFC 8985 §7.3: the probe goes regardless of the congestion window.
            return self.settings.mss;
        }
        if self.scoreboard.segments().outstanding >= MAX_SEGMENTS {
            return 0;
        }
        self.congestion.cwnd().saturating_sub(self.in_flight())
    }

    /// New data went out, `payload_len` octets at `seq` and maybe FIN; the device cuts them if they
    /// are longer than the MSS.
    pub fn on_sent(&mut self, seq: SeqNumber, payload_len: u32, is_fin: bool, now: Instant) {
        self.on_sent_cut(seq, payload_len, is_fin, self.settings.mss, now);
    }

    /// The same, cut into segments of `segment_len`: more than the MSS in a probe of the path (RFC
    /// 4821).
    #[inline]
    pub(crate) fn on_sent_cut(
        &mut self,
        seq: SeqNumber,
        payload_len: u32,
        is_fin: bool,
        segment_len: u32,
        now: Instant,
    ) {
        debug_assert_eq!(seq, self.snd_nxt);
        let segment_len = segment_len.max(self.settings.mss);
        let is_alone = self.scoreboard.is_empty();
        let mut rest = payload_len;
        let mut next = seq;
        while rest > segment_len {
            self.scoreboard.push(next, segment_len, now);
            next += segment_len;
            rest = rest.saturating_sub(segment_len);
        }
        let last = rest.saturating_add(u32::from(is_fin));
        if last > 0 {
            self.scoreboard.push(next, last, now);
        }
        self.snd_nxt = next + last;
        self.last_sent_at = Some(now);
        self.congestion.on_sent(&Transmission {
            now,
            octets: payload_len.saturating_add(u32::from(is_fin)),
            end: self.snd_nxt,
            is_alone,
            in_flight: self.in_flight(),
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        });
        // RFC 6298 §5.1
        if self.deadlines.retransmission.is_none() {
            self.deadlines.retransmission = Some(now + self.rtt.rto_nanos());
        }
        if self.probe == ProbeDue::NewData {
            self.probe = ProbeDue::No;
            self.tlp.on_probe_sent(self.snd_nxt, false);
        } else {
            self.schedule_probe(now);
        }
    }

    /// What to send again at once, if the congestion window has room for it. `can_send_new`: there
    /// is new data, and the peer's window has room for it.
    pub fn next_to_retransmit(&mut self, can_send_new: bool) -> Option<SentSegment> {
        if self.probe == ProbeDue::Retransmission {
            match self.scoreboard.last() {
                Some(last) if !last.was_sacked => return Some(last),
                Some(_) | None => self.probe = ProbeDue::No,
            }
        }
        if self.scoreboard.to_retransmit() == 0 {
            return None;
        }
        if let State::Loss {
            frto: frto @ Frto::PrefersNew,
            high,
        } = &mut self.state
        {
            // Once new data is under way, step 3 waits for what it brings.
            if can_send_new || self.snd_nxt > *high {
                return None;
            }
            // RFC 5682 §3.1 step 2b: without new data, recover conventionally.
            *frto = Frto::Done;
        }
        let segment = self.scoreboard.next_to_retransmit()?;
        let needed = segment.len.min(self.settings.mss);
        (self.in_flight().saturating_add(needed) <= self.congestion.cwnd()).then_some(segment)
    }

    /// The peer's window has room for the first `len` octets of the segment that
    /// [`Self::next_to_retransmit`] gave: cuts it. Returns what is to be sent; nothing if a peer
    /// makes too many segments of what is outstanding.
    #[cold]
    pub(crate) fn cut_to_retransmit(
        &mut self,
        segment: &SentSegment,
        len: u32,
    ) -> Option<SentSegment> {
        if self.scoreboard.segments().outstanding >= MAX_SEGMENTS {
            self.cancel_probe();
            return None;
        }
        self.scoreboard.cut(segment.seq, len);
        Some(SentSegment { len, ..*segment })
    }

    /// The probe that is due cannot go.
    #[cold]
    pub(crate) fn cancel_probe(&mut self) {
        self.probe = ProbeDue::No;
    }

    /// The segment that [`Self::next_to_retransmit`] gave went out, with this timestamp (`TSval`).
    pub fn on_retransmitted(&mut self, seq: SeqNumber, timestamp: Option<u32>, now: Instant) {
        let is_first = seq == self.snd_una;
        let is_probe = self.probe == ProbeDue::Retransmission;
        let len = if is_probe {
            self.scoreboard.on_probed(seq, now)
        } else {
            self.scoreboard.on_retransmitted(seq, now)
        };
        self.last_sent_at = Some(now);
        self.total_retransmissions = self.total_retransmissions.saturating_add(1);
        self.octets_retransmitted = self.octets_retransmitted.saturating_add(u64::from(len));
        self.congestion.on_sent(&Transmission {
            now,
            octets: len,
            end: seq + len,
            is_alone: false,
            in_flight: self.in_flight(),
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        });
        if is_probe {
            self.probe = ProbeDue::No;
            self.tlp.on_probe_sent(self.snd_nxt, true);
            return;
        }
        self.undo.on_retransmitted(timestamp);
        if is_first || self.deadlines.retransmission.is_none() {
            self.deadlines.retransmission = Some(now + self.rtt.rto_nanos());
        }
    }
}

/// Segments that may be outstanding: memory, if the application sends single octets into a large
/// window.
const MAX_SEGMENTS: u32 = 1 << 16;
