//! The sending side of a connection: what is to be sent, what of it is under way, and the peer's
//! window.

use crate::{Options, SeqNumber, mss};

mod marks;
mod next;
pub(crate) mod queue;

use marks::Marks;
pub(crate) use next::{Blocked, Limits, NewSegment};
use queue::SendQueue;

/// The variables of RFC 9293 §3.3.1, table 2 ("Send Sequence Variables"), and the data behind them.
///
/// In this order: what received data does not touch comes first (`connection/layout.rs`).
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Sender {
    /// The largest window ever offered (`MAX.SND.WND` of RFC 5961 §5).
    pub(crate) max_wnd: u32,
    /// The end of the last segment sent that was smaller than the others (Minshall's variant of
    /// Nagle).
    small_end: SeqNumber,
    /// The end of the last segment sent with PSH.
    pushed: SeqNumber,
    /// What was written up to here goes at once, whatever Nagle and the cork say.
    flush_end: SeqNumber,
    /// Urgent data and records, if there are any.
    marks: Option<Box<Marks>>,
    pub(crate) queue: SendQueue,
    pub(crate) snd_una: SeqNumber,
    pub(crate) snd_nxt: SeqNumber,
    /// Scaled.
    pub(crate) snd_wnd: u32,
    snd_wl1: SeqNumber,
    /// RFC 7323 §2: the shift of the windows that come.
    pub(crate) scale: u8,
    /// `marks` is something: received data touches this field, not that one.
    has_marks: bool,
    /// The application is done: FIN follows the queue.
    pub(crate) is_fin_queued: bool,
    /// The last write said that more would follow (`MSG_MORE`).
    pub(crate) is_more: bool,
    /// There was no room after a write, or not enough for it, and nobody has been told since that
    /// there is (`SOCK_NOSPACE`).
    pub(crate) is_blocked: bool,
    /// The last write was refused or partial, and there was no room since.
    pub(crate) is_refused: bool,
}

impl Sender {
    /// Where that begins which received data touches, in octets.
    pub(crate) const RECEIVING: usize =
        core::mem::offset_of!(Self, queue) + core::mem::offset_of!(SendQueue, start);

    pub(crate) fn new(iss: SeqNumber) -> Self {
        Self {
            snd_una: iss,
            snd_nxt: iss,
            snd_wnd: 0,
            snd_wl1: SeqNumber(0),
            max_wnd: 0,
            scale: 0,
            queue: SendQueue::new(iss + 1),
            is_fin_queued: false,
            marks: None,
            has_marks: false,
            small_end: iss,
            is_more: false,
            is_blocked: false,
            is_refused: false,
            pushed: iss,
            flush_end: iss,
        }
    }

    /// The first window, from SYN or SYN-ACK, where it is not scaled.
    pub(crate) fn start_window(&mut self, seq: SeqNumber, window: u32) {
        self.snd_wl1 = seq;
        self.snd_wnd = window;
        self.max_wnd = self.max_wnd.max(window);
    }

    /// RFC 9293 §3.10.7.4, fifth check: takes the window of an acceptable ACK unless the segment is
    /// older than the one that the present window came with. Returns whether it changed.
    ///
    /// As in Linux there is no `SND.WL2`: a segment that acknowledges something new is newer, and
    /// among segments with the same numbers the larger window is (or zero, which must not be
    /// missed).
    #[inline]
    pub(crate) fn update_window(&mut self, seq: SeqNumber, ack: SeqNumber, field: u16) -> bool {
        let window = u32::from(field) << self.scale;
        let is_newer = ack > self.snd_una
            || seq > self.snd_wl1
            || (seq == self.snd_wl1 && (window > self.snd_wnd || window == 0));
        if !is_newer {
            return false;
        }
        self.snd_wl1 = seq;
        if window == self.snd_wnd {
            return false;
        }
        self.snd_wnd = window;
        self.max_wnd = self.max_wnd.max(window);
        true
    }

    /// A segment with the present window and `seq`, which is not older than any before, was
    /// acceptable.
    #[inline]
    pub(crate) fn note_newer(&mut self, seq: SeqNumber) {
        self.snd_wl1 = seq;
    }

    /// Whether a segment smaller than the MSS, the last there is, may go.
    fn check_small(&self, options: &Options) -> Result<(), Blocked> {
        // As with Linux until the urgent octet is acknowledged (`tcp_urg_mode`).
        let is_urgent = self.urgent_end().is_some_and(|end| end > self.snd_una);
        // The end only advances, so nothing older can be equal to it; by order, half of the numbers
        // would be.
        let is_flushed = self.flush_end == self.queue.end();
        if self.is_fin_queued || is_urgent || is_flushed {
            return Ok(());
        }
        if options.is_cork || self.is_more {
            return Err(Blocked::Cork);
        }
        // RFC 9293 §3.7.4 with Minshall's modification, as in Linux: only a small segment holds
        // back the next one.
        let is_small_outstanding = self.small_end > self.snd_una && self.small_end <= self.snd_nxt;
        if !options.is_no_delay && is_small_outstanding {
            return Err(Blocked::Nagle);
        }
        Ok(())
    }

    /// What [`next_segment`](Self::next_segment) or a probe decided went out.
    #[inline]
    pub(crate) fn on_sent(&mut self, segment: &NewSegment, mss: u32) {
        debug_assert!(segment.start == self.snd_nxt && !self.is_fin_sent());
        let end = segment.start + segment.len;
        self.snd_nxt = end + u32::from(segment.is_fin);
        if segment.len.checked_rem(mss).unwrap_or(0) != 0 {
            self.small_end = end;
        }
        if segment.is_push {
            self.pushed = end;
        }
    }

    /// `SND.UNA` advances to `ack`. Returns whether our FIN is acknowledged by it.
    #[inline]
    pub(crate) fn on_ack(&mut self, ack: SeqNumber) -> bool {
        self.snd_una = ack;
        self.queue.advance(ack);
        if let Some(marks) = &mut self.marks
            && marks.on_ack(ack)
        {
            self.marks = None;
            self.has_marks = false;
        }
        self.is_fin_sent() && ack == self.snd_nxt
    }

    /// Something is urgent, or a record ends in the queue.
    pub(crate) fn has_marks(&self) -> bool {
        self.has_marks
    }

    #[inline]
    fn marks(&self) -> Option<&Marks> {
        if self.has_marks {
            self.marks.as_deref()
        } else {
            None
        }
    }

    fn marks_mut(&mut self) -> &mut Marks {
        self.has_marks = true;
        self.marks.get_or_insert_default()
    }

    /// `SND.UP`: behind the last urgent octet.
    #[inline]
    pub(crate) fn urgent_end(&self) -> Option<SeqNumber> {
        self.marks().and_then(|marks| marks.urgent_end())
    }

    /// The last octet written is urgent.
    pub(crate) fn mark_urgent(&mut self) {
        let end = self.queue.end();
        self.marks_mut().set_urgent_end(end);
    }

    /// A record ends before `seq`.
    #[inline]
    pub(crate) fn is_record_end(&self, seq: SeqNumber) -> bool {
        self.marks()
            .is_some_and(|marks| marks.record_end(seq - 1) == Some(seq))
    }

    /// The last octet written is the last of a record.
    pub(crate) fn mark_record(&mut self) {
        let end = self.queue.end();
        self.marks_mut().end_record(end);
    }

    /// Lets what was written so far go at once.
    pub(crate) fn flush(&mut self) {
        self.is_more = false;
        self.flush_end = self.queue.end();
    }

    /// `SND.WL1`
    pub(crate) fn snd_wl1(&self) -> SeqNumber {
        self.snd_wl1
    }

    /// What a segment can be long to a peer that offers small windows: half of the largest window,
    /// so that two are under way; all of it if that is very small (Linux's `tcp_bound_to_half_wnd`;
    /// RFC 9293 §3.8.6.2.1 has `Fs` = 1/2).
    #[inline]
    pub(crate) fn segment_bound(&self) -> u32 {
        match self.max_wnd {
            0 => u32::MAX,
            window if window > mss::DEFAULT_IPV4.into() => window / 2,
            window => window,
        }
    }

    /// The sequence number of a segment without data: `SND.NXT`, unless the peer has taken window
    /// back and would find that unacceptable (Linux's `tcp_acceptable_seq`; a scaled window may
    /// have lost less than a unit).
    #[inline]
    pub(crate) fn acceptable_seq(&self) -> SeqNumber {
        let window_end = self.window_end();
        if self.snd_nxt <= window_end || self.snd_nxt < window_end + (1 << self.scale) {
            self.snd_nxt
        } else {
            window_end
        }
    }

    /// `SND.UNA + SND.WND`
    #[inline]
    pub(crate) fn window_end(&self) -> SeqNumber {
        self.snd_una + self.snd_wnd
    }

    /// Octets written but never sent.
    #[inline]
    pub(crate) fn unsent(&self) -> u32 {
        u32::try_from(self.queue.end().distance_from(self.snd_nxt)).unwrap_or(0)
    }

    /// Something, FIN included, was never sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent() > 0 || (self.is_fin_queued && !self.is_fin_sent())
    }

    /// Something was sent and not acknowledged.
    #[inline]
    pub(crate) fn is_outstanding(&self) -> bool {
        self.snd_nxt != self.snd_una
    }

    #[inline]
    pub(crate) fn is_fin_sent(&self) -> bool {
        self.is_fin_queued && self.snd_nxt > self.queue.end()
    }

    /// RFC 5961 §5.2 and RFC 9293 §3.10.7.4: which acknowledgements are believed.
    #[inline]
    pub(crate) fn classify_ack(&self, ack: SeqNumber) -> AckClass {
        if ack > self.snd_nxt {
            AckClass::Unsent
        } else if ack > self.snd_una {
            AckClass::New
        } else if ack == self.snd_una {
            AckClass::Current
        } else if ack >= self.snd_una - self.max_wnd {
            AckClass::Old
        } else {
            AckClass::TooOld
        }
    }

    pub(crate) fn check_invariants(&self, iss: SeqNumber) {
        self.queue.check_invariants();
        assert!(self.snd_una <= self.snd_nxt);
        assert!(self.snd_nxt <= self.queue.end() + u32::from(self.is_fin_queued));
        assert_eq!(self.has_marks, self.marks.is_some());
        // SYN is before the queue.
        assert!(self.queue.start() == self.snd_una.max(iss + 1) || self.queue.len() == 0);
    }
}

/// How an acknowledgement number relates to what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckClass {
    New,
    /// `SND.UNA` again.
    Current,
    Old,
    /// RFC 5961 §5: an attacker's guess.
    TooOld,
    /// Acknowledges what was never sent.
    Unsent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cork_holds_however_much_was_sent_before() {
        let mut options = Options::default();
        options.set(crate::SocketOption::Cork(true)).unwrap();
        let limits = Limits {
            mss: 1000,
            congestion: 10_000,
            piece: 1000,
        };
        for gone in [0, 1, 1 << 30, 1 << 31, 3 << 30, u32::MAX - 100] {
            let mut sender = Sender::new(SeqNumber(7));
            let at = SeqNumber(8) + gone;
            (sender.snd_una, sender.snd_nxt) = (at, at);
            sender.queue = SendQueue::new(at);
            sender.start_window(SeqNumber(0), 10_000);
            sender.queue.push(b"short");
            let next = sender.next_segment(&limits, &options);
            assert_eq!(next, Err(Blocked::Cork), "{gone} octets");
            sender.flush();
            assert!(sender.next_segment(&limits, &options).is_ok());
        }
    }
}
