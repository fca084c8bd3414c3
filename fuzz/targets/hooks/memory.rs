//! The application's memory, good and bad.

use std::ptr;

use crate::input::Input;

const PAGE: usize = 4096;
/// As many as a list has room for before it runs into unmapped memory.
pub const PARTS_MAX: usize = 16;
/// More than a datagram can carry.
const GOOD_PAGES: usize = 32;

/// Good pages, one that is not there, a read-only one, a good one, one for lists, one that is not
/// there. What a page is never changes: the library remembers good ones.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    start: *mut u8,
}

impl Memory {
    pub fn new() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let pages = GOOD_PAGES + 5;
        // The same address in each run. What is beyond a large length there is no different from
        // what is beyond it elsewhere.
        let hint = ptr::without_provenance_mut(1 << 44);
        // SAFETY: a hint alone: an anonymous mapping that touches no existing memory.
        let start = unsafe { libc::mmap(hint, pages * PAGE, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let memory = Self {
            start: start.cast(),
        };
        for (page, access) in [
            (GOOD_PAGES, libc::PROT_NONE),
            (GOOD_PAGES + 1, libc::PROT_READ),
            (GOOD_PAGES + 4, libc::PROT_NONE),
        ] {
            // SAFETY: the page is one of the mapping above, which nobody uses yet.
            assert_eq!(
                unsafe { libc::mprotect(memory.page(page).cast(), PAGE, access) },
                0
            );
        }
        memory
    }

    fn page(self, index: usize) -> *mut u8 {
        self.start.wrapping_add(index * PAGE)
    }

    /// A pointer of any kind.
    pub fn pointer(self, input: &mut Input<'_>) -> *mut u8 {
        let (kind, offset) = (input.byte(), usize::from(input.short()));
        match kind % 16 {
            0 => ptr::null_mut(),
            1 => ptr::without_provenance_mut(offset),
            // Not there, and before it the end of what is.
            2 => self.page(GOOD_PAGES).wrapping_add(offset % PAGE),
            3 | 4 => self.page(GOOD_PAGES).wrapping_sub(offset % 64),
            // The end of what may be read only.
            5 => self.page(GOOD_PAGES + 1).wrapping_add(offset % PAGE),
            6 => self.page(GOOD_PAGES + 2).wrapping_sub(offset % 64),
            7 => ptr::without_provenance_mut(usize::MAX - offset),
            8 => ptr::without_provenance_mut((1 << 63) | offset),
            _ => self.start.wrapping_add(offset % (2 * PAGE)),
        }
    }

    /// A pointer that the program must not use.
    fn bad_pointer(self, input: &mut Input<'_>) -> *mut u8 {
        match input.byte() % 4 {
            0 => ptr::null_mut(),
            1 => self.page(GOOD_PAGES),
            2 => ptr::without_provenance_mut(usize::MAX - 100),
            _ => ptr::without_provenance_mut(24),
        }
    }

    /// Where a call finds `values`, so that what follows them is not there; aligned or not, or
    /// somewhere bad.
    pub fn place<T: Copy>(self, values: &[T], input: &mut Input<'_>) -> *mut T {
        let choice = input.byte();
        if choice.is_multiple_of(8) {
            return self.bad_pointer(input).cast();
        }
        let unaligned = usize::from(choice % 8 == 1);
        let end = self.page(GOOD_PAGES + 4).wrapping_sub(unaligned);
        let list = end.wrapping_sub(size_of_val(values)).cast::<T>();
        for (index, value) in values.iter().enumerate() {
            // SAFETY: the page of lists is writable, and a list is smaller than it.
            unsafe { list.wrapping_add(index).write_unaligned(*value) };
        }
        list
    }
}

/// Copies what a call has written, `len` bytes in the order of its buffers.
pub fn written(parts: &[libc::iovec], len: usize) -> Vec<u8> {
    let mut data = Vec::new();
    for part in parts {
        let now = part.iov_len.min(len - data.len());
        if now > 0 {
            // SAFETY: a call has just written there.
            data.extend(unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), now) });
        }
    }
    data
}
