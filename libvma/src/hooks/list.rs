//! Lists of the program's that a call reads and writes.

use std::slice;

/// Lets `use_list` have the `count` entries at `start` for as long as it runs. The kernel takes
/// lists at any address; one that is not aligned is copied, and written back. A thread that is
/// cancelled meanwhile leaves the copy behind.
///
/// # Safety
/// The entries must be readable and writable, and the program's own.
#[inline]
pub(super) unsafe fn with_list<T: Copy, R>(
    start: *mut T,
    count: usize,
    use_list: impl FnOnce(&mut [T]) -> R,
) -> R {
    if start.is_aligned() {
        // SAFETY: aligned (checked above), the rest is the caller's promise.
        return use_list(unsafe { slice::from_raw_parts_mut(start, count) });
    }
    // SAFETY: the caller's promise.
    unsafe { with_copy(start, count, use_list) }
}

/// # Safety
/// That of [`with_list`].
#[cold]
unsafe fn with_copy<T: Copy, R>(
    start: *mut T,
    count: usize,
    use_list: impl FnOnce(&mut [T]) -> R,
) -> R {
    // SAFETY: the caller's promise.
    let entry = |index| unsafe { start.wrapping_add(index).read_unaligned() };
    let mut copy: Vec<T> = (0..count).map(entry).collect();
    let result = use_list(&mut copy);
    for (index, entry) in copy.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { start.wrapping_add(index).write_unaligned(entry) };
    }
    result
}
