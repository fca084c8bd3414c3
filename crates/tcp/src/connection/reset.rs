//! Resets: RFC 9293 §3.5.2 and §3.5.3, RFC 5961 §3.2.

use super::Connection;
use super::reset_segment::Reset;
use super::segment::Incoming;
use crate::{Error, Instant, Payload, State, Transmit};

impl<P: Payload> Connection<P> {
    /// RFC 5961 §3.2, of a reset in the window.
    pub(super) fn check_reset(&mut self, now: Instant, segment: &Incoming<'_>) {
        // "If the RST bit is set and the sequence number exactly matches the next expected sequence
        // number (RCV.NXT), then TCP MUST reset the connection." "[if it] does not exactly match
        // [...] TCP MUST send an acknowledgment (challenge ACK)".
        if segment.seq == self.receiver.rcv_nxt
            || self.is_reset_after_fin(segment)
            || self.is_reset_behind_gap(segment)
        {
            self.measure_end(now);
            self.on_reset();
        } else {
            self.challenge(now);
        }
    }

    /// Some stacks send RST with the number of the FIN instead of the one behind it (Linux's
    /// `tcp_reset_check`).
    pub(super) fn is_reset_after_fin(&self, segment: &Incoming<'_>) -> bool {
        self.receiver.has_received_fin() && segment.seq + 1 == self.receiver.rcv_nxt
    }

    /// Data before the reset was lost, and its number is that behind the last data that came (as
    /// Linux). That is as hard to guess as `RCV.NXT`.
    fn is_reset_behind_gap(&self, segment: &Incoming<'_>) -> bool {
        self.cold.handshake.has_sack && self.receiver.end_behind_gap() == Some(segment.seq)
    }

    pub(super) fn on_reset(&mut self) {
        match self.state {
            // "If this connection was initiated with a passive OPEN [...] return this connection to
            // LISTEN state". What was opened fast is known to the application.
            State::SynReceived if self.cold.handshake.is_fast_open => {
                self.end_fast_open(true);
                self.fail(Error::Reset);
            }
            State::SynReceived if self.cold.handshake.is_passive => self.enter_closed(),
            State::CloseWait => self.fail(Error::BrokenPipe),
            State::Closed | State::TimeWait => self.enter_closed(),
            // In a simultaneous open, too, as with Linux: RFC 9293 would have it refused.
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck => self.fail(Error::Reset),
        }
    }

    /// Answers a segment as if there were no connection.
    #[cold]
    pub(super) fn refuse(&mut self, segment: &Incoming<'_>) {
        if let Some(reset) = Reset::answering(segment) {
            self.request_reset(reset);
        }
    }

    /// RST with the numbers of this connection, for what must not go on.
    pub(super) fn send_reset(&mut self) {
        self.request_reset(Reset {
            seq: self.sender.acceptable_seq(),
            ack: Some(self.receiver.rcv_nxt),
            is_own: true,
        });
    }

    pub(super) fn request_reset(&mut self, reset: Reset) {
        self.pending.reset = true;
        self.cold.reset = reset;
    }

    pub(super) fn emit_reset(&mut self, now: Instant, transmit: &mut Transmit) {
        self.pending.reset = false;
        let reset = self.cold.reset;
        reset.fill(transmit);
        if reset.is_own {
            transmit.header.window = self.receiver.advertise();
            transmit.header.options = self.header_options(now, 0);
        }
        self.counters.segments_out = self.counters.segments_out.wrapping_add(1);
    }
}
