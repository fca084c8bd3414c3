//! The segments that are sent and not cumulatively acknowledged (RFC 6675 §4, with the marks of RFC
//! 8985).
//!
//! Segments lie in a ring in the order of their sequence numbers. What an acknowledgement costs:
//! * cumulative: one step for each segment that it takes away;
//! * selective: a binary search for each block and one step for each segment that is new. Runs of
//!   segments that are known to have arrived are jumped over by links that shorten themselves
//!   (union-find), so a peer that repeats a block of thousands of segments, or reports them in the
//!   worst order, gains nothing;
//! * detecting losses: one step for each segment that is found lost, since those sent once are in
//!   the order of their times already and those sent again are queued in that order beside them.
//!
//! A block that covers a part of a segment does not count for it (as in Linux): receivers that keep
//! to the boundaries of segments are the rule, and nobody can make the ring longer than what was
//! sent.

mod loss;
mod segment;

use std::collections::VecDeque;

use crate::cache_lines;
use crate::{Instant, SeqNumber};

use segment::{EVER_RETRANSMITTED, LOST, RETRANSMITTED, SACKED, Segment};

pub(super) use segment::sent_after;
pub use segment::{Counts, SentSegment};

/// What is sent and not acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    segments: VecDeque<Segment>,
    /// The ordinal number of the first one. Ordinals stay with their segments; they wrap.
    base: u32,
    octets: Counts,
    counts: Counts,
    /// No segment before this ordinal waits for its first decision between arrived and lost.
    undecided: u32,
    /// Retransmissions in the order of their times; those that do not match their segment any more
    /// are void. Few connections have any.
    #[allow(clippy::box_collection, reason = "three words less in each connection")]
    retransmissions: Option<Box<VecDeque<Retransmission>>>,
    /// Segments deemed lost and not retransmitted since.
    to_retransmit: u32,
    /// None of them is before this ordinal.
    retransmit_hint: u32,
}

#[derive(Clone, Copy, Debug)]
struct Retransmission {
    ordinal: u32,
    sent_at: Instant,
}

impl Scoreboard {
    /// Gives memory back if nothing is outstanding.
    pub(crate) fn shrink(&mut self) {
        if self.segments.is_empty() {
            self.segments = VecDeque::new();
        }
    }

    /// Where the first segment is and where the next one goes, as addresses to prefetch.
    #[inline]
    pub(crate) fn lines(&self) -> [*const u8; 2] {
        cache_lines::ends(&self.segments)
    }

    /// A segment is sent for the first time. Sequence numbers must follow on each other.
    pub fn push(&mut self, seq: SeqNumber, len: u32, sent_at: Instant) {
        debug_assert!(len > 0);
        debug_assert!(self.segments.back().is_none_or(|last| last.end() == seq));
        self.segments.push_back(Segment {
            sent_at,
            seq,
            len,
            skip: 0,
            marks: 0,
        });
        self.octets.add(0, len);
        self.counts.add(0, 1);
    }

    /// Everything before `snd_una` has arrived. Tells `delivered` of each segment that this
    /// acknowledges wholly.
    pub fn acknowledge(&mut self, snd_una: SeqNumber, mut delivered: impl FnMut(&SentSegment)) {
        while let Some(segment) = self.segments.front_mut() {
            if segment.end() > snd_una {
                if segment.seq < snd_una {
                    let gone = snd_una - segment.seq;
                    segment.seq = snd_una;
                    segment.len = segment.len.saturating_sub(gone);
                    let marks = segment.marks;
                    self.octets.remove(marks, gone);
                }
                break;
            }
            let segment = *segment;
            self.segments.pop_front();
            self.base = self.base.wrapping_add(1);
            self.octets.remove(segment.marks, segment.len);
            self.counts.remove(segment.marks, 1);
            if segment.waits_for_retransmission() {
                self.to_retransmit = self.to_retransmit.saturating_sub(1);
            }
            delivered(&segment.report());
        }
        if self.segments.is_empty() {
            self.retransmissions = None;
        }
        self.bound_retransmissions();
        // Ordinals that fell behind would mean something else once they have wrapped.
        if self.index(self.undecided).is_none() {
            self.undecided = self.base;
        }
        if self.index(self.retransmit_hint).is_none() {
            self.retransmit_hint = self.base;
        }
    }

    /// The block from `start` to `end` has arrived. Tells `delivered` of each segment for which
    /// that is news.
    pub fn sack(
        &mut self,
        start: SeqNumber,
        end: SeqNumber,
        mut delivered: impl FnMut(&SentSegment),
    ) {
        let mut index = self.segments.partition_point(|segment| segment.seq < start);
        loop {
            index = self.next_unsacked(index);
            let Some(segment) = self.segments.get(index) else {
                break;
            };
            if segment.end() > end {
                break;
            }
            delivered(&segment.report());
            let marks = segment.marks & EVER_RETRANSMITTED | SACKED;
            self.set_marks(index, marks);
            let next = self.ordinal(index.saturating_add(1));
            if let Some(segment) = self.segments.get_mut(index) {
                segment.skip = next;
            }
        }
    }

    /// The path takes `max_len` octets at most from here on: cuts what is longer, and deems it lost
    /// if `is_lost`.
    pub fn resegment(&mut self, max_len: u32, is_lost: bool) {
        let max_len = max_len.max(1);
        if self.segments.iter().all(|segment| segment.len <= max_len) {
            return;
        }
        let mut cut = VecDeque::with_capacity(self.segments.len().saturating_mul(2));
        for segment in &self.segments {
            let mut rest = *segment;
            if is_lost && rest.len > max_len && !rest.has(SACKED) {
                rest.marks = rest.marks & !RETRANSMITTED | LOST;
            }
            while rest.len > max_len {
                cut.push_back(Segment {
                    len: max_len,
                    ..rest
                });
                rest.seq += max_len;
                rest.len = rest.len.saturating_sub(max_len);
            }
            cut.push_back(rest);
        }
        self.segments = cut;
        self.count_again();
    }

    /// Cuts the segment at `seq` behind its first `len` octets. What is known of it is known of
    /// both parts.
    pub fn cut(&mut self, seq: SeqNumber, len: u32) {
        let index = self.segments.partition_point(|segment| segment.seq < seq);
        let Some(segment) = self.segments.get_mut(index) else {
            return;
        };
        debug_assert!(segment.seq == seq && 0 < len && len < segment.len);
        let rest = Segment {
            seq: seq + len,
            len: segment.len.saturating_sub(len),
            ..*segment
        };
        segment.len = len;
        self.segments.insert(index.saturating_add(1), rest);
        self.count_again();
    }

    /// The first segment that is deemed lost and not retransmitted since.
    pub fn next_to_retransmit(&mut self) -> Option<SentSegment> {
        if self.to_retransmit == 0 {
            return None;
        }
        let mut index = self.index(self.retransmit_hint).unwrap_or(0);
        loop {
            let segment = self.segments.get(index)?;
            if segment.waits_for_retransmission() {
                let report = segment.report();
                self.retransmit_hint = self.ordinal(index);
                return Some(report);
            }
            index = index.saturating_add(1);
        }
    }

    /// The segment at `seq` is sent again. Returns its length, 0 if there is none.
    pub fn on_retransmitted(&mut self, seq: SeqNumber, now: Instant) -> u32 {
        self.on_sent_again(seq, RETRANSMITTED | EVER_RETRANSMITTED, now)
    }

    /// The same of a segment that is not deemed lost, to probe for losses behind it. As in Linux
    /// (`tcp_send_loss_probe`) it is not in flight a second time.
    pub fn on_probed(&mut self, seq: SeqNumber, now: Instant) -> u32 {
        self.on_sent_again(seq, EVER_RETRANSMITTED, now)
    }

    fn on_sent_again(&mut self, seq: SeqNumber, new_marks: u8, now: Instant) -> u32 {
        let index = self.segments.partition_point(|segment| segment.seq < seq);
        let ordinal = self.ordinal(index);
        let Some(segment) = self.segments.get_mut(index) else {
            return 0;
        };
        debug_assert!(segment.seq == seq && !segment.has(SACKED));
        segment.sent_at = now;
        let (marks, len) = (segment.marks, segment.len);
        self.set_marks(index, marks | new_marks);
        let queue = self.retransmissions.get_or_insert_default();
        queue.push_back(Retransmission {
            ordinal,
            sent_at: now,
        });
        self.bound_retransmissions();
        len
    }

    #[inline]
    fn bound_retransmissions(&mut self) {
        let most = void_after(self.segments.len());
        if self
            .retransmissions
            .as_ref()
            .is_some_and(|queue| queue.len() > most)
        {
            self.forget_void_retransmissions();
        }
    }

    /// Without SACK nothing else takes them away while anything is outstanding.
    #[cold]
    fn forget_void_retransmissions(&mut self) {
        if let Some(mut queue) = self.retransmissions.take() {
            queue.retain(|sent| self.decidable(sent).is_some());
            self.retransmissions = Some(queue);
        }
    }

    /// Where the segment is of which this is the last transmission, if whether that has arrived is
    /// open.
    fn decidable(&self, sent: &Retransmission) -> Option<(usize, &Segment)> {
        let index = self.index(sent.ordinal)?;
        let segment = self.segments.get(index)?;
        let is_last = segment.sent_at == sent.sent_at && segment.waits_for_decision_again();
        is_last.then_some((index, segment))
    }

    /// The last segment sent.
    #[must_use]
    pub fn last(&self) -> Option<SentSegment> {
        self.segments.back().map(Segment::report)
    }

    /// The first segment not cumulatively acknowledged.
    #[must_use]
    pub fn first(&self) -> Option<SentSegment> {
        self.segments.front().map(Segment::report)
    }

    /// The first segment was reported as arrived and is not acknowledged: the receiver has thrown
    /// it away (RFC 2018 §8).
    #[must_use]
    pub fn is_reneging(&self) -> bool {
        self.counts.sacked > 0 && self.segments.front().is_some_and(|first| first.has(SACKED))
    }

    /// The first segment is deemed lost and was not sent again since.
    #[must_use]
    pub fn waits_for_first(&self) -> bool {
        let first = self.segments.front();
        first.is_some_and(|first| first.has(LOST) && !first.has(RETRANSMITTED))
    }

    /// Octets by what is known of them.
    #[must_use]
    pub const fn octets(&self) -> Counts {
        self.octets
    }

    /// Segments by what is known of them.
    #[must_use]
    pub const fn segments(&self) -> Counts {
        self.counts
    }

    /// Octets in flight: `pipe` of RFC 6675 §4.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.octets.in_flight()
    }

    /// Segments that have arrived, over the life of the connection.
    #[must_use]
    pub const fn delivered(&self) -> u32 {
        // The ordinal of the first one that is outstanding is the number of those before it.
        self.base.wrapping_add(self.counts.sacked)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Segments deemed lost and not retransmitted since.
    #[must_use]
    pub const fn to_retransmit(&self) -> u32 {
        self.to_retransmit
    }

    /// Sets the marks of a segment and keeps the counts true.
    fn set_marks(&mut self, index: usize, marks: u8) {
        let Some(segment) = self.segments.get_mut(index) else {
            return;
        };
        let (before, len) = (segment.waits_for_retransmission(), segment.len);
        self.octets.remove(segment.marks, len);
        self.counts.remove(segment.marks, 1);
        segment.marks = marks;
        self.octets.add(marks, len);
        self.counts.add(marks, 1);
        match (before, segment.waits_for_retransmission()) {
            (false, true) => self.to_retransmit = self.to_retransmit.saturating_add(1),
            (true, false) => self.to_retransmit = self.to_retransmit.saturating_sub(1),
            (true, true) | (false, false) => {}
        }
    }

    /// After a change to many segments: counts and links from the segments alone.
    fn count_again(&mut self) {
        self.octets = Counts::default();
        self.counts = Counts::default();
        self.to_retransmit = 0;
        self.undecided = self.base;
        self.retransmit_hint = self.base;
        self.retransmissions = None;
        let mut ordinal = self.base;
        for segment in &mut self.segments {
            self.octets.add(segment.marks, segment.len);
            self.counts.add(segment.marks, 1);
            if segment.waits_for_retransmission() {
                self.to_retransmit = self.to_retransmit.saturating_add(1);
            }
            if segment.waits_for_decision_again() {
                self.retransmissions
                    .get_or_insert_default()
                    .push_back(Retransmission {
                        ordinal,
                        sent_at: segment.sent_at,
                    });
            }
            ordinal = ordinal.wrapping_add(1);
            segment.skip = ordinal;
        }
        if let Some(queue) = &mut self.retransmissions {
            queue
                .make_contiguous()
                .sort_unstable_by_key(|sent| (sent.sent_at, sent.ordinal.wrapping_sub(self.base)));
        }
    }

    /// The first segment from `index` on that is not selectively acknowledged. Halves the links it
    /// passes.
    fn next_unsacked(&mut self, mut index: usize) -> usize {
        while let Some(segment) = self.segments.get(index)
            && segment.has(SACKED)
        {
            let Some(next) = self.index(segment.skip) else {
                return self.segments.len();
            };
            let Some(beyond) = self.segments.get(next) else {
                return next;
            };
            let skip = if beyond.has(SACKED) {
                beyond.skip
            } else {
                segment.skip
            };
            if let Some(segment) = self.segments.get_mut(index) {
                segment.skip = skip;
            }
            index = self.index(skip).unwrap_or(self.segments.len());
        }
        index
    }

    fn ordinal(&self, index: usize) -> u32 {
        // Fewer than 2^32 segments fit into a window of at most 2^30 octets.
        self.base
            .wrapping_add(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Where the segment of that ordinal is, or would be next; `None` if it is gone.
    fn index(&self, ordinal: u32) -> Option<usize> {
        let offset = usize::try_from(ordinal.wrapping_sub(self.base)).ok()?;
        (offset <= self.segments.len()).then_some(offset)
    }
}

/// So many retransmissions of `segments` are kept before those that are void are looked for: each
/// looked at pays with one that was sent, or with a segment that has arrived.
const fn void_after(segments: usize) -> usize {
    segments.saturating_mul(2).saturating_add(8)
}

#[cfg(test)]
mod tests;
