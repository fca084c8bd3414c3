//! What is known of one segment, and counts of it.

use crate::{Instant, SeqNumber};

/// A segment as the scoreboard shows it to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentSegment {
    pub seq: SeqNumber,
    /// In sequence numbers: FIN counts.
    pub len: u32,
    /// Its last transmission.
    pub sent_at: Instant,
    /// It was sent more than once.
    pub is_retransmitted: bool,
    /// It was selectively acknowledged before.
    pub was_sacked: bool,
}

impl SentSegment {
    /// The sequence number behind it.
    #[must_use]
    pub fn end(&self) -> SeqNumber {
        self.seq + self.len
    }
}

/// Octets, or numbers of segments, by what is known of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sent and not cumulatively acknowledged.
    pub outstanding: u32,
    /// Of these, selectively acknowledged.
    pub sacked: u32,
    /// Of these, deemed lost, whether retransmitted or not.
    pub lost: u32,
    /// Of these, retransmitted, where the retransmission is neither acknowledged nor deemed lost.
    pub retransmitted: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) sent_at: Instant,
    pub(super) seq: SeqNumber,
    pub(super) len: u32,
    /// If selectively acknowledged: an ordinal up to which all the following ones are, too.
    pub(super) skip: u32,
    pub(super) marks: u8,
}

const _: () = assert!(size_of::<Segment>() == 24);

pub(super) const SACKED: u8 = 1;
pub(super) const LOST: u8 = 2;
/// A retransmission is under way.
pub(super) const RETRANSMITTED: u8 = 4;
/// Was ever retransmitted.
pub(super) const EVER_RETRANSMITTED: u8 = 8;

impl Segment {
    pub(super) const fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    pub(super) const fn waits_for_retransmission(&self) -> bool {
        self.marks & (LOST | RETRANSMITTED) == LOST
    }

    /// Sent more than once, and whether the last transmission arrived is open.
    pub(super) const fn waits_for_decision_again(&self) -> bool {
        self.has(EVER_RETRANSMITTED) && !self.has(SACKED) && !self.waits_for_retransmission()
    }

    pub(super) fn end(&self) -> SeqNumber {
        self.seq + self.len
    }

    /// What the rest of recovery is to know of it.
    pub(super) fn report(&self) -> SentSegment {
        SentSegment {
            seq: self.seq,
            len: self.len,
            sent_at: self.sent_at,
            is_retransmitted: self.has(EVER_RETRANSMITTED),
            was_sacked: self.has(SACKED),
        }
    }
}

impl Counts {
    /// What the network has: neither arrived nor lost.
    pub(crate) const fn in_flight(self) -> u32 {
        self.outstanding
            .saturating_sub(self.sacked)
            .saturating_sub(self.lost)
            .saturating_add(self.retransmitted)
    }

    /// Counts `amount` of a segment with these marks in, or out.
    pub(super) fn add(&mut self, marks: u8, amount: u32) {
        self.change(marks, |count| count.saturating_add(amount));
    }

    pub(super) fn remove(&mut self, marks: u8, amount: u32) {
        self.change(marks, |count| count.saturating_sub(amount));
    }

    fn change(&mut self, marks: u8, change: impl Fn(u32) -> u32) {
        self.outstanding = change(self.outstanding);
        for (mark, count) in [
            (SACKED, &mut self.sacked),
            (LOST, &mut self.lost),
            (RETRANSMITTED, &mut self.retransmitted),
        ] {
            if marks & mark != 0 {
                *count = change(*count);
            }
        }
    }
}

/// RFC 8985 §6.2 step 2: `RACK_sent_after`.
pub(in crate::recovery) fn sent_after(
    newest: (Instant, SeqNumber),
    sent_at: Instant,
    end: SeqNumber,
) -> bool {
    newest.0 > sent_at || newest.0 == sent_at && newest.1 > end
}
