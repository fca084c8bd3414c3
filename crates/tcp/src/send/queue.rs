//! What the application wrote, until it is acknowledged.

use std::collections::VecDeque;

use crate::SeqNumber;
use crate::connection::layout;

/// Octets from [`start`](Self::start) on, in a ring that grows with use.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct SendQueue {
    ring: VecDeque<u8>,
    pub(super) start: SeqNumber,
    /// What start and length of the ring say, too; received segments ask for nothing else.
    end: SeqNumber,
}

impl SendQueue {
    pub(crate) fn new(start: SeqNumber) -> Self {
        Self {
            ring: VecDeque::new(),
            start,
            end: start,
        }
    }

    /// Appends; the caller has limited the length.
    #[inline]
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.ring.extend(data);
        self.end += u32::try_from(data.len()).unwrap_or(u32::MAX);
    }

    /// Forgets what is before `seq`, which is acknowledged.
    #[inline]
    pub(crate) fn advance(&mut self, seq: SeqNumber) {
        let count = usize::try_from(seq.distance_from(self.start)).unwrap_or(0);
        let count = count.min(self.ring.len());
        self.ring.drain(..count);
        self.start += u32::try_from(count).unwrap_or(0);
    }

    /// Gives the memory back if nothing is queued.
    pub(crate) fn shrink(&mut self) {
        if self.ring.is_empty() {
            self.ring = VecDeque::new();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.ring = VecDeque::new();
        self.end = self.start;
    }

    /// `len` octets from `seq` on, as far as they exist, in up to two pieces.
    #[inline]
    pub(crate) fn slices(&self, seq: SeqNumber, len: u32) -> [&[u8]; 2] {
        let from = usize::try_from(seq.distance_from(self.start)).unwrap_or(usize::MAX);
        let to = from.saturating_add(len as usize);
        let (first, second) = self.ring.as_slices();
        let split = first.len();
        let part = |slice: &'_ [u8], from: usize, to: usize| {
            let to = to.min(slice.len());
            from.min(to)..to
        };
        let first_range = part(first, from, to);
        let second_range = part(second, from.saturating_sub(split), to.saturating_sub(split));
        [
            first.get(first_range).unwrap_or_default(),
            second.get(second_range).unwrap_or_default(),
        ]
    }

    /// Where the first octet is and where the next one goes, as addresses to prefetch.
    #[inline]
    pub(crate) fn lines(&self) -> [*const u8; 2] {
        layout::ends(&self.ring)
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
        assert_eq!(self.len(), self.ring.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_the_ring_across_its_end() {
        let mut queue = SendQueue::new(SeqNumber(u32::MAX - 9));
        let data: Vec<u8> = (0..=255).collect();
        let mut next: usize = 0;
        for round in 0..100u32 {
            queue.push(&data[..100]);
            for len in [0, 1, 37, 100, 500] {
                let [first, second] = queue.slices(queue.start() + 3, len);
                let expected = 97.min(len as usize);
                assert_eq!(first.len() + second.len(), expected, "{round}");
                assert_eq!([first, second].concat(), &data[3..3 + expected]);
            }
            queue.advance(queue.end());
            next += 100;
        }
        assert_eq!(
            queue.start(),
            SeqNumber(u32::MAX - 9) + u32::try_from(next).unwrap()
        );
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn slices_outside_of_the_queue_are_empty() {
        let mut queue = SendQueue::new(SeqNumber(100));
        queue.push(b"abc");
        assert_eq!(queue.slices(SeqNumber(99), 5), [b"", b""]);
        assert_eq!(queue.slices(SeqNumber(103), 5), [b"", b""]);
        assert_eq!(queue.slices(SeqNumber(102), 5), [&b"c"[..], b""]);
    }
}
