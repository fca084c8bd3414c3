//! Control data (cmsg(3)) in the application's messages, written and read as the kernel does it
//! (`put_cmsg`, net/core/scm.c).

use libc::c_int;

use crate::sockets::user_memory::{is_readable, is_writable};

/// `struct cmsghdr`
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
/// The largest item that is written here: `SO_TIMESTAMPING`, three times.
const DATA_BYTES_MAX: usize = 48;
/// More than any control data that is understood here.
const CONTROL_BYTES_MAX: usize = 256;

const _: () = assert!(HEADER_BYTES == 16);

/// Where the items of a received datagram go.
#[derive(Debug)]
pub(crate) struct ControlRoom {
    next: *mut u8,
    left: usize,
    /// Bytes that the application is told of.
    pub(crate) used: usize,
    /// Something did not fit.
    pub(crate) is_cut: bool,
}

impl ControlRoom {
    /// # Safety
    /// What the memory holds must be the application's.
    pub(crate) unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self {
            next: start,
            left: len,
            used: 0,
            is_cut: false,
        }
    }

    /// Writes an item, or as much of it as there is room for.
    pub(crate) fn put(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        debug_assert!(data.len() <= DATA_BYTES_MAX);
        if self.next.is_null() || self.left < HEADER_BYTES {
            self.is_cut = true;
            return;
        }
        let mut item = [0; HEADER_BYTES + DATA_BYTES_MAX];
        let whole = HEADER_BYTES + data.len();
        let len = whole.min(self.left);
        self.is_cut |= len < whole;
        item[..8].copy_from_slice(&len.to_ne_bytes());
        item[8..12].copy_from_slice(&level.to_ne_bytes());
        item[12..16].copy_from_slice(&kind.to_ne_bytes());
        item[HEADER_BYTES..whole].copy_from_slice(data);
        if !is_writable(self.next, len) {
            // The kernel goes on without it, too.
            return;
        }
        // SAFETY: writable for `len` bytes (checked above), the application's (contract of `new`),
        // and `item` is not.
        unsafe { std::ptr::copy_nonoverlapping(item.as_ptr(), self.next, len) };
        let space = aligned(whole).min(self.left);
        self.next = self.next.wrapping_add(space);
        self.left -= space;
        self.used += space;
    }
}

/// A copy of what a send call carries.
#[derive(Debug)]
pub(crate) struct ControlCopy {
    bytes: [u8; CONTROL_BYTES_MAX],
    len: usize,
}

/// One item of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) level: c_int,
    pub(crate) kind: c_int,
    pub(crate) data: &'a [u8],
}

impl ControlCopy {
    /// `None`: not readable, or more than is understood here.
    ///
    /// # Safety
    /// What the memory holds must be the application's.
    pub(crate) unsafe fn of(start: *const u8, len: usize) -> Option<Self> {
        if len > CONTROL_BYTES_MAX || !is_readable(start, len) {
            return None;
        }
        let mut bytes = [0; CONTROL_BYTES_MAX];
        // SAFETY: readable for `len` bytes (checked above), which there is room for.
        unsafe { std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), len) };
        Some(Self { bytes, len })
    }

    /// Where the data of an item of four bytes lies, and what it is.
    pub(crate) fn find(&self, level: c_int, kind: c_int) -> Option<(usize, [u8; 4])> {
        let is_it = |item: &Item<'_>| item.level == level && item.kind == kind;
        let item = self.items().flatten().find(is_it)?;
        let at = item.data.as_ptr().addr() - self.bytes.as_ptr().addr();
        Some((at, item.data.try_into().ok()?))
    }

    /// The items (`for_each_cmsghdr`). `Err`: one that the kernel refuses.
    pub(crate) fn items(&self) -> impl Iterator<Item = Result<Item<'_>, ()>> {
        let mut rest = &self.bytes[..self.len];
        std::iter::from_fn(move || {
            let header = rest.first_chunk::<HEADER_BYTES>()?;
            let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
            let (level, kind) = (
                c_int::from_ne_bytes(word(8)),
                c_int::from_ne_bytes(word(12)),
            );
            let [a, b, c, d, e, f, g, h, ..] = *header;
            let len = usize::from_ne_bytes([a, b, c, d, e, f, g, h]);
            let Some(data) = rest.get(HEADER_BYTES..len) else {
                rest = &[];
                return Some(Err(()));
            };
            rest = rest.get(aligned(len)..).unwrap_or_default();
            Some(Ok(Item { level, kind, data }))
        })
    }
}

/// `CMSG_ALIGN`
const fn aligned(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(room: usize, items: &[&[u8]]) -> (Vec<u8>, usize, bool) {
        let mut memory = vec![0xee; room];
        // SAFETY: the memory is the test's.
        let mut control = unsafe { ControlRoom::new(memory.as_mut_ptr(), room) };
        for data in items {
            control.put(1, 2, data);
        }
        (memory, control.used, control.is_cut)
    }

    #[test]
    fn items_are_aligned_and_cut() {
        let (memory, used, is_cut) = put(64, &[&[1], &[2; 4]]);
        assert_eq!((used, is_cut), (48, false));
        assert_eq!(memory[..8], 17_usize.to_ne_bytes());
        assert_eq!(
            memory[16..24],
            [1, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee]
        );
        assert_eq!(memory[24..32], 20_usize.to_ne_bytes());
        // The length that is told of is that of what fitted.
        let (memory, used, is_cut) = put(18, &[&[1; 4]]);
        assert_eq!((used, is_cut), (18, true));
        assert_eq!(memory[..8], 18_usize.to_ne_bytes());
        assert_eq!(put(15, &[&[1]]).1, 0);
        // Room for an item without its padding.
        assert_eq!(put(17, &[&[1], &[1]]), (put(17, &[&[1]]).0, 17, true));
        assert_eq!(put(0, &[]), (Vec::new(), 0, false));
    }

    #[test]
    fn what_was_written_can_be_read() {
        let (memory, used, _) = put(64, &[&[1], &[2; 4]]);
        // SAFETY: the memory is the test's.
        let copy = unsafe { ControlCopy::of(memory.as_ptr(), used) }.unwrap();
        let item = |data| {
            Ok(Item {
                level: 1,
                kind: 2,
                data,
            })
        };
        assert!(copy.items().eq([item(&[1]), item(&[2; 4])]));
        assert_eq!(copy.find(1, 3), None);
        for wrong in [0_usize, 15, 49] {
            let mut memory = memory.clone();
            memory[..8].copy_from_slice(&wrong.to_ne_bytes());
            // SAFETY: the memory is the test's.
            let copy = unsafe { ControlCopy::of(memory.as_ptr(), used) }.unwrap();
            assert!(copy.items().eq([Err(())]), "{wrong}");
        }
        // SAFETY: nothing is read.
        assert!(unsafe { ControlCopy::of(memory.as_ptr(), 257) }.is_none());
    }
}
