//! Whether pointers of the program lead to memory that it may use. A system call answers `EFAULT`
//! if not; a library would crash.
//!
//! The kernel is asked a page at a time, by calls that do nothing else and that every program
//! makes, and the answer is remembered for some thousand pages: programs use the same buffers again
//! and again, so asking costs nothing after the first time. What is remembered is not forgotten
//! when the program unmaps the page: a buffer that was good in one call and is gone in the next
//! crashes the program.

use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE_BITS: u32 = 12;
const PAGE_BYTES: usize = 1 << PAGE_BITS;
/// So many sets of so many pages are remembered: buffers of some pages for each of some thousand
/// threads.
const SETS: usize = 1 << SET_BITS;
const SET_BITS: u32 = 12;
const WAYS: usize = 4;

/// Pages that were good, the last first: their number plus one, and whether it is writable in the
/// lowest bit.
#[repr(align(32))]
struct Set([AtomicUsize; WAYS]);

static KNOWN: [Set; SETS] = [const { Set([const { AtomicUsize::new(0) }; WAYS]) }; SETS];

/// Where a page is remembered. The threads' stacks, and the C library's heaps for them, lie a power
/// of two apart: their pages differ in high bits alone, all of which count here.
#[inline]
fn set_of(page: usize) -> &'static Set {
    /// 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, 6.4).
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let hash = (page as u64).wrapping_mul(MULTIPLIER) >> (u64::BITS - SET_BITS);
    &KNOWN[hash as usize % SETS]
}

/// The same page may stand there twice, and one of two that come at once be lost: it is asked for
/// again.
fn remember(page: usize, writable: bool) {
    let Set(ways) = set_of(page);
    let mut known = (page + 1) << 1 | usize::from(writable);
    for way in ways {
        known = way.swap(known, Ordering::Relaxed);
        if known >> 1 == page + 1 {
            return;
        }
    }
}

/// Whether the program may read `len` bytes from `start` on.
#[inline]
pub fn is_readable<T>(start: *const T, len: usize) -> bool {
    is_good(start.addr(), len, false)
}

/// Whether the program may write `len` bytes from `start` on. Nothing is changed there.
#[inline]
pub fn is_writable<T>(start: *const T, len: usize) -> bool {
    is_good(start.addr(), len, true)
}

#[inline]
fn is_good(start: usize, len: usize, writable: bool) -> bool {
    let page = start >> PAGE_BITS;
    // Mostly it lies in one page, which is known.
    let left_in_page = PAGE_BYTES - start % PAGE_BYTES;
    (len <= left_in_page && is_known(page, writable)) || are_pages_good(start, len, writable)
}

#[inline(never)]
fn are_pages_good(start: usize, len: usize, writable: bool) -> bool {
    let Some(more) = len.checked_sub(1) else {
        return true;
    };
    let Some(last) = start.checked_add(more) else {
        return false;
    };
    let (first, last) = (start >> PAGE_BITS, last >> PAGE_BITS);
    (first..=last).all(|page| is_page_good(page, writable))
}

#[inline]
fn is_page_good(page: usize, writable: bool) -> bool {
    is_known(page, writable) || ask(page, writable)
}

#[inline]
fn is_known(page: usize, writable: bool) -> bool {
    let Set(ways) = set_of(page);
    // Who only reads does not care for the lowest bit.
    let any_way = usize::from(!writable);
    let wanted = (page + 1) << 1 | 1;
    ways.iter()
        .any(|way| way.load(Ordering::Relaxed) | any_way == wanted)
}

#[cold]
fn ask(page: usize, writable: bool) -> bool {
    // A null pointer would ask the kernel for nothing.
    let start = (page << PAGE_BITS).max(size_of::<u64>());
    let is_good = if writable {
        sys::can_write(start)
    } else {
        sys::can_read(start)
    };
    if is_good {
        remember(page, writable);
    }
    is_good
}

/// How many of `count` entries of `size` bytes from `start` on may be written, at least as far as
/// pages tell.
pub fn writable_entries<T>(start: *const T, count: usize) -> usize {
    let size = size_of::<T>().max(1);
    let end = start.addr().saturating_add(count.saturating_mul(size));
    let mut good = start.addr();
    while good < end && is_page_good(good >> PAGE_BITS, true) {
        good = (good | (PAGE_BYTES - 1)).saturating_add(1);
    }
    (good.min(end) - start.addr()) / size
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages at the beginning of each of 300 heaps, 64 MiB apart, as glibc's arenas are.
    #[test]
    fn pages_of_many_threads_are_remembered_side_by_side() {
        let pages = || {
            (0..300).flat_map(|heap| (0..3).map(move |page| 0x7_0000_0000 + (heap << 14) + page))
        };
        pages().for_each(|page| remember(page, true));
        let forgotten = pages().filter(|page| !is_known(*page, true)).count();
        assert_eq!(forgotten, 0);
        assert!(!is_known(0x6_0000_0000, false));
    }

    #[test]
    fn a_page_that_becomes_writable_stands_once() {
        let page = 0x5_0000_0000;
        remember(page, false);
        assert!(is_known(page, false) && !is_known(page, true));
        remember(page, true);
        assert!(is_known(page, false) && is_known(page, true));
        let stands = |way: &&AtomicUsize| way.load(Ordering::Relaxed) >> 1 == page + 1;
        assert_eq!(set_of(page).0.iter().filter(stands).count(), 1);
    }

    /// Four pages: writable, read-only, none, writable.
    fn pages() -> *mut u8 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing
        // memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), 4 * PAGE_BYTES, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let start = start.cast::<u8>();
        let page = |index: usize| start.wrapping_add(index * PAGE_BYTES).cast();
        // SAFETY: the page is one of the mapping made above, which nobody uses.
        let protected = unsafe { libc::mprotect(page(1), PAGE_BYTES, libc::PROT_READ) };
        // SAFETY: as above.
        let unmapped = unsafe { libc::munmap(page(2), PAGE_BYTES) };
        assert_eq!((protected, unmapped), (0, 0));
        start
    }

    #[test]
    fn pages_are_as_the_kernel_says() {
        let start = pages();
        // SAFETY: the first page is mapped.
        unsafe { start.write(7) };
        for _ in 0..2 {
            let at = |offset: usize| start.wrapping_add(offset);
            assert!(is_readable(start, PAGE_BYTES) && is_writable(start, PAGE_BYTES));
            assert!(is_readable(start, 2 * PAGE_BYTES) && !is_writable(start, PAGE_BYTES + 1));
            assert!(!is_readable(start, 2 * PAGE_BYTES + 1));
            assert!(is_readable(at(2 * PAGE_BYTES - 1), 1) && !is_readable(at(2 * PAGE_BYTES), 1));
            assert!(is_writable(at(3 * PAGE_BYTES), 1));
            assert!(!is_readable(start, 4 * PAGE_BYTES));
            assert_eq!(
                writable_entries(at(8).cast::<u64>(), 5000),
                PAGE_BYTES / 8 - 1
            );
            assert_eq!(writable_entries(at(8).cast::<u64>(), 5), 5);
            assert_eq!(writable_entries(at(PAGE_BYTES).cast::<u64>(), 5), 0);
        }
        // SAFETY: as above.
        assert_eq!(unsafe { start.read() }, 7, "asking changes nothing");
    }

    #[test]
    fn no_pointer_is_too_odd() {
        for address in [
            0,
            1,
            4095,
            usize::MAX,
            usize::MAX - 4096,
            1 << 63,
            1 << 47,
            usize::MAX >> 1,
        ] {
            let pointer = std::ptr::without_provenance::<u8>(address);
            for len in [1, 4096, usize::MAX] {
                assert!(
                    !is_readable(pointer, len) && !is_writable(pointer, len),
                    "{address:#x}"
                );
            }
            assert!(is_readable(pointer, 0));
        }
    }
}
