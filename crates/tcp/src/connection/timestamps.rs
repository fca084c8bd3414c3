//! Timestamps of received segments, and PAWS (RFC 7323 §4 and §5).

use wire::tcp::Flags;

use super::Connection;
use super::segment::{Incoming, Verdict};
use crate::{Instant, Payload};

impl<P: Payload> Connection<P> {
    /// RFC 7323 §5.3 R1: PAWS, for all but resets.
    #[inline]
    pub(super) fn check_timestamp(&mut self, now: Instant, segment: &Incoming<'_>) -> Verdict {
        if !self.timestamps.is_on() {
            return Verdict::Continue;
        }
        match segment.header.options.timestamps {
            Some(timestamps) if !self.timestamps.is_old(now, timestamps.value) => Verdict::Continue,
            // RFC 7323 §3.2 asks to drop segments without the option; Linux takes them, since
            // middleboxes strip it.
            None => Verdict::Continue,
            Some(_) if segment.has(Flags::RST) => Verdict::Continue,
            // Linux (`tcp_disordered_ack`): a bare ACK that was overtaken, not one from another
            // incarnation.
            Some(timestamps) if self.is_overtaken_ack(segment, timestamps.value) => {
                Verdict::Continue
            }
            Some(timestamps) if self.is_overtaken_data(segment, timestamps.value) => {
                Verdict::Continue
            }
            Some(_) => {
                self.answer_unacceptable(now, segment);
                Verdict::Drop
            }
        }
    }

    fn is_overtaken_ack(&self, segment: &Incoming<'_>, value: u32) -> bool {
        let age = self.timestamps.recent.wrapping_sub(value);
        let rto_ms = u32::try_from(self.rto().as_millis()).unwrap_or(u32::MAX);
        segment.is_empty()
            && segment.seq == self.receiver.rcv_nxt
            && segment.ack == self.sender.snd_una
            && age <= rto_ms
    }

    fn is_overtaken_data(&self, segment: &Incoming<'_>, value: u32) -> bool {
        segment.len > 0
            && segment.seq >= self.receiver.rcv_nxt
            && self.receiver.is_overtaken(value, self.octets_received())
    }

    /// RFC 7323 §4.3: "If: SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent".
    #[inline]
    pub(super) fn take_timestamp(&mut self, now: Instant, segment: &Incoming<'_>) {
        if let Some(timestamps) = segment.header.options.timestamps
            && self.timestamps.is_on()
            && segment.seq <= self.receiver.window.offered_from()
        {
            self.timestamps.update(now, timestamps.value);
        }
    }
}
