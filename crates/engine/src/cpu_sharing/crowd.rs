//! More threads that poll than there are CPUs: most of them sleep at once.
//!
//! A thread that polls receives for all, so that a few suffice, and each further one keeps those that have work from their CPU. Up to a
//! thread for each CPU may poll at a time; when there are more, a quarter as many may for a while.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys;

/// Threads that poll, at most; on more CPUs no more are counted.
const PLACES: usize = 64;
/// Whoever has not polled in vain for so long has given up its place.
const LEFT_NSEC: u64 = 50_000;
/// How long fewer may poll after there were too many.
const CROWDED_NSEC: u64 = 100_000_000;

/// Until when a thread has the place, with its mark in the low bits.
static UNTIL: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static CROWDED_UNTIL_NSEC: AtomicU64 = AtomicU64::new(0);
/// Of the process; 0: not known.
static CPUS: AtomicU32 = AtomicU32::new(0);
static MARKS: AtomicU32 = AtomicU32::new(0);

/// The low bits of a time, which say whose it is. Two threads with one mark may both poll.
const MARK_BITS: u32 = 10;
const MARK_MASK: u64 = (1 << MARK_BITS) - 1;

thread_local! {
    /// The thread's mark and its last place.
    static OWN: Cell<(u64, usize)> = const { Cell::new((0, 0)) };
}

/// Finds out how many may. Before, everybody may: a filter of system calls may come later.
pub(super) fn prepare() {
    let count = sys::allowed_cpus().len().min(PLACES);
    CPUS.store(count as u32, Ordering::Relaxed);
}

/// Whether the thread may go on polling. To be asked every few microseconds while that is in vain.
pub(super) fn has_room(now_nsec: u64) -> bool {
    let Ok((mark, place)) = OWN.try_with(Cell::get) else {
        return true;
    };
    let mark = match mark {
        0 => 1 + u64::from(MARKS.fetch_add(1, Ordering::Relaxed)) % MARK_MASK,
        mark => mark,
    };
    let cpus = CPUS.load(Ordering::Relaxed) as usize;
    if cpus == 0 {
        return true;
    }
    let is_crowded = now_nsec < CROWDED_UNTIL_NSEC.load(Ordering::Relaxed);
    let room = if is_crowded { cpus / 4 } else { cpus };
    let place = (place < room && keep(place, mark, now_nsec))
        .then_some(place)
        .or_else(|| (0..room).find(|place| take(*place, mark, now_nsec)));
    let _ = OWN.try_with(|own| own.set((mark, place.unwrap_or(PLACES))));
    if place.is_none() && !is_crowded {
        CROWDED_UNTIL_NSEC.store(now_nsec + CROWDED_NSEC, Ordering::Relaxed);
    }
    place.is_some()
}

fn entry(mark: u64, now_nsec: u64) -> u64 {
    (now_nsec + LEFT_NSEC) & !MARK_MASK | mark
}

fn keep(place: usize, mark: u64, now_nsec: u64) -> bool {
    let is_own = UNTIL[place].load(Ordering::Relaxed) & MARK_MASK == mark;
    if is_own {
        UNTIL[place].store(entry(mark, now_nsec), Ordering::Relaxed);
    }
    is_own
}

fn take(place: usize, mark: u64, now_nsec: u64) -> bool {
    let until = UNTIL[place].load(Ordering::Relaxed);
    let entry = entry(mark, now_nsec);
    until < now_nsec
        && UNTIL[place]
            .compare_exchange(until, entry, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// One test: what it looks at is the process's.
    #[test]
    fn of_many_threads_few_may_poll() {
        CPUS.store(4, Ordering::Relaxed);
        let now = 1 << 50;
        let ask = |now| thread::spawn(move || has_room(now)).join().unwrap();
        let have_room = |now, count| (0..count).filter(|_| ask(now)).count();
        assert_eq!(have_room(now, 4), 4);
        assert!(!ask(now + 1), "a fifth");
        let later = now + LEFT_NSEC + MARK_MASK + 1;
        assert_eq!(have_room(later, 9), 1, "while it is crowded");
        let own = thread::spawn(move || {
            let first = later + CROWDED_NSEC;
            (0..100).all(|look| has_room(first + look * 3_000))
        });
        assert!(own.join().unwrap(), "one alone goes on");
        CPUS.store(0, Ordering::Relaxed);
    }
}
