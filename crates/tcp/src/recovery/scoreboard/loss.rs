//! Which segments are deemed lost, and which are not after all.

use core::time::Duration;

use super::Scoreboard;
use super::segment::{EVER_RETRANSMITTED, LOST, RETRANSMITTED, SACKED, SentSegment, sent_after};
use crate::{Instant, SeqNumber};

impl Scoreboard {
    /// RFC 8985 §6.2 step 5: deems lost what was sent before `newest`, the segment sent last of
    /// those that have arrived, and `timeout` ago or more. Tells `lost` of each. Returns when the
    /// next one of them is due.
    pub fn detect_lost(
        &mut self,
        newest: (Instant, SeqNumber),
        timeout: Duration,
        now: Instant,
        mut lost: impl FnMut(&SentSegment),
    ) -> Option<Instant> {
        let sent_once = self.detect_lost_transmissions(newest, timeout, now, &mut lost);
        let sent_again = self.detect_lost_retransmissions(newest, timeout, now, &mut lost);
        match (sent_once, sent_again) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn detect_lost_transmissions(
        &mut self,
        newest: (Instant, SeqNumber),
        timeout: Duration,
        now: Instant,
        lost: &mut impl FnMut(&SentSegment),
    ) -> Option<Instant> {
        let mut index = self.index(self.undecided).unwrap_or(0);
        let mut next = None;
        while let Some(segment) = self.segments.get(index) {
            if !segment.has(SACKED | LOST | EVER_RETRANSMITTED) {
                if !sent_after(newest, segment.sent_at, segment.end()) {
                    break;
                }
                let due = segment.sent_at + timeout;
                if due > now {
                    next = Some(due);
                    break;
                }
                self.mark_lost(index, lost);
            }
            index = index.saturating_add(1);
        }
        self.undecided = self.ordinal(index);
        next
    }

    fn detect_lost_retransmissions(
        &mut self,
        newest: (Instant, SeqNumber),
        timeout: Duration,
        now: Instant,
        lost: &mut impl FnMut(&SentSegment),
    ) -> Option<Instant> {
        while let Some(sent) = self
            .retransmissions
            .as_ref()
            .and_then(|queue| queue.front())
        {
            if let Some((index, segment)) = self.decidable(sent) {
                if !sent_after(newest, segment.sent_at, segment.end()) {
                    return None;
                }
                let due = segment.sent_at + timeout;
                if due > now {
                    return Some(due);
                }
                self.mark_lost(index, lost);
            }
            if let Some(queue) = &mut self.retransmissions {
                queue.pop_front();
            }
        }
        None
    }

    /// The first segment is deemed lost, or its retransmission is.
    pub fn mark_first_lost(&mut self, mut lost: impl FnMut(&SentSegment)) {
        if self
            .segments
            .front()
            .is_some_and(|first| !first.has(SACKED))
        {
            self.mark_lost(0, &mut lost);
        }
    }

    /// The retransmission timer has expired (RFC 8985 §6.3): deems lost the first segment and those
    /// sent `timeout` ago or more. If the first one had been reported as arrived, the receiver has
    /// thrown data away, and nothing that it reported counts (RFC 2018 §8). Tells `lost` of each
    /// for which that is news.
    pub fn mark_lost_on_timeout(
        &mut self,
        timeout: Duration,
        now: Instant,
        mut lost: impl FnMut(&SentSegment),
    ) {
        let is_reneging = self.is_reneging();
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if is_reneging {
                segment.marks &= !SACKED;
            }
            if segment.has(SACKED) {
                continue;
            }
            if index == 0 || is_reneging || segment.sent_at + timeout <= now {
                if !segment.waits_for_retransmission() {
                    lost(&segment.report());
                }
                segment.marks = segment.marks & !RETRANSMITTED | LOST;
            }
        }
        self.count_again();
    }

    /// Nothing was lost after all: takes back what is not known to have arrived.
    pub fn unmark_lost(&mut self) {
        for segment in &mut self.segments {
            segment.marks &= !LOST;
        }
        self.count_again();
    }

    fn mark_lost(&mut self, index: usize, lost: &mut impl FnMut(&SentSegment)) {
        let Some(segment) = self.segments.get(index) else {
            return;
        };
        if !segment.waits_for_retransmission() {
            lost(&segment.report());
        }
        let marks = segment.marks & !RETRANSMITTED | LOST;
        self.set_marks(index, marks);
        let ordinal = self.ordinal(index);
        let hint = self.index(self.retransmit_hint).unwrap_or(0);
        if self.to_retransmit == 1 || index < hint {
            self.retransmit_hint = ordinal;
        }
    }
}
