//! Data that came out of order, until the gap before it is filled, and the SACK blocks that tell of
//! it (RFC 2018).

use std::collections::VecDeque;

use wire::tcp::{SackBlock, SackBlocks};

use super::overtaken::Overtaken;
use crate::{Payload, SeqNumber};

/// Out-of-order data, sorted, without overlaps.
#[derive(Clone, Debug)]
pub(crate) struct Assembler<P> {
    pieces: VecDeque<Piece<P>>,
    footprint: usize,
    /// The ranges to report, the one that changed last first (RFC 2018 §4); a range that more
    /// recent ones pushed out is reported again when it changes, as in Linux.
    recent: [Range; SackBlocks::MAX],
    recent_count: u8,
    /// What came twice (RFC 2883), to be reported once.
    duplicate: Option<Range>,
    pub(crate) overtaken: Overtaken,
}

#[derive(Clone, Debug)]
struct Piece<P> {
    range: Range,
    payload: P,
}

/// Octets from `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: SeqNumber,
    pub(crate) end: SeqNumber,
}

impl Range {
    pub(crate) const fn new(start: SeqNumber, end: SeqNumber) -> Self {
        Self { start, end }
    }

    fn touches(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    fn union(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }

    pub(crate) fn block(self) -> SackBlock {
        SackBlock {
            left: self.start.0,
            right: self.end.0,
        }
    }
}

impl<P> Default for Assembler<P> {
    fn default() -> Self {
        Self {
            pieces: VecDeque::new(),
            footprint: 0,
            recent: [Range::default(); SackBlocks::MAX],
            recent_count: 0,
            duplicate: None,
            overtaken: Overtaken::default(),
        }
    }
}

impl<P: Payload> Assembler<P> {
    /// Keeps data that starts at `start`, behind a gap. What is there already stays; a copy is
    /// dropped.
    pub(crate) fn insert(&mut self, start: SeqNumber, mut payload: P) {
        let whole = Range::new(start, start + octets(&payload));
        let mut range = whole;
        let mut index = self
            .pieces
            .partition_point(|piece| piece.range.start <= start);

        // Nearly always `index` is the end: gaps are followed by data in order.
        let before = index
            .checked_sub(1)
            .and_then(|before| self.range_at(before));
        if let Some(before) = before.filter(|before| before.end > range.start) {
            self.note_duplicate(Range::new(range.start, before.end.min(range.end)));
            if before.end >= range.end {
                self.report(whole);
                return;
            }
            payload.trim_front((before.end - range.start) as usize);
            range.start = before.end;
        }
        while let Some(after) = self.range_at(index).filter(|after| after.start < range.end) {
            self.note_duplicate(Range::new(after.start, after.end.min(range.end)));
            if after.end <= range.end {
                let covered = self.pieces.remove(index);
                self.forget_footprint(covered.as_ref());
            } else {
                range.end = after.start;
                payload.truncate((range.end - range.start) as usize);
            }
        }
        if range.start < range.end {
            self.footprint = self.footprint.saturating_add(payload.footprint());
            // `index` cannot have become greater than the length.
            index = index.min(self.pieces.len());
            self.pieces.insert(index, Piece { range, payload });
        }
        self.report(whole);
    }

    /// Takes the first piece out if it no longer lies behind a gap, without what is before
    /// `rcv_nxt`.
    #[inline]
    pub(crate) fn pop_at(&mut self, rcv_nxt: SeqNumber) -> Option<P> {
        loop {
            let first = self.pieces.front()?;
            if first.range.start > rcv_nxt {
                return None;
            }
            let mut piece = self.pieces.pop_front()?;
            self.forget_footprint(Some(&piece));
            if self.pieces.is_empty() {
                self.pieces = VecDeque::new();
            }
            if piece.range.start < rcv_nxt {
                self.note_duplicate(Range::new(piece.range.start, piece.range.end.min(rcv_nxt)));
            }
            if piece.range.end > rcv_nxt {
                piece
                    .payload
                    .trim_front((rcv_nxt - piece.range.start) as usize);
                return Some(piece.payload);
            }
        }
    }

    /// Lets pieces share memory with those that they follow on, until at most `footprint` octets
    /// are in use (`tcp_collapse_ofo_queue`).
    pub(crate) fn collapse(&mut self, footprint: usize) {
        let Some(mut last) = self.pieces.pop_front() else {
            return;
        };
        for _ in 0..self.pieces.len() {
            let Some(next) = self.pieces.pop_front() else {
                break;
            };
            if self.footprint > footprint
                && last.range.end == next.range.start
                && last.payload.try_append(next.payload.as_ref())
            {
                last.range.end = next.range.end;
                self.forget_footprint(Some(&next));
            } else {
                self.pieces.push_back(core::mem::replace(&mut last, next));
            }
        }
        self.pieces.push_back(last);
    }

    /// Drops the pieces furthest from being readable until `footprint` octets of memory are left
    /// (`tcp_prune_ofo_queue`). RFC 2018 §8 allows to forget what was reported, as a last resort,
    /// and asks not to report it any more.
    pub(crate) fn prune(&mut self, footprint: usize) {
        let mut has_dropped = false;
        while self.footprint > footprint
            && let Some(piece) = self.pieces.pop_back()
        {
            self.forget_footprint(Some(&piece));
            has_dropped = true;
        }
        if !has_dropped {
            return;
        }
        match self.end() {
            Some(end) => {
                for range in &mut self.recent {
                    range.end = range.end.min(end);
                }
                self.retain_recent(|range| range.start < end);
            }
            None => {
                self.pieces = VecDeque::new();
                self.recent_count = 0;
            }
        }
    }

    /// `RCV.NXT` advanced: ranges below it are acknowledged otherwise.
    pub(crate) fn on_advance(&mut self, rcv_nxt: SeqNumber) {
        if self.recent_count > 0 {
            self.retain_recent(|range| range.end > rcv_nxt);
        }
    }

    /// `range` has arrived: an acknowledgement is to say so.
    pub(crate) fn report(&mut self, range: Range) {
        let mut merged = range;
        // A range may close the gap between two.
        loop {
            let before = merged;
            let ranges = self.recent;
            let count = usize::from(self.recent_count);
            for known in ranges.iter().take(count) {
                if known.touches(&merged) {
                    merged = merged.union(*known);
                }
            }
            if merged == before {
                break;
            }
        }
        self.retain_recent(|known| !known.touches(&merged));
        self.recent.rotate_right(1);
        if let Some(first) = self.recent.first_mut() {
            *first = merged;
        }
        self.recent_count = self.recent_count.saturating_add(1).min(MAX_RECENT);
    }

    fn retain_recent(&mut self, mut keep: impl FnMut(&Range) -> bool) {
        let ranges = self.recent;
        let mut kept: u8 = 0;
        for range in ranges.iter().take(usize::from(self.recent_count)) {
            if keep(range)
                && let Some(slot) = self.recent.get_mut(usize::from(kept))
            {
                *slot = *range;
                kept = kept.saturating_add(1);
            }
        }
        self.recent_count = kept;
    }

    /// RFC 2883 §4: remembers octets that came twice; the first such range since the last
    /// acknowledgement is reported.
    pub(crate) fn note_duplicate(&mut self, range: Range) {
        self.duplicate = Some(match self.duplicate {
            Some(known) if known.touches(&range) => known.union(range),
            Some(known) => known,
            None => range,
        });
    }

    /// The blocks of the next acknowledgement, at most `max`: a duplicate first (RFC 2883 §4), and
    /// only once.
    pub(crate) fn take_blocks(&mut self, max: usize, with_duplicate: bool) -> SackBlocks {
        let duplicate = self.duplicate.take().filter(|_| with_duplicate);
        duplicate
            .into_iter()
            .chain(self.recent.into_iter().take(usize::from(self.recent_count)))
            .take(max)
            .map(Range::block)
            .collect()
    }

    /// Whether an acknowledgement has blocks to carry.
    #[inline]
    pub(crate) fn has_blocks(&self) -> bool {
        self.recent_count > 0 || self.duplicate.is_some()
    }

    /// How many they are.
    #[inline]
    pub(crate) fn block_count(&self) -> u32 {
        u32::from(self.recent_count).saturating_add(u32::from(self.duplicate.is_some()))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The highest sequence number that has arrived, and one.
    pub(crate) fn end(&self) -> Option<SeqNumber> {
        self.pieces.back().map(|piece| piece.range.end)
    }

    /// Octets of memory that the handles keep from other use.
    #[inline]
    pub(crate) fn footprint(&self) -> usize {
        self.footprint
    }

    fn range_at(&self, index: usize) -> Option<Range> {
        self.pieces.get(index).map(|piece| piece.range)
    }

    fn forget_footprint(&mut self, piece: Option<&Piece<P>>) {
        let freed = piece.map_or(0, |piece| piece.payload.footprint());
        self.footprint = self.footprint.saturating_sub(freed);
    }

    pub(crate) fn check_invariants(&self, rcv_nxt: SeqNumber) {
        let mut end = rcv_nxt;
        for piece in &self.pieces {
            assert!(piece.range.start >= end, "pieces overlap or are readable");
            assert_eq!(piece.range.end - piece.range.start, octets(&piece.payload));
            end = piece.range.end;
        }
        assert!(!self.pieces.is_empty() || self.footprint == 0);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "4")]
const MAX_RECENT: u8 = SackBlocks::MAX as u8;

/// A segment's payload is at most 65535 octets.
fn octets<P: Payload>(payload: &P) -> u32 {
    u32::try_from(payload.as_ref().len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
