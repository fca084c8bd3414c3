//! Tells [`Outgoing`](crate::outgoing::Outgoing), which `TCP_INFO` reads, what happens while
//! sending.

use wire::tcp::Flags;

use super::Connection;
use super::segment::Incoming;
use crate::outgoing::{Limit, Sent};
use crate::recovery::Outcome;
use crate::{CaState, Instant, Payload, SeqNumber, State};

impl<P: Payload> Connection<P> {
    /// The application is about to add something to the stream.
    #[inline]
    pub(super) fn measure_write(&mut self, now: Instant) {
        let in_flight = self.cold.recovery.in_flight();
        let is_starved = self.sender.unsent() < u32::from(self.mss())
            && in_flight < self.cold.recovery.congestion.cwnd()
            && self.cold.recovery.scoreboard().to_retransmit() == 0;
        let outgoing = self.outgoing();
        outgoing.chronometer.start(Limit::Busy, now);
        if is_starved {
            outgoing.delivery_rate.on_app_limited(in_flight);
            self.cold.recovery.congestion.on_app_limited(in_flight);
        }
    }

    /// The data of a SYN goes out, or what was sent before the connection came here.
    pub(super) fn measure_busy(&mut self, now: Instant) {
        self.outgoing().chronometer.start(Limit::Busy, now);
    }

    /// FIN is to be sent. Where nothing else ever was it is not measured.
    pub(super) fn measure_fin(&mut self, now: Instant) {
        if let Some(outgoing) = &mut self.cold.outgoing {
            outgoing.chronometer.start(Limit::Busy, now);
        }
    }

    /// The peer's window holds back what waits, or does not.
    #[inline]
    pub(super) fn measure_receive_window(&mut self, now: Instant, is_limiting: bool) {
        if let Some(outgoing) = &mut self.cold.outgoing {
            if is_limiting {
                outgoing.chronometer.start(Limit::ReceiveWindow, now);
            } else {
                outgoing.chronometer.stop(Limit::ReceiveWindow, now);
            }
        }
    }

    /// `len` octets go out, in a segment that ends before `end`. `is_alone`: nothing else is
    /// outstanding.
    #[inline]
    pub(super) fn measure_sent(&mut self, now: Instant, len: u32, end: SeqNumber, is_alone: bool) {
        let Some(outgoing) = &mut self.cold.outgoing else {
            return;
        };
        if let Some(pacer) = &mut outgoing.pacer {
            pacer.on_sent(len, now);
        }
        let sent = Sent { end, is_alone };
        outgoing.delivery_rate.on_sent(sent, now);
        // As Linux (`tcp_cwnd_validate`): the network could take more, and the application has it,
        // but no room for it.
        if self.sender.is_refused
            && !self.sender.has_unsent()
            && !self.cold.recovery.congestion.is_limiting()
            && matches!(self.state, State::Established | State::CloseWait)
        {
            outgoing.chronometer.start(Limit::SendBuffer, now);
        }
    }

    /// What an acknowledgement tells. `delivered_before` are the segments that had arrived before
    /// it.
    #[inline]
    pub(super) fn measure_ack(
        &mut self,
        now: Instant,
        segment: &Incoming<'_>,
        outcome: &Outcome,
        delivered_before: u32,
    ) {
        let Some(outgoing) = &mut self.cold.outgoing else {
            return;
        };
        let snd_una = self.sender.snd_una.max(segment.ack);
        let rtt = &self.cold.recovery.rtt;
        outgoing
            .delivery_rate
            .on_ack(now, snd_una, outcome.delivered, || rtt.min_rtt());
        if self.ecn.is_on && segment.has(Flags::ECE) {
            let delivered = self.cold.recovery.scoreboard().delivered();
            let news = delivered.wrapping_sub(delivered_before);
            outgoing.delivered_ce = outgoing.delivered_ce.wrapping_add(news);
        }
        if outgoing.timeouts.is_recovering() && self.cold.recovery.ca_state() != CaState::Loss {
            outgoing.timeouts.on_recovered(now);
        }
    }

    /// `SND.UNA` has advanced.
    #[inline]
    pub(super) fn measure_progress(&mut self, now: Instant) {
        let is_done = !self.sender.is_outstanding() && !self.sender.has_unsent();
        let has_room = self.sender.is_refused && self.has_send_room();
        self.sender.is_refused &= !has_room;
        if let Some(outgoing) = &mut self.cold.outgoing {
            if is_done {
                outgoing.chronometer.rest(now);
            } else if has_room {
                outgoing.chronometer.stop(Limit::SendBuffer, now);
            }
        }
    }

    /// The retransmission timer has expired, of the handshake or later.
    pub(super) fn measure_timeout(&mut self, now: Instant, is_first: bool) {
        self.outgoing().timeouts.on_timeout(is_first, now);
    }

    /// What was sent again during the handshake has arrived.
    pub(super) fn measure_established(&mut self, now: Instant) {
        if let Some(outgoing) = &mut self.cold.outgoing {
            outgoing.timeouts.on_recovered(now);
        }
    }

    /// What waits will never be sent.
    pub(super) fn measure_end(&mut self, now: Instant) {
        if let Some(outgoing) = &mut self.cold.outgoing {
            outgoing.chronometer.rest(now);
        }
    }
}
