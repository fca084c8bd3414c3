//! Arriving segments: RFC 9293 §3.10.7.4 in its order, with the checks of RFC 7323 §5 and RFC 5961
//! in theirs.

use wire::tcp::{Flags, Header};

use super::Connection;
use super::segment::{Incoming, Verdict};
use crate::receive::Arrival;
use crate::timers::Timer;
use crate::{Ecn, Instant, Payload, State};

impl<P: Payload> Connection<P> {
    /// A segment arrived. `payload` is its data, without padding; `None` if it has none. Checksum
    /// and addresses have been checked.
    #[inline]
    pub fn on_segment(&mut self, now: Instant, header: &Header, ecn: Ecn, payload: Option<P>) {
        let len = payload.as_ref().map_or(0, |payload| payload.as_ref().len());
        // IP packets are at most 65535 octets.
        let segment = Incoming::new(header, u32::try_from(len).unwrap_or(0), ecn);
        self.counters.segments_in = self.counters.segments_in.wrapping_add(1);
        match self.state {
            State::Closed => self.refuse(&segment),
            State::SynSent => self.on_segment_in_syn_sent(now, &segment, payload),
            State::TimeWait => self.on_segment_in_time_wait(now, &segment),
            State::SynReceived if self.is_syn_again(&segment) => self.resend_syn_ack(now),
            _ => match payload {
                Some(payload) if self.is_predicted(&segment) => {
                    self.take_predicted(now, &segment, payload);
                }
                payload => self.on_segment_synchronized(now, &segment, payload),
            },
        }
    }

    /// Header prediction: the next data of a peer that only sends at present, with nothing else to
    /// it. All checks below would pass it and change nothing but what
    /// [`take_predicted`](Self::take_predicted) does.
    #[inline]
    fn is_predicted(&self, segment: &Incoming<'_>) -> bool {
        let header = segment.header;
        let window = u32::from(header.window) << self.sender.scale;
        let has_good_timestamp = match header.options.timestamps {
            Some(timestamps) if self.timestamps.is_on() => {
                !self.timestamps.is_before_recent(timestamps.value)
            }
            Some(_) => false,
            None => !self.timestamps.is_on(),
        };
        self.state == State::Established
            && (header.flags == Flags::ACK || header.flags == Flags::ACK.union(Flags::PSH))
            && segment.seq == self.receiver.rcv_nxt
            && segment.ack == self.sender.snd_una
            && !self.sender.is_outstanding()
            && window == self.sender.snd_wnd
            && segment.len <= self.receiver.window.remaining(self.receiver.rcv_nxt)
            && self.receiver.expects_data_only()
            && has_good_timestamp
            && !self.ecn.is_on
            && !self.is_orphan
            && !self.timers.is_set(Timer::Retransmit)
    }

    #[inline]
    fn take_predicted(&mut self, now: Instant, segment: &Incoming<'_>, payload: P) {
        self.note_peer_alive(now);
        self.sender.note_newer(segment.seq);
        self.take_timestamp(now, segment);
        self.counters.data_segments_in = self.counters.data_segments_in.wrapping_add(1);
        let before = self.receiver.rcv_nxt;
        if self.receiver.place_in_order(segment.end(), payload) == Arrival::InOrder {
            self.on_data_in_order(now, segment, before, false);
        }
        self.schedule_ack(now);
    }

    /// An acceptable acknowledgement came.
    #[inline]
    pub(super) fn note_peer_alive(&mut self, now: Instant) {
        self.last_ack_at = now;
        self.unanswered_probes = 0;
        // `MSG_MORE` holds until something happens (Linux: `tcp_push_pending_frames` does not know
        // of it).
        self.sender.is_more = false;
    }

    #[inline]
    fn on_segment_synchronized(
        &mut self,
        now: Instant,
        segment: &Incoming<'_>,
        payload: Option<P>,
    ) {
        if self.check_flags(segment) == Verdict::Drop
            || self.check_timestamp(now, segment) == Verdict::Drop
            || self.check_sequence(now, segment) == Verdict::Drop
            || segment.has(Flags::RST | Flags::SYN) && self.check_control(now, segment) == Verdict::Drop
            // "Fifth, check the ACK field: if the ACK bit is off, drop the segment and return".
            || !segment.has(Flags::ACK)
        {
            return;
        }
        if self.state == State::SynReceived
            && self.check_ack_in_syn_received(now, segment) == Verdict::Drop
        {
            return;
        }
        if self.check_ack(now, segment) == Verdict::Drop {
            return;
        }
        self.take_timestamp(now, segment);
        if self.state == State::TimeWait || self.state == State::Closed {
            return;
        }
        self.take_text(now, segment, payload);
    }

    /// As Linux, before anything else: a segment with neither ACK, RST nor SYN gets no answer,
    /// wherever it is; and the peer of a connection that only the listener knows of must know its
    /// number, or is taken for another's.
    #[inline]
    fn check_flags(&mut self, segment: &Incoming<'_>) -> Verdict {
        if !segment.has(Flags::ACK) {
            let is_control = segment.has(Flags::RST | Flags::SYN);
            return if is_control || self.is_known_to_listener_only() {
                Verdict::Continue
            } else {
                Verdict::Drop
            };
        }
        if self.is_known_to_listener_only()
            && segment.ack != self.cold.handshake.iss + 1
            && !segment.has(Flags::RST)
        {
            self.refuse(segment);
            return Verdict::Drop;
        }
        Verdict::Continue
    }

    /// What Linux has a request socket for.
    #[inline]
    fn is_known_to_listener_only(&self) -> bool {
        self.state == State::SynReceived
            && self.cold.handshake.is_passive
            && !self.cold.handshake.is_fast_open
    }

    /// "First, check sequence number": RFC 9293 §3.10.7.4.
    #[inline]
    fn check_sequence(&mut self, now: Instant, segment: &Incoming<'_>) -> Verdict {
        if self.receiver.is_acceptable(segment.seq, segment.end())
            && !self.is_old_to_listener(segment)
        {
            return Verdict::Continue;
        }
        // "If an incoming segment is not acceptable, an acknowledgment should be sent in reply
        // (unless the RST bit is set [...])".
        if segment.has(Flags::RST) {
            if self.is_reset_after_fin(segment) {
                self.on_reset();
            }
        } else {
            self.answer_unacceptable(now, segment);
        }
        Verdict::Drop
    }

    /// Before the handshake is over Linux, like RFC 9293 §3.4, does not accept what ends where the
    /// window begins; later it does
    /// ([`Receiver::is_acceptable`](crate::receive::Receiver::is_acceptable)).
    #[inline]
    fn is_old_to_listener(&self, segment: &Incoming<'_>) -> bool {
        segment.seq < self.receiver.rcv_nxt
            && segment.end() <= self.receiver.rcv_nxt
            && !segment.has(Flags::SYN)
            && self.is_known_to_listener_only()
    }

    /// The answer to what is not in the window: an acknowledgement, which says what is missing or
    /// came twice. Empty segments are answered seldom, or two sides that are both wrong would
    /// answer each other forever (Linux's `tcp_oow_rate_limited`).
    pub(super) fn answer_unacceptable(&mut self, now: Instant, segment: &Incoming<'_>) {
        if segment.is_empty() || segment.has(Flags::SYN) {
            self.challenge(now);
            return;
        }
        if segment.seq < self.receiver.rcv_nxt && !self.is_known_to_listener_only() {
            // Our acknowledgement was lost.
            self.receiver.enter_quick_mode(&self.config);
            self.receiver.note_duplicate(segment.seq, segment.end());
        }
        self.receiver.acks.owe_duplicate();
    }

    /// RFC 5961 §7: challenge ACKs are limited, here per connection.
    pub(super) fn challenge(&mut self, now: Instant) {
        let interval = self.config.invalid_ratelimit;
        if self.cold.last_challenge.allows_another(now, interval) {
            self.receiver.acks.owe_duplicate();
        }
    }

    /// "Second, check the RST bit", "fourth, check the SYN bit", as RFC 5961 §3.2 and §4.2 have
    /// them.
    fn check_control(&mut self, now: Instant, segment: &Incoming<'_>) -> Verdict {
        if segment.has(Flags::RST) {
            self.check_reset(now, segment);
            return Verdict::Drop;
        }
        // The peer's SYN again: it has not seen our answer.
        if self.state == State::SynReceived && segment.seq == self.cold.handshake.irs {
            let is_answer = segment.has(Flags::ACK);
            if !is_answer {
                self.resend_syn_ack(now);
                return Verdict::Drop;
            }
            // Simultaneous open: the SYN-ACK repeats a SYN that is known (RFC 2883 §4); its ACK
            // counts, and the peer waits for ours.
            self.receiver.note_duplicate(segment.seq, segment.seq + 1);
            self.receiver.acks.owe_one();
            return Verdict::Continue;
        }
        // "If the connection was initiated with a passive OPEN, then return this connection to the
        // LISTEN state", and as Linux let the peer know.
        if self.is_known_to_listener_only() {
            self.refuse(segment);
            self.enter_closed();
            return Verdict::Drop;
        }
        // RFC 5961 §4.2: "If the SYN bit is set, irrespective of the sequence number, TCP MUST send
        // an ACK".
        self.challenge(now);
        Verdict::Drop
    }

    fn resend_syn_ack(&mut self, now: Instant) {
        let interval = self.config.invalid_ratelimit;
        if self.cold.last_challenge.allows_another(now, interval) {
            self.pending.syn = true;
        }
    }
}
