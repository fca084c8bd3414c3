//! The library's own descriptors in the program's table: what `close_range(2)` must leave alone, and what a forked child has to
//! close so that an interface's packets stay with the parent.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use libc::c_int;

use crate::sys;

/// More descriptors than the library ever has; one that finds no place is only less protected.
const MAX: usize = 1024;
const FREE: i64 = -1;
/// Set beside descriptors that a forked child keeps.
const KEPT_BY_CHILD: i64 = 1 << 32;

static DESCRIPTORS: [AtomicI64; MAX] = [const { AtomicI64::new(FREE) }; MAX];
/// Slots that have ever been used: the others need not be looked at.
static USED: AtomicUsize = AtomicUsize::new(0);

fn slots() -> &'static [AtomicI64] {
    &DESCRIPTORS[..USED.load(Ordering::Acquire)]
}

/// Whether a descriptor is the library's: the program cannot have it.
pub fn contains(fd: c_int) -> bool {
    let is_it = |slot: &AtomicI64| {
        let value = slot.load(Ordering::Relaxed);
        value != FREE && value & !KEPT_BY_CHILD == i64::from(fd)
    };
    slots().iter().any(is_it)
}

/// Takes note of a descriptor that a forked child closes.
pub fn add(fd: c_int) {
    insert(i64::from(fd));
}

/// Takes note of a descriptor that a forked child keeps, such as that of the log.
pub fn add_kept_by_child(fd: c_int) {
    insert(i64::from(fd) | KEPT_BY_CHILD);
}

/// The descriptor is about to be closed.
pub(crate) fn remove(fd: c_int) {
    for slot in slots() {
        let value = slot.load(Ordering::Relaxed);
        if value != FREE && value & !KEPT_BY_CHILD == i64::from(fd) {
            slot.store(FREE, Ordering::Release);
        }
    }
}

/// Closes what a forked child must not have. Async-signal-safe.
pub(crate) fn close_in_child() {
    for slot in slots() {
        let value = slot.load(Ordering::Acquire);
        if value != FREE && value & KEPT_BY_CHILD == 0 {
            slot.store(FREE, Ordering::Relaxed);
            sys::close(value as c_int);
        }
    }
}

/// The parts of a range of descriptors in which none of the library's own lies, in order.
pub fn ranges_without(first: u32, last: u32) -> Vec<(u32, u32)> {
    let own = slots()
        .iter()
        .map(|slot| slot.load(Ordering::Acquire))
        .filter(|fd| *fd != FREE);
    let mut own: Vec<u32> = own.map(|fd| (fd & !KEPT_BY_CHILD) as u32).collect();
    own.sort_unstable();
    let mut ranges = Vec::new();
    let mut next = Some(first);
    for fd in own.into_iter().filter(|fd| (first..=last).contains(fd)) {
        if let Some(start) = next.filter(|start| *start < fd) {
            ranges.push((start, fd - 1));
        }
        next = fd.checked_add(1);
    }
    ranges.extend(
        next.filter(|start| *start <= last)
            .map(|start| (start, last)),
    );
    ranges
}

fn insert(value: i64) {
    for (index, slot) in DESCRIPTORS.iter().enumerate() {
        if slot
            .compare_exchange(FREE, value, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            USED.fetch_max(index + 1, Ordering::AcqRel);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_out_what_is_ours() {
        add(2_000_000);
        add_kept_by_child(2_000_002);
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
    }
}
