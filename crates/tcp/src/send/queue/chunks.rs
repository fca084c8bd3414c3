//! The chunks of a send queue before its last.

use std::collections::VecDeque;

use crate::SeqNumber;

/// In the order of the stream, without gaps, and those that wait to be written to again.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    list: VecDeque<Chunk>,
    /// Empty; the one that was in use last, which may be in a cache, is at the end.
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Chunk {
    octets: Vec<u8>,
    /// The sequence number behind its last octet.
    end: SeqNumber,
}

impl Chunks {
    /// An empty chunk with room for `capacity` octets; for more or less if it was in use before.
    pub(super) fn unused(&mut self, capacity: usize) -> Vec<u8> {
        let spare = self.spare.pop();
        spare.unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// An empty chunk that was in use before.
    pub(super) fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    /// Appends a chunk, which ends before `end`.
    pub(super) fn push(&mut self, octets: Vec<u8>, end: SeqNumber) {
        self.list.push_back(Chunk { octets, end });
    }

    /// Everything before `seq` is acknowledged.
    #[inline]
    pub(super) fn release(&mut self, seq: SeqNumber) {
        while self.list.front().is_some_and(|first| first.end <= seq)
            && let Some(chunk) = self.list.pop_front()
        {
            self.keep(chunk.octets);
        }
    }

    /// Keeps a chunk to be written to again, unless it is one of those that a short queue began
    /// with, or as many are kept as are in use.
    fn keep(&mut self, mut octets: Vec<u8>) {
        if octets.capacity() >= CAPACITY_MAX {
            octets.clear();
            self.spare.push(octets);
        }
        self.spare.truncate(self.list.len().saturating_add(1));
    }

    pub(super) fn drop_spares(&mut self) {
        self.spare = Vec::new();
    }

    /// `len` octets from `seq` on, which is in one of these; they may go on in `last`.
    #[inline]
    pub(super) fn slices<'a>(&'a self, seq: SeqNumber, len: usize, last: &'a [u8]) -> Pieces<'a> {
        let Some(first) = self.list.front() else {
            return Pieces::default();
        };
        // None is longer than that, and mostly only the oldest are shorter: it is the first that is
        // looked at, or one of the next.
        let start = first.end - octets(first.octets.len());
        let mut index = (seq - start) as usize / CAPACITY_MAX;
        let near = index.saturating_add(NEAR);
        if self.list.get(near).is_some_and(|chunk| chunk.end <= seq) {
            index = self.list.partition_point(|chunk| chunk.end <= seq);
        }
        while let Some(chunk) = self.list.get(index) {
            index = index.saturating_add(1);
            if seq < chunk.end {
                let behind = (chunk.end - seq) as usize;
                let offset = chunk.octets.len().saturating_sub(behind);
                let piece = chunk.octets.get(offset..).unwrap_or_default();
                let piece = piece.get(..len).unwrap_or(piece);
                return Pieces {
                    piece,
                    left: len.saturating_sub(piece.len()),
                    chunks: Some((self, last)),
                    next: index,
                };
            }
        }
        Pieces::default()
    }

    /// `start` is the first octet's number; the queue's last chunk begins at `end`.
    pub(super) fn check_invariants(&self, start: SeqNumber, end: SeqNumber) {
        if let Some(first) = self.list.front() {
            assert!(first.end > start, "what is acknowledged is kept");
            assert!(first.end - octets(first.octets.len()) <= start, "a gap");
        }
        let mut before = None;
        for chunk in &self.list {
            assert!(!chunk.octets.is_empty());
            let start = chunk.end - octets(chunk.octets.len());
            assert!(before.is_none_or(|before| before == start), "a gap");
            before = Some(chunk.end);
        }
        assert!(before.is_none_or(|before| before == end), "a gap");
        assert!(self.spare.iter().all(Vec::is_empty));
    }

    /// Octets of memory.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let used = self.list.iter().map(|chunk| chunk.octets.capacity());
        let spare = self.spare.iter().map(Vec::capacity);
        used.chain(spare).sum()
    }
}

/// Octets of the stream, in as many pieces as there are chunks that they lie in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces<'a> {
    /// Nothing at the end.
    piece: &'a [u8],
    /// Octets behind `piece`.
    left: usize,
    /// Where they are: in these chunks from `next` on, and in the queue's last.
    chunks: Option<(&'a Chunks, &'a [u8])>,
    next: usize,
}

impl<'a> Pieces<'a> {
    #[inline]
    pub(super) fn of_one(piece: &'a [u8]) -> Self {
        Self {
            piece,
            ..Self::default()
        }
    }

    fn take_next(&mut self) -> &'a [u8] {
        let Some((chunks, last)) = self.chunks else {
            return &[];
        };
        let chunk = chunks.list.get(self.next);
        let octets = chunk.map_or(last, |chunk| &chunk.octets);
        let piece = octets.get(..self.left).unwrap_or(octets);
        self.next = self.next.saturating_add(1);
        self.left = self.left.saturating_sub(piece.len());
        piece
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.piece.is_empty() {
            return None;
        }
        let next = if self.left > 0 { self.take_next() } else { &[] };
        Some(core::mem::replace(&mut self.piece, next))
    }
}

/// How much can be written to a chunk.
#[inline]
pub(super) fn room(chunk: &Vec<u8>) -> usize {
    chunk.capacity().saturating_sub(chunk.len())
}

/// The capacity of a new chunk for `len` octets behind `queued` others: it grows with the queue, so
/// that little is unused and there are few pieces.
pub(super) fn capacity(len: usize, queued: usize) -> usize {
    len.max(queued.saturating_mul(2))
        .clamp(CAPACITY_MIN, CAPACITY_MAX)
        .next_power_of_two()
}

/// What can be written at once is far less.
pub(super) fn octets(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// So many chunks are looked at one after the other.
const NEAR: usize = 4;

const CAPACITY_MIN: usize = 64;
/// As much as the longest segment that a device cuts.
pub(super) const CAPACITY_MAX: usize = 64 << 10;
