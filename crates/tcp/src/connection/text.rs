//! The text of a segment that has passed the checks: its urgent pointer, its data, its FIN, and how
//! soon all that is acknowledged (RFC 9293 §3.10.7.4, "sixth" to "eighth").

use wire::tcp::Flags;

use super::Connection;
use super::segment::Incoming;
use crate::receive::Arrival;
use crate::timers::Timer;
use crate::{Event, Instant, Payload, SeqNumber};

impl<P: Payload> Connection<P> {
    /// "Sixth, check the URG bit", "seventh, process the segment text", "eighth, check the FIN
    /// bit".
    #[inline]
    pub(super) fn take_text(&mut self, now: Instant, segment: &Incoming<'_>, payload: Option<P>) {
        if segment.has(Flags::URG | Flags::CWR) {
            self.take_rare_flags(segment);
        }
        if self.state.has_peer_fin() {
            self.take_text_after_fin(now, segment);
            return;
        }
        if !segment.is_empty() && self.is_nobody_reading() && self.is_beyond(segment) {
            self.refuse_text(segment);
            return;
        }
        if segment.len > 0
            && let Some(payload) = payload
        {
            self.take_data(now, segment, payload);
        }
        let was_fin_behind_gap = self.receiver.fin().is_some();
        if segment.has(Flags::FIN) {
            self.note_fin(segment);
        }
        if self.receiver.fin() == Some(self.receiver.rcv_nxt) {
            self.take_fin(now);
            if was_fin_behind_gap {
                self.receiver.acks.owe_one();
            }
        }
        self.schedule_ack(now);
    }

    #[cold]
    fn take_rare_flags(&mut self, segment: &Incoming<'_>) {
        if segment.has(Flags::CWR) {
            // RFC 3168 §6.1.3, as Linux also if no data comes with it.
            self.ecn.is_echoing = false;
        }
        if segment.has(Flags::URG) {
            self.check_urgent(segment);
        }
    }

    /// "This should not occur since a FIN has been received from the remote side. Ignore the
    /// segment text." As Linux (`tcp_rcv_state_process`): what came before FIN is acknowledged
    /// again, what reaches beyond it from before is refused.
    #[cold]
    fn take_text_after_fin(&mut self, now: Instant, segment: &Incoming<'_>) {
        if !segment.is_empty() && segment.seq < self.receiver.rcv_nxt {
            if self.is_beyond(segment) {
                self.refuse_text(segment);
                return;
            }
            self.answer_unacceptable(now, segment);
        }
        self.schedule_ack(now);
    }

    /// Something of it, or its FIN if that is not next, is new.
    fn is_beyond(&self, segment: &Incoming<'_>) -> bool {
        segment.seq + segment.len > self.receiver.rcv_nxt
    }

    /// RFC 2525 §2.17, RFC 9293 §3.6.1: nobody will read this, and the peer should know.
    #[cold]
    fn refuse_text(&mut self, segment: &Incoming<'_>) {
        self.refuse(segment);
        if self.is_orphan {
            self.enter_closed();
        } else {
            self.on_reset();
        }
    }

    fn check_urgent(&mut self, segment: &Incoming<'_>) {
        // "This should not occur since a FIN has been received from the remote side."
        if self.state.can_receive() {
            let is_at_old = self.is_at_urgent_octet();
            let read_nxt = self.receiver.read_nxt();
            let rcv_nxt = self.receiver.rcv_nxt;
            let is_new = self.receiver.urgent.announce(
                segment.seq,
                segment.header.urgent,
                rcv_nxt,
                read_nxt,
            );
            if is_new {
                if is_at_old {
                    self.forget_urgent_octet();
                }
                self.events.raise(Event::Urgent);
            }
        }
    }

    #[inline]
    fn take_data(&mut self, now: Instant, segment: &Incoming<'_>, payload: P) {
        if !self.state.can_receive() {
            return;
        }
        self.counters.data_segments_in = self.counters.data_segments_in.wrapping_add(1);
        let before = self.receiver.rcv_nxt;
        let had_gap = !self.receiver.is_contiguous();
        let had_urgent = self.receiver.urgent.is_received();
        let arrival = self.receiver.place(segment.seq, payload);
        if self.receiver.urgent.is_received() && !had_urgent {
            // `POLLPRI`; the signal was due when it was announced.
            self.events.raise(Event::Readable);
        }
        match arrival {
            Arrival::InOrder => self.on_data_in_order(now, segment, before, had_gap),
            // RFC 5681 §4.2: "A TCP receiver SHOULD send an immediate duplicate ACK when an
            // out-of-order segment arrives".
            Arrival::OutOfOrder => {
                self.receiver.acks.owe_duplicate();
                self.cold.out_of_order_segments = self.cold.out_of_order_segments.saturating_add(1);
                let received = self.octets_received();
                self.receiver.on_gap(self.timestamps.recent, received);
                let has_sack = self.cold.handshake.has_sack;
                self.receiver
                    .grow_behind_gap(segment.len, has_sack, &self.config);
            }
            Arrival::Useless => {
                if segment.seq < before {
                    self.receiver.enter_quick_mode(&self.config);
                }
                self.receiver.acks.owe_duplicate();
            }
            // As Linux: it will come again. Whoever waits for more must read what there is.
            Arrival::NoRoom => {
                if self.has_readable() {
                    self.events.raise(Event::Readable);
                }
            }
        }
        let is_new = matches!(arrival, Arrival::InOrder | Arrival::OutOfOrder);
        if self.on_ecn_marks(segment, is_new) {
            self.receiver.acks.owe_one();
        }
    }

    /// After `close`, or after `shutdown` of both directions; after that of reading alone data is
    /// accepted (as Linux).
    #[inline]
    fn is_nobody_reading(&self) -> bool {
        self.is_orphan || self.is_read_shut && self.state.has_fin()
    }

    #[inline]
    pub(super) fn on_data_in_order(
        &mut self,
        now: Instant,
        segment: &Incoming<'_>,
        before: SeqNumber,
        had_gap: bool,
    ) {
        let rcv_nxt = self.receiver.rcv_nxt;
        let added = rcv_nxt - before;
        self.cold.received.on_advance(before, rcv_nxt);
        let offered = self.receiver.window.offered();
        let is_push = segment.has(Flags::PSH);
        // Of segments that were merged on the way none was longer than that
        // (`tcp_measure_rcv_mss`).
        let one = if segment.len > self.receiver.acks.rcv_mss().into() {
            segment.len.min(self.received_mss().into())
        } else {
            segment.len
        };
        self.receiver
            .acks
            .on_data(now, one, is_push, &self.config, offered);
        self.receiver
            .window
            .on_data(segment.len, self.receiver.queued());
        self.measure_receiver_rtt(now, segment, added);
        // RFC 5681 §4.2: "a TCP receiver SHOULD send an immediate ACK when the incoming segment
        // fills in all or part of a gap in the sequence space." And if the window had no room for
        // the end of it, the peer has to send that again.
        if had_gap || rcv_nxt != segment.seq + segment.len {
            self.receiver.acks.owe_duplicate();
        }
        if self.has_readable() {
            self.events.raise(Event::Readable);
        }
    }

    /// For auto-tuning of the buffer: `tcp_rcv_rtt_measure_ts`, `tcp_rcv_rtt_measure`.
    #[inline]
    fn measure_receiver_rtt(&mut self, now: Instant, segment: &Incoming<'_>, added: u32) {
        let has_unread = self.receiver.queued() > added;
        let window = &mut self.receiver.window;
        match segment.header.options.timestamps {
            Some(timestamps) if self.timestamps.is_on() => {
                if window.tuning.is_new_echo(timestamps.echo)
                    && segment.len >= u32::from(self.receiver.acks.rcv_mss())
                {
                    let sample = self.timestamps.round_trip(now, timestamps.echo);
                    window.tuning.on_rtt(timestamps.echo, sample, has_unread);
                }
            }
            _ => {
                let (rcv_nxt, offered) = (self.receiver.rcv_nxt, window.offered());
                window
                    .tuning
                    .on_arrival_without_timestamps(now, rcv_nxt, offered);
            }
        }
    }

    /// A FIN counts when everything before it has arrived.
    fn note_fin(&mut self, segment: &Incoming<'_>) {
        let fin = segment.seq + segment.len;
        if self.state.can_receive() {
            self.receiver.note_fin(fin);
        }
        if segment.len == 0 && fin != self.receiver.rcv_nxt {
            // Behind missing data, or seen before. For a FIN with data `take_data` owes the answer.
            self.receiver.note_duplicate(fin, segment.end());
            self.receiver.acks.owe_duplicate();
        }
    }

    /// How soon an acknowledgement is due (`__tcp_ack_snd_check`).
    #[inline]
    pub(super) fn schedule_ack(&mut self, now: Instant) {
        let acks = &self.receiver.acks;
        if !acks.is_scheduled() || acks.is_owed() {
            return;
        }
        let unacknowledged = self.receiver.window.unacknowledged(self.receiver.rcv_nxt);
        // RFC 5681 §4.2: "an ACK SHOULD be generated for at least every second full-sized segment".
        let is_second = unacknowledged > u32::from(acks.rcv_mss()) && self.wants_more();
        if is_second || acks.is_quick() {
            self.receiver.acks.owe_one();
            return;
        }
        if !self.timers.is_set(Timer::DelayedAck) {
            let delay = acks.delay(|| self.cold.recovery.rtt.srtt(), &self.config);
            self.set_timer(Timer::DelayedAck, now + delay);
        }
    }

    /// Whether to ask the peer for more: the window has not shrunk, or the application has less
    /// than it waits for. Otherwise the acknowledgement goes with the read that makes room.
    fn wants_more(&self) -> bool {
        let receiver = &self.receiver;
        !self.has_readable()
            || receiver.window.is_growing(
                receiver.rcv_nxt,
                receiver.queued(),
                receiver.acks.rcv_mss(),
            )
    }
}
