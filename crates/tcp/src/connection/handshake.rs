//! Opening: RFC 9293 §3.5 and §3.10.7.3, with the options of RFC 7323 and RFC 2018.

use wire::tcp::{Flags, Header, Options as HeaderOptions, SackBlocks};

use super::segment::{Incoming, Verdict};
use super::{Connection, advertised_mss, settings};
use crate::challenge::LastChallenge;
use crate::recovery::Recovery;
use crate::rtt::TIMEOUT_MIN;
use crate::send::AckClass;
use crate::timers::Timer;
use crate::timestamp::TIMESTAMPS_LEN;
use crate::{Ecn, Error, Event, Instant, Payload, SeqNumber, State, Transmit, mss};

impl<P: Payload> Connection<P> {
    /// RFC 9293 §3.10.7.3: SYN-SENT.
    pub(super) fn on_segment_in_syn_sent(
        &mut self,
        now: Instant,
        segment: &Incoming<'_>,
        payload: Option<P>,
    ) {
        if self.check_ack_in_syn_sent(now, segment) == Verdict::Drop {
            return;
        }
        let has_ack = segment.has(Flags::ACK);
        // "Second, check the RST bit. If the RST bit is set [and] the ACK was acceptable [...]
        // signal to the user "error: connection reset""; without ACK it is dropped.
        if segment.has(Flags::RST) {
            if has_ack {
                self.fail(Error::Refused);
            }
            return;
        }
        // "Fifth, if neither of the SYN or RST bits is set, then drop the segment".
        if !segment.has(Flags::SYN) {
            return;
        }
        self.take_syn(now, segment.header);
        if !has_ack {
            // Simultaneous open: "Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment [...] and
            // send it." Its sequence number is that of the SYN.
            self.agree_to_ecn(segment.header, segment.ecn);
            self.state = State::SynReceived;
            self.pending.syn = true;
            return;
        }
        self.learn_ecn(segment.header);
        let has_fast_open = self.cold.fast_open.is_some();
        if has_fast_open {
            self.learn_from_syn_ack(segment.header);
        }
        // The SYN counts in an active open (as Linux's `bytes_acked`).
        let acked = segment.ack - self.sender.snd_una;
        self.cold.sent.octets_acked = u64::from(acked);
        self.sender.on_ack(segment.ack);
        self.sample_handshake_rtt(now, segment);
        self.establish(now);
        let is_writer_waiting =
            has_fast_open && self.is_writer_waiting() && !self.sender.is_outstanding();
        if is_writer_waiting || self.receiver.acks.is_interactive() {
            // The ACK rides on what the application is about to write.
            let window = self.receiver.window.offered();
            self.receiver.acks.enter_quick_mode(&self.config, window);
            self.receiver.acks.schedule();
            self.set_timer(Timer::DelayedAck, now + self.config.delayed_ack_max);
        } else {
            self.receiver.acks.owe_one();
        }
        // "If there are other controls or text in the segment, then continue processing at the
        // sixth step".
        if segment.len > 0 || segment.has(Flags::FIN) {
            let text = Incoming {
                seq: segment.seq + 1,
                ..*segment
            };
            self.take_text(now, &text, payload);
        }
    }

    /// "First, check the ACK bit."
    fn check_ack_in_syn_sent(&mut self, now: Instant, segment: &Incoming<'_>) -> Verdict {
        if !segment.has(Flags::ACK) {
            return Verdict::Continue;
        }
        // "If SEG.ACK =< ISS, or SEG.ACK > SND.NXT, send a reset (unless the RST bit is set
        // [...])".
        let is_acceptable = self.sender.classify_ack(segment.ack) == AckClass::New;
        // As Linux: the echo of a timestamp that was not sent comes from an old connection.
        let is_old_echo = segment.header.options.timestamps.is_some_and(|timestamps| {
            let sent = self
                .timestamps
                .value(self.cold.retransmitting_since.unwrap_or(now));
            timestamps.echo != 0
                && self.config.timestamps
                && timestamps.echo.wrapping_sub(sent)
                    > self.timestamps.value(now).wrapping_sub(sent)
        });
        if is_acceptable && !is_old_echo {
            return Verdict::Continue;
        }
        if !is_acceptable && self.cold.handshake.retransmits == 0 {
            // The peer still has an old connection, which our reset ends: the SYN is retransmitted
            // soon (as Linux).
            self.set_timer(Timer::Retransmit, now + TIMEOUT_MIN);
        }
        self.refuse(segment);
        Verdict::Drop
    }

    /// What the peer's SYN says. RFC 7323 §2.2 and RFC 2018 §2: options are on if both SYNs have
    /// them.
    pub(super) fn take_syn(&mut self, now: Instant, syn: &Header) {
        let seq = SeqNumber(syn.seq);
        self.cold.handshake.irs = seq;
        self.receiver.start(seq);
        self.cold.received.start(self.receiver.rcv_nxt);
        self.sender.start_window(seq, u32::from(syn.window));
        let options = &syn.options;
        // RFC 9293 §3.7.1: "If an MSS Option is not received at connection setup, TCP
        // implementations MUST assume a default send MSS of 536 (576 - 40) for IPv4 or 1220 (1280 -
        // 60) for IPv6".
        let peer_mss = options.mss.unwrap_or_else(|| self.cold.path.default_mss());
        // `TCP_MAXSEG` bounds it here and not later (Linux's `tcp_parse_options`).
        self.cold.handshake.peer_mss = match self.cold.options.max_segment {
            0 => peer_mss,
            user => peer_mss.min(user),
        };
        self.cold.handshake.has_sack = self.config.sack && options.sack_permitted;
        match options.window_scale {
            Some(scale) if self.config.window_scaling => {
                self.cold.handshake.has_window_scaling = true;
                self.sender.scale = scale;
            }
            _ => self.cold.handshake.has_window_scaling = false,
        }
        if let (true, Some(timestamps)) = (self.config.timestamps, options.timestamps) {
            self.timestamps.turn_on();
            self.timestamps.update(now, timestamps.value);
        }
    }

    /// SYN-RECEIVED: RFC 9293 §3.10.7.4, fifth check.
    pub(super) fn check_ack_in_syn_received(
        &mut self,
        now: Instant,
        segment: &Incoming<'_>,
    ) -> Verdict {
        // "If SND.UNA < SEG.ACK =< SND.NXT, then enter ESTABLISHED state". "If the segment
        // acknowledgment is not acceptable, form a reset segment".
        if self.sender.classify_ack(segment.ack) != AckClass::New {
            self.refuse(segment);
            return Verdict::Drop;
        }
        self.pending.syn = false;
        // Data that went out before is acknowledged by the next check.
        let acked = if self.cold.handshake.is_fast_open {
            self.cold.handshake.iss + 1
        } else {
            segment.ack
        };
        // Data of a SYN that crossed the peer's, without that SYN (as Linux).
        self.cold.sent.octets_acked = u64::from(acked - (self.cold.handshake.iss + 1));
        self.sender.on_ack(acked);
        let window = u32::from(segment.header.window)
            << if self.cold.handshake.has_window_scaling {
                self.sender.scale
            } else {
                0
            };
        self.sender.start_window(segment.seq, window);
        self.sample_handshake_rtt(now, segment);
        self.establish(now);
        Verdict::Continue
    }

    /// Whether a segment would end the handshake of an embryo (`tcp_check_req`).
    pub(crate) fn is_established_by(&self, header: &Header, payload_len: usize) -> bool {
        let len = u32::try_from(payload_len).unwrap_or(u32::MAX);
        let segment = Incoming::new(header, len, Ecn::NotEct);
        segment.has(Flags::ACK)
            && !segment.has(Flags::RST | Flags::SYN)
            && self.sender.classify_ack(segment.ack) == AckClass::New
            && self.receiver.is_acceptable(segment.seq, segment.end())
    }

    fn sample_handshake_rtt(&mut self, now: Instant, segment: &Incoming<'_>) {
        let mss = u32::from(self.cold.handshake.peer_mss);
        let Some(syn_sent_at) = self.cold.retransmitting_since else {
            return;
        };
        if self.cold.handshake.retransmits == 0 {
            self.cold
                .recovery
                .rtt
                .on_sample(now, now - syn_sent_at, 0, mss);
            return;
        }
        // RFC 6298 §3: Karn's algorithm, unless the timestamp tells which SYN was answered.
        let echo = segment
            .header
            .options
            .timestamps
            .map_or(0, |timestamps| timestamps.echo);
        match self.timestamps.round_trip(now, echo) {
            Some(sample) if self.timestamps.is_on() => {
                self.cold
                    .recovery
                    .rtt
                    .on_sample(now, sample.duration(), 0, mss)
            }
            _ => self.cold.recovery.rtt.on_handshake_retransmitted(),
        }
    }

    fn establish(&mut self, now: Instant) {
        if !self.cold.handshake.has_window_scaling {
            self.sender.scale = 0;
        }
        self.state = if self.sender.is_fin_queued {
            State::FinWait1
        } else {
            State::Established
        };
        self.timers.stop(Timer::Retransmit);
        self.last_ack_at = now;
        self.measure_established(now);
        if self.cold.handshake.is_passive && !self.cold.handshake.is_fast_open {
            // As Linux, where the socket is made when the handshake is over: SYN and ACK.
            self.counters.segments_in = 2;
            self.counters.segments_out = 0;
            self.cold.last_challenge = LastChallenge::default();
        }
        if self.cold.handshake.is_fast_open {
            self.establish_fast(now);
            self.restart_keep_alive(now);
            return;
        }
        self.begin_transfer(now, self.sender.snd_una);
        // RFC 5681 §3.1, RFC 6298 §5.7; one lost SYN may be chance (Linux).
        if self.cold.handshake.retransmits > 1 {
            self.cold.recovery.congestion.on_handshake_retransmitted();
        }
        if self.sender.is_outstanding() {
            self.repeat_syn_data(now);
        }
        self.start_pacing();
        self.grow_send_buffer(0);
        self.restart_keep_alive(now);
        self.events.raise(Event::Connected);
        self.events.raise(Event::Writable);
    }

    pub(super) fn emit_syn(&mut self, now: Instant, transmit: &mut Transmit) {
        self.pending.syn = false;
        let is_answer = self.state == State::SynReceived;
        let has_fast_open = self.cold.fast_open.is_some();
        let (fast_open, len) = if has_fast_open {
            self.take_syn_extras()
        } else {
            (None, 0)
        };
        let timestamps = if is_answer {
            self.timestamps.is_on()
        } else {
            self.config.timestamps
        };
        let options = HeaderOptions {
            mss: Some(self.advertised_mss()),
            window_scale: (self.config.window_scaling
                && (!is_answer || self.cold.handshake.has_window_scaling))
                .then(|| self.receiver.window.scale()),
            sack_permitted: self.config.sack && (!is_answer || self.cold.handshake.has_sack),
            timestamps: timestamps.then(|| wire::tcp::Timestamps {
                value: self.timestamps.value(now),
                echo: self.timestamps.recent,
            }),
            sack: SackBlocks::default(),
            fast_open,
        };
        let (flags, ack) = if is_answer {
            let ecn = if self.ecn.is_on {
                Flags::ECE
            } else {
                Flags::NONE
            };
            (Flags::SYN | Flags::ACK | ecn, self.receiver.rcv_nxt)
        } else {
            (Flags::SYN | self.ecn_setup_flags(), SeqNumber(0))
        };
        let window = self.receiver.window.advertise_in_syn(self.receiver.rcv_nxt);
        *transmit = Transmit {
            header: Header {
                seq: self.cold.handshake.iss.0,
                ack: ack.0,
                flags,
                window,
                urgent: 0,
                options,
            },
            start: self.cold.handshake.iss + 1,
            payload_len: len,
            segment_len: u16::try_from(len).unwrap_or(u16::MAX),
            ..Transmit::default()
        };
        if len > 0 {
            self.measure_busy(now);
        }
        let end = self.cold.handshake.iss + 1 + len;
        self.sender.snd_nxt = self.sender.snd_nxt.max(end);
        self.cold.sent.on_data_sent(len);
        if self.cold.handshake.retransmits == 0 {
            self.cold.retransmitting_since = Some(now);
        }
        let again_at = self.syn_again_at(now);
        self.set_timer(Timer::Retransmit, again_at);
        if has_fast_open {
            self.note_syn_ack_timer(again_at);
        }
        self.counters.segments_out = self.counters.segments_out.wrapping_add(1);
    }

    /// When a SYN that is sent at `now` is retransmitted: after the RTO (RFC 6298), but not after
    /// the end of `TCP_USER_TIMEOUT`.
    fn syn_again_at(&self, now: Instant) -> Instant {
        let again_at = now + self.rto_nanos();
        match (self.user_timeout(), self.cold.retransmitting_since) {
            (Some(timeout), Some(first)) if self.cold.handshake.retransmits > 0 => {
                again_at.min(first + timeout)
            }
            _ => again_at,
        }
    }

    /// Sets both directions up for data, with what the SYNs have told. Ours begins at `first`.
    pub(super) fn begin_transfer(&mut self, now: Instant, first: SeqNumber) {
        let is_scaling = self.cold.handshake.has_window_scaling;
        let mss = self.received_mss();
        self.receiver
            .window
            .on_established(now, self.receiver.rcv_nxt, is_scaling, mss);
        let window = self.receiver.window.offered();
        self.receiver
            .acks
            .on_established(now, mss.min(self.mss()), window);
        self.start_mtu_probing(now);
        let mss = u32::from(self.mss());
        let settings = settings(
            &self.config,
            &self.cold.options,
            mss,
            self.cold.handshake.has_sack,
        );
        self.cold.recovery = Recovery::new(settings, self.cold.recovery.rtt.clone(), first);
        self.cold.recovery.begin(now);
        self.follow_recovery();
    }

    /// Octets of payload in a full segment beside the options that every segment carries (RFC
    /// 6691).
    #[inline]
    pub(super) fn mss(&self) -> u16 {
        let options_len = self.options_len();
        let mss = self.cold.handshake.peer_mss.min(self.cold.path.mss());
        mss.max(mss::MIN_SENT).saturating_sub(options_len)
    }

    /// Octets of payload that the peer's segments have room for, by what was announced to it
    /// (`advmss`).
    pub(super) fn received_mss(&self) -> u16 {
        self.advertised_mss().saturating_sub(self.options_len())
    }

    /// Octets of the options that every segment carries.
    #[inline]
    pub(super) fn options_len(&self) -> u16 {
        if self.timestamps.is_on() {
            TIMESTAMPS_LEN
        } else {
            0
        }
    }

    /// What our own SYN announces.
    pub(super) fn advertised_mss(&self) -> u16 {
        advertised_mss(&self.cold.path, &self.cold.options)
    }
}
