//! Data in order, until the application reads it.

use std::collections::VecDeque;

use crate::Payload;

/// Handles of received data in the order of the stream.
///
/// Most connections have at most one unread: that one lies in the connection itself, so that it
/// costs no allocation and no cache line of its own.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct ReceiveQueue<P> {
    #[allow(
        clippy::box_collection,
        reason = "most connections never have one, and it lies amid what every segment touches"
    )]
    rest: Option<Box<VecDeque<P>>>,
    /// Handles in `rest`.
    more: u32,
    /// The window bounds both.
    len: u32,
    footprint: u32,
    /// `SO_RCVLOWAT`, a copy of what the options say. It is no business of the queue's, but four
    /// octets are free here.
    pub(crate) low_water: u32,
    /// Nothing if nothing is queued.
    first: Option<P>,
}

impl<P: Payload> ReceiveQueue<P> {
    pub(crate) fn new(low_water: u32) -> Self {
        Self {
            first: None,
            len: 0,
            footprint: 0,
            low_water,
            more: 0,
            rest: None,
        }
    }

    /// Appends data. With `is_compacting` it is copied behind what is there already, if that has
    /// the room.
    #[inline]
    pub(crate) fn push(&mut self, payload: P, is_compacting: bool) {
        self.len = self.len.saturating_add(octets(payload.as_ref().len()));
        if is_compacting
            && let Some(last) = self.last_mut()
            && last.try_append(payload.as_ref())
        {
            return;
        }
        self.footprint = self.footprint.saturating_add(octets(payload.footprint()));
        if self.first.is_none() {
            self.first = Some(payload);
        } else {
            self.rest.get_or_insert_default().push_back(payload);
            self.more = self.more.saturating_add(1);
        }
    }

    /// Puts data in front of all other.
    pub(crate) fn push_first(&mut self, payload: P) {
        self.len = self.len.saturating_add(octets(payload.as_ref().len()));
        self.footprint = self.footprint.saturating_add(octets(payload.footprint()));
        if let Some(second) = self.first.replace(payload) {
            self.rest.get_or_insert_default().push_front(second);
            self.more = self.more.saturating_add(1);
        }
    }

    /// Lets data share memory with the data before it, until the handles keep at most `footprint`
    /// octets (`tcp_collapse`).
    pub(crate) fn collapse(&mut self, footprint: usize) {
        let Some(rest) = &mut self.rest else {
            return;
        };
        let Some(mut last) = self.first.take() else {
            return;
        };
        for _ in 0..self.more {
            let Some(next) = rest.pop_front() else {
                break;
            };
            if self.footprint as usize > footprint && last.try_append(next.as_ref()) {
                self.footprint = self.footprint.saturating_sub(octets(next.footprint()));
                self.more = self.more.saturating_sub(1);
                continue;
            }
            let whole = core::mem::replace(&mut last, next);
            match &self.first {
                None => self.first = Some(whole),
                Some(_) => rest.push_back(whole),
            }
        }
        match &self.first {
            None => self.first = Some(last),
            Some(_) => rest.push_back(last),
        }
        self.release_if_empty();
    }

    fn last_mut(&mut self) -> Option<&mut P> {
        if self.more == 0 {
            return self.first.as_mut();
        }
        self.rest.as_mut()?.back_mut()
    }

    /// Takes the first handle out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<P> {
        let payload = self.take_first()?;
        self.len = self.len.saturating_sub(octets(payload.as_ref().len()));
        Some(payload)
    }

    /// Takes all handles out.
    pub(crate) fn take_all(&mut self) -> Vec<P> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    /// The first handle, which is replaced by the next; `len` is the caller's.
    #[inline]
    fn take_first(&mut self) -> Option<P> {
        let payload = self.first.take()?;
        self.footprint = self.footprint.saturating_sub(octets(payload.footprint()));
        if self.more > 0 {
            self.first = self.rest.as_mut().and_then(|rest| rest.pop_front());
            self.more = self.more.saturating_sub(1);
            self.release_if_empty();
        }
        Some(payload)
    }

    /// Moves octets into `buffer`, as many as there are and fit; returns how many.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let mut unfilled = buffer;
        let mut count: usize = 0;
        while let Some(first) = &mut self.first {
            let data = first.as_ref();
            let part_len = data.len().min(unfilled.len());
            let (Some((target, rest)), Some(part)) = (
                unfilled.split_at_mut_checked(part_len),
                data.get(..part_len),
            ) else {
                break;
            };
            target.copy_from_slice(part);
            unfilled = rest;
            count = count.saturating_add(part_len);
            if part_len < data.len() {
                first.trim_front(part_len);
                break;
            }
            self.take_first();
            if unfilled.is_empty() {
                break;
            }
        }
        self.len = self.len.saturating_sub(octets(count));
        count
    }

    /// Forgets the first `count` octets.
    pub(crate) fn skip(&mut self, mut count: usize) {
        count = count.min(self.len());
        self.len = self.len.saturating_sub(octets(count));
        while count > 0
            && let Some(first) = &mut self.first
        {
            let len = first.as_ref().len();
            if len > count {
                first.trim_front(count);
                break;
            }
            count = count.saturating_sub(len);
            self.take_first();
        }
    }

    /// A connection that once had a burst shall not keep the list of its handles.
    fn release_if_empty(&mut self) {
        if self.more == 0
            && let Some(rest) = &self.rest
            && rest.capacity() > KEPT_CAPACITY
        {
            self.rest = None;
        }
    }

    /// Gives the list's memory back if it is empty.
    pub(crate) fn shrink(&mut self) {
        if self.more == 0 {
            self.rest = None;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.low_water);
    }

    /// The data in pieces.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let rest = self.rest.iter().flat_map(|rest| rest.iter());
        self.first.iter().chain(rest).map(AsRef::as_ref)
    }

    /// Octets.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Octets of memory that the handles keep from other use.
    #[inline]
    pub(crate) fn footprint(&self) -> usize {
        self.footprint as usize
    }

    pub(crate) fn check_invariants(&self) {
        let len: usize = self.iter().map(<[u8]>::len).sum();
        assert_eq!(self.len(), len);
        assert!(self.iter().all(|piece| !piece.is_empty()));
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len());
        assert_eq!(self.more as usize, rest);
        assert!(self.first.is_some() || self.more == 0);
    }
}

/// Lengths are those of segments and windows.
fn octets(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Handles whose list is not worth giving back.
const KEPT_CAPACITY: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten octets in memory of 32, or of as many as they are.
    fn queue(count: u8, is_roomy: impl Fn(u8) -> bool) -> ReceiveQueue<Vec<u8>> {
        let mut queue = ReceiveQueue::new(1);
        for number in 0..count {
            let mut payload = Vec::with_capacity(if is_roomy(number) { 32 } else { 10 });
            payload.extend([number; 10]);
            queue.push(payload, false);
        }
        queue
    }

    fn lens(queue: &ReceiveQueue<Vec<u8>>) -> Vec<usize> {
        queue.iter().map(<[u8]>::len).collect()
    }

    #[test]
    fn data_shares_memory_until_enough_is_free() {
        for footprint in 0..=330 {
            let mut queue = queue(10, |_| true);
            queue.collapse(footprint);
            queue.check_invariants();
            assert!(queue.footprint() <= footprint.max(4 * 32));
            assert!(queue.footprint() + 32 > footprint.min(10 * 32));
            let mut data = [0; 200];
            assert_eq!(queue.read(&mut data), 100);
            let expected: Vec<u8> = (0..10).flat_map(|number| [number; 10]).collect();
            assert_eq!(data[..100], expected);
        }
    }

    #[test]
    fn data_without_room_behind_it_stays() {
        let mut queue = queue(6, |number| number % 3 == 0);
        queue.collapse(0);
        queue.check_invariants();
        assert_eq!(lens(&queue), [30, 30]);
        assert_eq!(queue.footprint(), 64);
        let mut queue = self::queue(3, |_| false);
        queue.collapse(0);
        queue.check_invariants();
        assert_eq!(lens(&queue), [10, 10, 10]);
    }

    #[test]
    fn nothing_and_a_single_payload_stay_as_they_are() {
        for count in [0, 1] {
            let mut queue = queue(count, |_| true);
            queue.collapse(0);
            queue.check_invariants();
            assert_eq!(queue.len(), usize::from(count) * 10);
        }
    }
}
