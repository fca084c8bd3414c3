//! Acknowledgements: RFC 9293 §3.10.7.4, "fifth, check the ACK field", with RFC 5961 §5.

use wire::tcp::Flags;

use super::Connection;
use super::segment::{Incoming, Verdict};
use crate::recovery::Acknowledgement;
use crate::send::AckClass;
use crate::timers::Timer;
use crate::{Instant, Payload};

impl<P: Payload> Connection<P> {
    #[inline]
    pub(super) fn check_ack(&mut self, now: Instant, segment: &Incoming<'_>) -> Verdict {
        match self.sender.classify_ack(segment.ack) {
            AckClass::New | AckClass::Current => self.take_ack(now, segment),
            // Overtaken by a later one; its SACK blocks may be news, its data is.
            AckClass::Old if self.has_been_acknowledged(segment) => {
                self.report_ack(now, segment, false);
                Verdict::Continue
            }
            // RFC 5961 §5.2: "All incoming segments whose ACK value doesn't satisfy the above
            // condition MUST be discarded and an ACK sent back."
            AckClass::Old | AckClass::TooOld | AckClass::Unsent => {
                self.challenge(now);
                Verdict::Drop
            }
        }
    }

    /// The number of an old acknowledgement is one of this connection, not from before its
    /// beginning: a large window must not let an attacker guess among those (Linux's
    /// `bytes_acked`).
    fn has_been_acknowledged(&self, segment: &Incoming<'_>) -> bool {
        u64::from(self.sender.snd_una - segment.ack) <= self.cold.sent.octets_acked
    }

    #[inline]
    fn take_ack(&mut self, now: Instant, segment: &Incoming<'_>) -> Verdict {
        let has_new_window =
            self.sender
                .update_window(segment.seq, segment.ack, segment.header.window);
        self.note_peer_alive(now);
        if self.sender.is_outstanding() {
            let is_plain = segment.is_empty() && !has_new_window;
            let in_flight = self.cold.recovery.scoreboard().segments().in_flight();
            let acked = self.report_ack(now, segment, is_plain);
            if acked > 0 {
                self.cold.sent.octets_acked =
                    self.cold.sent.octets_acked.wrapping_add(u64::from(acked));
                self.cold.soft_error = None;
                self.timers.stop(Timer::UserTimeout);
                let is_fin_acked = self.sender.on_ack(segment.ack);
                self.grow_send_buffer(in_flight);
                self.measure_progress(now);
                if self.is_searching_mtu() {
                    self.review_mtu_probe();
                }
                if is_fin_acked && self.on_fin_acknowledged(now) == Verdict::Drop {
                    return Verdict::Drop;
                }
            } else if is_plain && segment.ack == self.sender.snd_una {
                let count = &mut self.cold.sent.duplicate_acks;
                *count = count.wrapping_add(1);
            }
        } else if self.cold.recovery.is_probe_under_way() || !segment.header.options.sack.is_empty()
        {
            // What came twice tells that a reduction or a probe was not needed (RFC 3708, RFC 8985
            // §7.4.2).
            let is_plain = segment.is_empty() && !has_new_window;
            self.report_ack(now, segment, is_plain);
        }
        if self.timers.is_set(Timer::Retransmit) {
            self.review_window_probe();
        }
        Verdict::Continue
    }

    /// Tells recovery; returns the number of sequence numbers newly acknowledged.
    fn report_ack(&mut self, now: Instant, segment: &Incoming<'_>, is_plain: bool) -> u32 {
        // An old acknowledgement tells of old congestion. With nothing outstanding there is no
        // window to be reduced (as Linux).
        let is_echo = segment.has(Flags::ECE)
            && segment.ack >= self.sender.snd_una
            && self.sender.is_outstanding();
        if self.ecn.is_on && is_echo && self.cold.recovery.on_ecn_echo(now) {
            self.ecn.owes_cwr = true;
        }
        let echo = match segment.header.options.timestamps {
            Some(timestamps) if self.timestamps.is_on() => self
                .timestamps
                .round_trip(now, timestamps.echo)
                .map(|elapsed| (timestamps.echo, elapsed.duration())),
            _ => None,
        };
        let delivered_before = self.cold.recovery.scoreboard().delivered();
        if self.sender.unsent() < u32::from(self.mss()) {
            self.cold.recovery.note_app_limited();
        }
        let was_reducing = self.cold.recovery.is_reducing();
        let outcome = self.cold.recovery.on_ack(&Acknowledgement {
            now,
            ack: segment.ack,
            sack: segment.header.options.sack.as_slice(),
            is_plain,
            echo,
        });
        self.follow_recovery();
        if self.ecn.is_on {
            self.note_reduction(was_reducing);
            // Linux's `tcp_ecn_withdraw_cwr`
            self.ecn.owes_cwr &= !outcome.was_spurious;
        }
        self.measure_ack(now, segment, &outcome, delivered_before);
        self.follow_pacing();
        if outcome.has_lost_probe {
            self.review_mtu_probe();
        }
        outcome.acked
    }

    /// The timer of window probes was set; with more window it may not be needed (`tcp_ack_probe`).
    fn review_window_probe(&mut self) {
        if !self.state.is_synchronized() {
            return;
        }
        self.timers.stop(Timer::Retransmit);
        // If the window still blocks, the next `poll_transmit` sets the timer again, with its
        // backoff.
        if self.sender.window_end() > self.sender.snd_nxt {
            self.cold.probe_backoff = 0;
            self.timers.stop(Timer::UserTimeout);
        }
    }
}
