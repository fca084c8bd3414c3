//! The library's own descriptors in the program's table: what `close(2)` and `close_range(2)` must leave alone, and what a forked
//! child has to close so that an interface's packets stay with the parent.

use std::sync::atomic::{AtomicU8, Ordering};

use descriptors::DescriptorTable;
use libc::c_int;

use crate::sys;

/// Not the library's.
const NONE: u8 = 0;
/// A forked child closes it.
const CLOSED_BY_CHILD: u8 = 1;
/// A forked child keeps it.
const KEPT_BY_CHILD: u8 = 2;

static DESCRIPTORS: DescriptorTable<AtomicU8> = DescriptorTable::new();

/// Whether the library has descriptors.
pub fn any() -> bool {
    DESCRIPTORS
        .range(0, u32::MAX)
        .any(|(_, entry)| entry.load(Ordering::Relaxed) != NONE)
}

/// Whether a descriptor is the library's: the program cannot have it.
#[inline]
pub fn contains(fd: c_int) -> bool {
    DESCRIPTORS
        .get(fd)
        .is_some_and(|entry| entry.load(Ordering::Relaxed) != NONE)
}

/// Takes note of a descriptor that a forked child closes.
pub fn add(fd: c_int) {
    set(fd, CLOSED_BY_CHILD);
}

/// Takes note of a descriptor that a forked child keeps, such as that of the log.
pub fn add_kept_by_child(fd: c_int) {
    set(fd, KEPT_BY_CHILD);
}

/// The descriptor is about to be closed.
pub(crate) fn remove(fd: c_int) {
    if let Some(entry) = DESCRIPTORS.get(fd) {
        entry.store(NONE, Ordering::Release);
    }
}

/// Closes what a forked child must not have. Async-signal-safe.
pub(crate) fn close_in_child() {
    for (fd, entry) in DESCRIPTORS.range(0, u32::MAX) {
        if entry.load(Ordering::Acquire) == CLOSED_BY_CHILD {
            entry.store(NONE, Ordering::Relaxed);
            sys::close(fd);
        }
    }
}

/// The parts of a range of descriptors in which none of the library's own lies, in order. Nothing is allocated.
pub fn ranges_without(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut own = DESCRIPTORS
        .range(first, last)
        .filter(|(_, entry)| entry.load(Ordering::Acquire) != NONE)
        .map(|(fd, _)| fd.cast_unsigned());
    let mut next = Some(first);
    std::iter::from_fn(move || {
        loop {
            let start = next.filter(|start| *start <= last)?;
            let Some(fd) = own.next() else {
                next = None;
                return Some((start, last));
            };
            next = fd.checked_add(1);
            if start < fd {
                return Some((start, fd - 1));
            }
        }
    })
}

fn set(fd: c_int, what: u8) {
    // A descriptor beyond the table is only less protected.
    if let Some(entry) = DESCRIPTORS.get_or_make(fd) {
        entry.store(what, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_out_what_is_ours() {
        add(2_000_000);
        add_kept_by_child(2_000_002);
        assert!(contains(2_000_000) && contains(2_000_002) && !contains(2_000_001));
        let ranges_without = |first, last| ranges_without(first, last).collect::<Vec<_>>();
        let parts = ranges_without(1_999_990, 2_000_010);
        assert_eq!(
            parts,
            [
                (1_999_990, 1_999_999),
                (2_000_001, 2_000_001),
                (2_000_003, 2_000_010)
            ]
        );
        assert_eq!(ranges_without(2_000_000, 2_000_000), []);
        remove(2_000_000);
        remove(2_000_002);
        assert_eq!(
            ranges_without(1_999_990, 2_000_010),
            [(1_999_990, 2_000_010)]
        );
        assert_eq!(
            ranges_without(4_000_000, u32::MAX),
            [(4_000_000, u32::MAX)],
            "also beyond the table"
        );
    }
}
