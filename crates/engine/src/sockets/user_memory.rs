//! Whether pointers of the program lead to memory that it may use. A system call answers `EFAULT` if not; a library would crash.
//!
//! The kernel is asked a page at a time, by calls that do nothing else and that every program makes, and the answer is remembered for
//! some thousand pages: programs use the same buffers again and again, so asking costs nothing after the first time. What is
//! remembered is not forgotten when the program unmaps the page: a buffer that was good in one call and is gone in the next
//! crashes the program.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;

const PAGE_BITS: u32 = 12;
const PAGE_BYTES: usize = 1 << PAGE_BITS;
/// Pages that are remembered: buffers of some pages for each of some hundred connections.
const PLACES: usize = 4096;

/// Pages that were good, each in one of two places: its number plus one, and whether it is writable in the lowest bit. With one place
/// each, a buffer and a stack that fall on the same would be asked for in every call.
static KNOWN: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];

/// Neighbours are in neighbouring places.
fn first_place(page: usize) -> usize {
    page % PLACES
}

/// Another than the first; pages that have that in common mostly have not this one.
fn second_place(page: usize) -> usize {
    let hash = ((page / PLACES) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    (first_place(page) ^ (hash as usize | 1)) % PLACES
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
    let Some(more) = len.checked_sub(1) else {
        return true;
    };
    let Some(last) = start.checked_add(more) else {
        return false;
    };
    let (first, last) = (start >> PAGE_BITS, last >> PAGE_BITS);
    is_page_good(first, writable)
        && (first == last || (first + 1..=last).all(|page| is_page_good(page, writable)))
}

#[inline]
fn is_page_good(page: usize, writable: bool) -> bool {
    is_known_at(first_place(page), page, writable) || ask(page, writable)
}

#[inline]
fn is_known_at(place: usize, page: usize, writable: bool) -> bool {
    let known = KNOWN[place].load(Ordering::Relaxed);
    known >> 1 == page + 1 && (known & 1 == 1 || !writable)
}

#[cold]
fn ask(page: usize, writable: bool) -> bool {
    if is_known_at(second_place(page), page, writable) {
        return true;
    }
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

/// Whoever was in its place moves; of what several threads remember at once something may be forgotten.
fn remember(page: usize, writable: bool) {
    let known = (page + 1) << 1 | usize::from(writable);
    let before = KNOWN[first_place(page)].swap(known, Ordering::Relaxed);
    if let Some(other) = (before >> 1).checked_sub(1)
        && other != page
    {
        KNOWN[second_place(other)].store(before, Ordering::Relaxed);
    }
}

/// How many of `count` entries of `size` bytes from `start` on may be written, at least as far as pages tell.
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

    /// Four pages: writable, read-only, none, writable.
    fn pages() -> *mut u8 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
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

    /// One page each of what lies as far apart as a stack and buffers do.
    #[test]
    fn pages_with_the_same_first_place_have_others() {
        for page in [1, 4095, 4096, 0x7_ffff_f000_usize] {
            let others = (1..2000).map(|distance| page + distance * PLACES);
            let others = others.filter(|other| first_place(*other) == first_place(page));
            let same = others
                .filter(|other| second_place(*other) == second_place(page))
                .count();
            assert!(same < 5, "{page:#x}: {same}");
        }
    }

    #[test]
    fn a_page_that_moves_is_still_known() {
        let pages = [(3 << 40) + 77, (3 << 40) + 77 + PLACES];
        KNOWN[first_place(pages[0])].store((pages[0] + 1) << 1 | 1, Ordering::Relaxed);
        remember(pages[1], true);
        for page in pages {
            let places = [first_place(page), second_place(page)];
            assert!(places.iter().any(|place| is_known_at(*place, page, true)));
        }
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
