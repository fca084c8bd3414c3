//! Data in the SYN: RFC 7413 §4.2, both sides.

use super::Connection;
use super::fast_open_state::FastOpenState;
use super::segment::Incoming;
use crate::fast_open::{FastOpen, FastOpenAttempt, FastOpenEnd, FastOpenLesson, FastOpenReply};
use crate::timers::Timer;
use crate::{Event, FastOpenFailure, Instant, Payload, SeqNumber, State, WriteError};

use wire::tcp::Header;

/// The client.
impl<P: Payload> Connection<P> {
    /// RFC 7413 §4.2.2, client: takes as much of `data` as goes with the SYN, and returns how much;
    /// none without a cookie. To be called behind [`connect`](Self::connect), before the SYN goes
    /// out.
    ///
    /// `waits` says that the application waits until it can write the rest, as a blocking
    /// `sendto(2)` with `MSG_FASTOPEN` does; one that does not is told `EINPROGRESS` if nothing was
    /// taken.
    pub fn attempt_fast_open(
        &mut self,
        attempt: &FastOpenAttempt,
        data: &[u8],
        waits: bool,
    ) -> usize {
        if self.state != State::SynSent || !self.pending.syn {
            return 0;
        }
        let mut state = FastOpenState {
            option: attempt.option,
            is_check: attempt.is_check,
            ..FastOpenState::default()
        };
        let mut taken: &[u8] = &[];
        if attempt.sends_data {
            // Middleboxes may add options: room for all there can be is left (Linux).
            let user = self.cold.options.max_segment;
            let mss = attempt.mss.unwrap_or(u16::MAX).min(self.cold.path.mss());
            let mss = if user > 0 { mss.min(user) } else { mss };
            let room = usize::from(mss.saturating_sub(MAX_OPTIONS_LEN));
            taken = data.get(..room).unwrap_or(data);
            self.sender.queue.push(taken);
        } else {
            state.failure = FastOpenFailure::NoCookie;
        }
        state.syn_data_len = u32::try_from(taken.len()).unwrap_or(0);
        state.is_writer_waiting = waits && !(attempt.sends_data && taken.len() == data.len());
        self.cold.fast_open = Some(Box::new(state));
        taken.len()
    }

    /// The option and the number of octets of the first SYN or SYN-ACK. RFC 7413 §4.1.3.1: one that
    /// is sent again is plain, since they may be why the first was lost.
    #[cold]
    pub(super) fn take_syn_extras(&mut self) -> (Option<FastOpen>, u32) {
        match &mut self.cold.fast_open {
            Some(state) if !state.is_syn_sent => {
                state.is_syn_sent = true;
                (state.option, state.syn_data_len)
            }
            _ => (None, 0),
        }
    }

    /// The SYN that carried data did not fit the path: it goes again, plain and at once
    /// (`tcp_simple_retransmit`).
    #[cold]
    pub(super) fn repeat_syn_that_was_too_big(&mut self) {
        let had_data = self
            .cold
            .fast_open
            .as_ref()
            .is_some_and(|state| state.is_syn_sent && state.syn_data_len > 0);
        if self.state == State::SynSent && had_data && self.cold.handshake.retransmits == 0 {
            self.cold.handshake.retransmits = 1;
            self.pending.syn = true;
        }
    }

    /// The SYN-ACK to a SYN with which Fast Open was attempted, before its acknowledgement counts
    /// (`tcp_rcv_fastopen_synack`).
    #[cold]
    pub(super) fn learn_from_syn_ack(&mut self, syn_ack: &Header) {
        let Some(state) = &mut self.cold.fast_open else {
            return;
        };
        let was_retransmitted = self.cold.handshake.retransmits > 0;
        let has_all = SeqNumber(syn_ack.ack) == self.sender.snd_nxt;
        let options = &syn_ack.options;
        state.lesson.is_answered = state.option.is_some() || state.syn_data_len > 0;
        state.lesson.mss = options.mss;
        if let Some(asked) = state.option {
            state.lesson.cookie = options.fast_open.filter(|option| !option.is_request());
            let is_refusal =
                options.fast_open.is_none() && state.syn_data_len == 0 && !was_retransmitted;
            state.lesson.refused = is_refusal.then_some(asked.is_experimental());
        }
        if state.syn_data_len > 0 {
            state.is_data_acked = has_all;
            if !has_all {
                state.failure = if was_retransmitted {
                    FastOpenFailure::SynRetransmitted
                } else {
                    FastOpenFailure::NotAcknowledged
                };
            }
        }
    }

    /// RFC 7413 §4.2.2, client: data that the server does not acknowledge is sent again. It is
    /// outstanding and lost, which has nothing to do with congestion. Only now the peer's window is
    /// known: what is beyond it was not sent.
    #[cold]
    pub(super) fn repeat_syn_data(&mut self, now: Instant) {
        let start = self.sender.snd_una;
        self.sender.snd_nxt = self.sender.snd_nxt.min(self.sender.window_end());
        let len = self.sender.snd_nxt - start;
        if len > 0 {
            self.cold.recovery.on_sent_in_vain(start, len, now);
            self.follow_recovery();
        }
    }

    /// The ACK that ends the handshake can wait for the data that will carry it.
    #[cold]
    pub(super) fn is_writer_waiting(&self) -> bool {
        self.cold
            .fast_open
            .as_ref()
            .is_some_and(|state| state.is_writer_waiting)
    }

    /// RFC 7413 §4.1.3.1: the network may have swallowed everything since the SYN: as Linux
    /// (`tcp_fastopen_active_detect_blackhole`), after the third timeout in a row, or the last.
    #[cold]
    pub(super) fn suspect_fast_open(&mut self, earlier_timeouts: u8, is_last: bool) {
        if let Some(state) = &mut self.cold.fast_open
            && (earlier_timeouts == 2 || earlier_timeouts < 2 && is_last)
        {
            state.lesson.is_black_hole |=
                state.option.is_some() || state.syn_data_len > 0 || state.is_data_acked;
        }
    }

    /// What was learned for the [`FastOpenCache`](crate::FastOpenCache); to be asked for with
    /// [`Event::Connected`], [`Event::Failed`], [`Event::TimeWait`] and [`Event::Closed`].
    pub fn take_fast_open_lesson(&mut self) -> Option<FastOpenLesson> {
        let has_data = self.counters.data_segments_in > 0;
        let is_over = matches!(self.state, State::Closed | State::TimeWait);
        // A FIN arrived, but none of the data before it.
        let is_cut_off = is_over
            && !has_data
            && self
                .receiver
                .fin()
                .is_some_and(|fin| fin > self.receiver.rcv_nxt);
        let state = self
            .cold
            .fast_open
            .as_mut()
            .filter(|_| !self.cold.handshake.is_passive)?;
        let mut lesson = std::mem::take(&mut state.lesson);
        lesson.is_black_hole |= is_cut_off;
        lesson.is_cleared = is_over && has_data && std::mem::take(&mut state.is_check);
        (lesson != FastOpenLesson::default()).then_some(lesson)
    }
}

/// The server.
impl<P: Payload> Connection<P> {
    /// Tells a connection that was just accepted what
    /// [`Listener::fast_open`](crate::Listener::fast_open) replies to its SYN, and gives it that
    /// SYN's data. If it opens at once, [`Event::Connected`] is reported, and again when the
    /// handshake is over.
    pub fn open_fast(&mut self, now: Instant, reply: &FastOpenReply, payload: Option<P>) {
        let is_new =
            self.cold.handshake.is_passive && self.state == State::SynReceived && self.pending.syn;
        if !is_new || *reply == FastOpenReply::default() {
            return;
        }
        let mut state = FastOpenState {
            option: reply.option,
            ..FastOpenState::default()
        };
        if reply.is_open {
            self.cold.handshake.is_fast_open = true;
            // The window is for what comes behind the SYN, which is not acknowledged.
            self.sender.snd_wnd = self.sender.snd_wnd.saturating_add(1);
            self.start_sending(now);
            state.is_data_acked = payload.is_some_and(|payload| self.take_syn_data(payload));
            self.events.raise(Event::Connected);
            self.events.raise(Event::Writable);
        }
        self.cold.fast_open = Some(Box::new(state));
    }

    /// What is otherwise set up when the handshake is over (`tcp_init_transfer`).
    fn start_sending(&mut self, now: Instant) {
        if !self.cold.handshake.has_window_scaling {
            self.sender.scale = 0;
        }
        self.begin_transfer(now, self.cold.handshake.iss + 1);
        self.start_pacing();
        self.grow_send_buffer(0);
    }

    /// Takes the SYN's data (RFC 7413 §4.2.2). Returns whether there was any.
    fn take_syn_data(&mut self, payload: P) -> bool {
        let start = self.receiver.rcv_nxt;
        self.receiver.place(start, payload);
        let len = self.receiver.rcv_nxt - start;
        self.counters.data_segments_in = self.counters.data_segments_in.wrapping_add(1);
        // The window that the SYN-ACK offers begins behind it.
        self.receiver.window.start_at(self.receiver.rcv_nxt);
        if self.has_readable() {
            self.events.raise(Event::Readable);
        }
        len > 0
    }

    /// The SYN-ACK will be sent again at `at`.
    #[cold]
    pub(super) fn note_syn_ack_timer(&mut self, at: Instant) {
        if let Some(state) = &mut self.cold.fast_open {
            state.syn_ack_at = Some(at);
        }
    }

    /// Data or FIN may have gone out although the peer has not acknowledged the SYN; nothing of it
    /// is sent again before that, only the SYN-ACK (`tcp_fastopen_synack_timer`).
    #[cold]
    pub(super) fn hold_early_data(&mut self) {
        if let Some(at) = self
            .cold
            .fast_open
            .as_ref()
            .and_then(|state| state.syn_ack_at)
        {
            self.set_timer(Timer::Retransmit, at);
        }
        self.cold.recovery.hold_timers();
        self.follow_recovery();
    }

    /// The ACK of the SYN came (`tcp_rcv_synrecv_state_fastopen`).
    #[cold]
    pub(super) fn establish_fast(&mut self, now: Instant) {
        self.end_fast_open(false);
        if self.cold.handshake.retransmits > 1 {
            // What was sent since then is as lost as the SYN-ACK was.
            self.cold.recovery.congestion.on_handshake_retransmitted();
            self.cold.recovery.repeat_everything(now);
        }
        self.cold.recovery.restart_timer(now);
        self.follow_recovery();
        self.events.raise(Event::Connected);
        self.events.raise(Event::Writable);
    }

    /// The handshake is over, one way or the other.
    #[cold]
    pub(super) fn end_fast_open(&mut self, was_reset: bool) {
        self.cold.handshake.is_fast_open = false;
        if let Some(state) = &mut self.cold.fast_open {
            state.end = Some(FastOpenEnd {
                was_reset,
                was_accepted: state.is_accepted,
            });
        }
    }

    /// How the handshake of a connection that was opened fast ended, for the listener; once, to be
    /// asked for with [`Event::Connected`], [`Event::Failed`] and [`Event::Closed`].
    pub fn take_fast_open_end(&mut self) -> Option<FastOpenEnd> {
        self.cold
            .fast_open
            .as_mut()
            .and_then(|state| state.end.take())
    }

    /// The application has accepted the connection: from here on an ICMP error is no reason to give
    /// it up before the handshake is over (`tcp_v4_err`).
    pub fn on_accepted(&mut self) {
        if let Some(state) = &mut self.cold.fast_open {
            state.is_accepted = true;
        }
    }

    /// Opened fast, and neither established nor accepted.
    pub(super) fn waits_for_accept(&self) -> bool {
        self.cold.handshake.is_fast_open
            && self
                .cold
                .fast_open
                .as_ref()
                .is_some_and(|state| !state.is_accepted)
    }

    /// Whether a segment that arrives before the handshake is over is the SYN again: it is answered
    /// by the SYN-ACK again, although its data, and with it the window, is beyond it.
    #[cold]
    pub(super) fn is_syn_again(&self, segment: &Incoming<'_>) -> bool {
        use wire::tcp::Flags;
        self.cold.handshake.is_fast_open
            && segment.seq == self.cold.handshake.irs
            && segment.has(Flags::SYN)
            && !segment.has(Flags::ACK | Flags::RST | Flags::FIN)
    }

    /// What a write gets before the handshake is over.
    #[cold]
    pub(super) fn check_early_write(&self) -> Result<(), WriteError> {
        if self.cold.handshake.is_fast_open {
            Ok(())
        } else {
            Err(WriteError::WouldBlock)
        }
    }

    /// Whether a write would do something before the handshake is over.
    #[cold]
    pub(super) fn is_early_writable(&self) -> bool {
        self.cold.handshake.is_fast_open && (self.sender.is_fin_queued || self.has_send_room())
    }

    /// `TCPI_OPT_SYN_DATA` and `tcpi_fastopen_client_fail`
    pub(super) fn fast_open_info(&self) -> (bool, FastOpenFailure) {
        self.cold
            .fast_open
            .as_ref()
            .map_or((false, FastOpenFailure::None), |state| {
                (state.is_data_acked, state.failure)
            })
    }
}

/// The longest list of options (`MAX_TCP_OPTION_SPACE`).
#[allow(clippy::cast_possible_truncation, reason = "40")]
const MAX_OPTIONS_LEN: u16 = wire::tcp::MAX_OPTIONS_LEN as u16;
