//! Data in order, until the application reads it.

use std::collections::VecDeque;

use crate::Payload;

/// Handles of received data in the order of the stream.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveQueue<P> {
    payloads: VecDeque<P>,
    /// The window bounds both.
    len: u32,
    footprint: u32,
}

impl<P> Default for ReceiveQueue<P> {
    fn default() -> Self {
        Self {
            payloads: VecDeque::new(),
            len: 0,
            footprint: 0,
        }
    }
}

impl<P: Payload> ReceiveQueue<P> {
    /// Appends data. With `is_compacting` it is copied behind what is there already, if that has the room.
    #[inline]
    pub(crate) fn push(&mut self, payload: P, is_compacting: bool) {
        self.len = self.len.saturating_add(octets(payload.as_ref().len()));
        if is_compacting
            && let Some(last) = self.payloads.back_mut()
            && last.try_append(payload.as_ref())
        {
            return;
        }
        self.footprint = self.footprint.saturating_add(octets(payload.footprint()));
        self.payloads.push_back(payload);
    }

    /// Takes the first handle out.
    pub(crate) fn pop(&mut self) -> Option<P> {
        let payload = self.payloads.pop_front()?;
        self.len = self.len.saturating_sub(octets(payload.as_ref().len()));
        self.footprint = self.footprint.saturating_sub(octets(payload.footprint()));
        self.release_if_empty();
        Some(payload)
    }

    /// Moves octets into `buffer`, as many as there are and fit; returns how many.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let mut unfilled = buffer;
        let mut count: usize = 0;
        while let Some(first) = self.payloads.front_mut() {
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
            self.drop_first();
            if unfilled.is_empty() {
                break;
            }
        }
        self.len = self.len.saturating_sub(octets(count));
        self.release_if_empty();
        count
    }

    /// Forgets the first `count` octets.
    pub(crate) fn skip(&mut self, mut count: usize) {
        count = count.min(self.len());
        self.len = self.len.saturating_sub(octets(count));
        while count > 0
            && let Some(first) = self.payloads.front_mut()
        {
            let len = first.as_ref().len();
            if len > count {
                first.trim_front(count);
                break;
            }
            count = count.saturating_sub(len);
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(payload) = self.payloads.pop_front() {
            self.footprint = self.footprint.saturating_sub(octets(payload.footprint()));
        }
    }

    /// A connection that once had a burst shall not keep the list of its handles.
    fn release_if_empty(&mut self) {
        if self.payloads.is_empty() && self.payloads.capacity() > KEPT_CAPACITY {
            self.payloads = VecDeque::new();
        }
    }

    /// Gives the list's memory back if it is empty.
    pub(crate) fn shrink(&mut self) {
        if self.payloads.is_empty() {
            self.payloads = VecDeque::new();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The data in pieces.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.payloads.iter().map(AsRef::as_ref)
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
    }
}

/// Lengths are those of segments and windows.
fn octets(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Handles whose list is not worth giving back.
const KEPT_CAPACITY: usize = 64;
