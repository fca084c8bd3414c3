//! Counts for `TCP_INFO`.

use crate::SeqNumber;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) segments_in: u32,
    pub(super) segments_out: u32,
    pub(super) data_segments_in: u32,
}

/// Octets of the peer's stream that have come in order: `count` of them before `up_to`, and those
/// from there to `RCV.NXT`, which sequence numbers tell. So most segments need not write here,
/// which is memory that they do not touch otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceivedOctets {
    count: u64,
    up_to: SeqNumber,
}

impl ReceivedOctets {
    /// The stream begins at `rcv_nxt`.
    pub(super) fn start(&mut self, rcv_nxt: SeqNumber) {
        *self = Self {
            count: 0,
            up_to: rcv_nxt,
        };
    }

    /// `RCV.NXT` has advanced from `before`. Touches memory once in 2 GiB, well before what
    /// sequence numbers tell is ambiguous.
    #[inline]
    pub(super) fn on_advance(&mut self, before: SeqNumber, rcv_nxt: SeqNumber) {
        let has_highest_bit_changed = (before.0 ^ rcv_nxt.0) >> 31 != 0;
        if has_highest_bit_changed {
            self.count = self.total(rcv_nxt);
            self.up_to = rcv_nxt;
        }
    }

    pub(super) fn total(self, rcv_nxt: SeqNumber) -> u64 {
        let more = rcv_nxt.0.wrapping_sub(self.up_to.0);
        self.count.saturating_add(more.into())
    }
}

/// What received data does not change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentCounters {
    pub(super) data_segments_out: u32,
    pub(super) octets_acked: u64,
    /// Received: RFC 5681 §2.
    pub(super) duplicate_acks: u32,
    pub(super) octets_sent: u64,
}

impl SentCounters {
    #[inline]
    pub(super) fn on_data_sent(&mut self, len: u32) {
        if len > 0 {
            self.data_segments_out = self.data_segments_out.wrapping_add(1);
            self.octets_sent = self.octets_sent.wrapping_add(u64::from(len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_counted_beyond_what_sequence_numbers_tell_apart() {
        for step in [1 << 16, 1 << 30, 0x7fff_ffff] {
            let mut rcv_nxt = SeqNumber(0xffff_0000);
            let mut received = ReceivedOctets::default();
            received.start(rcv_nxt);
            let mut expected: u64 = 0;
            while expected < 10 << 32 {
                let before = rcv_nxt;
                rcv_nxt += step;
                received.on_advance(before, rcv_nxt);
                expected += u64::from(step);
                assert_eq!(received.total(rcv_nxt), expected);
            }
        }
    }
}
