//! What the application wrote, until it is acknowledged.

use crate::SeqNumber;

mod chunks;

use chunks::Chunks;

pub(crate) use chunks::Pieces;

/// What is shorter is copied: a queue of many short chunks would be slow.
pub(crate) const CHUNK_MIN: usize = CHUNK_MAX / 4;
/// The longest chunk that a queue takes as it is.
pub const CHUNK_MAX: usize = chunks::CAPACITY_MAX;

/// Octets from [`start`](Self::start) on, in chunks.
///
/// Each octet is copied once, whatever the queue grows to, and what is acknowledged makes room: a
/// chunk of which nothing is left is written to again, or given back. Most connections have one
/// chunk. It lies beside the numbers, so that it costs nothing but its octets.
///
/// Chunks that somebody else has filled ([`push_chunk`](Self::push_chunk)) are taken as they are,
/// up to a certain length. Older ones need not be memory of the connection: octets that an
/// application lends (`MSG_ZEROCOPY`) would be another kind of them.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct SendQueue {
    /// What is written goes here. If it is the only one, its octets before `start` are
    /// acknowledged.
    last: Vec<u8>,
    /// Those before it.
    older: Option<Box<Chunks>>,
    pub(super) start: SeqNumber,
    end: SeqNumber,
}

impl SendQueue {
    pub(crate) fn new(start: SeqNumber) -> Self {
        Self {
            last: Vec::new(),
            older: None,
            start,
            end: start,
        }
    }

    /// Appends; the caller has limited the length.
    #[inline]
    pub(crate) fn push(&mut self, data: &[u8]) {
        if data.len() <= chunks::room(&self.last) {
            self.append(data);
        } else {
            self.push_into_chunks(data);
        }
    }

    /// To the last chunk, which has room.
    #[inline]
    fn append(&mut self, data: &[u8]) {
        self.last.extend_from_slice(data);
        self.end += chunks::octets(data.len());
    }

    #[inline(never)]
    fn push_into_chunks(&mut self, mut data: &[u8]) {
        let capacity = chunks::capacity(data.len(), self.len());
        if self.len() == 0 && self.last.capacity() < capacity {
            self.last = Vec::with_capacity(capacity);
        }
        loop {
            let room = chunks::room(&self.last);
            let (part, rest) = data.split_at_checked(room).unwrap_or((data, &[]));
            self.append(part);
            if rest.is_empty() {
                return;
            }
            data = rest;
            let capacity = chunks::capacity(data.len(), self.len());
            let older = self.older.get_or_insert_default();
            let next = older.unused(capacity);
            older.push(core::mem::replace(&mut self.last, next), self.end);
        }
    }

    /// Appends the octets of a chunk, which is the queue's from here on: `chunk` becomes what is
    /// empty and not needed.
    pub(crate) fn push_chunk(&mut self, chunk: &mut Vec<u8>) {
        debug_assert!(!chunk.is_empty() && chunk.len() <= CHUNK_MAX);
        let len = chunks::octets(chunk.len());
        let last = core::mem::replace(&mut self.last, core::mem::take(chunk));
        if last.is_empty() {
            *chunk = last;
        } else {
            self.older.get_or_insert_default().push(last, self.end);
        }
        self.end += len;
    }

    /// Empty memory that is not in use, or none.
    pub(crate) fn take_spare(&mut self) -> Vec<u8> {
        let spare = self.older.as_mut().and_then(|older| older.take_spare());
        spare.unwrap_or_default()
    }

    /// Forgets what is before `seq`, which is acknowledged.
    #[inline]
    pub(crate) fn advance(&mut self, seq: SeqNumber) {
        let seq = seq.min(self.end);
        if seq <= self.start {
            return;
        }
        self.start = seq;
        if self.older.is_some() {
            self.release_chunks();
        } else if seq == self.end {
            self.last.clear();
        }
    }

    #[inline(never)]
    fn release_chunks(&mut self) {
        if self.start == self.end {
            self.older = None;
            self.last.clear();
        } else if let Some(older) = &mut self.older {
            older.release(self.start);
        }
    }

    /// Gives memory back that is only kept for speed.
    pub(crate) fn shrink(&mut self) {
        if self.len() == 0 {
            self.clear();
        } else if let Some(older) = &mut self.older {
            older.drop_spares();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.start);
    }

    /// `len` octets from `seq` on, as far as they exist: nothing if the first does not.
    #[inline]
    pub(crate) fn slices(&self, seq: SeqNumber, len: u32) -> Pieces<'_> {
        if seq < self.start || seq >= self.end {
            return Pieces::default();
        }
        let behind = self.end - seq;
        let len = len.min(behind) as usize;
        match (self.last.len().checked_sub(behind as usize), &self.older) {
            (None, Some(older)) => older.slices(seq, len, &self.last),
            (offset, _) => {
                let piece = self.last.get(offset.unwrap_or(0)..).unwrap_or_default();
                Pieces::of_one(piece.get(..len).unwrap_or(piece))
            }
        }
    }

    /// Where the first octet is and where the next one goes, as addresses to prefetch: if there is
    /// one chunk.
    #[inline]
    pub(crate) fn lines(&self) -> [*const u8; 2] {
        let next = self.last.as_ptr_range().end;
        [next.wrapping_sub(self.len().min(self.last.len())), next]
    }

    /// The sequence number of the first octet.
    #[inline]
    pub(crate) fn start(&self) -> SeqNumber {
        self.start
    }

    /// The sequence number behind the last octet.
    #[inline]
    pub(crate) fn end(&self) -> SeqNumber {
        self.end
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    pub(crate) fn check_invariants(&self) {
        match &self.older {
            Some(older) => {
                let last_start = self.end - chunks::octets(self.last.len());
                older.check_invariants(self.start, last_start);
            }
            None => assert!(self.len() <= self.last.len()),
        }
        assert!(self.len() > 0 || self.last.is_empty());
    }
}

#[cfg(test)]
mod tests;
