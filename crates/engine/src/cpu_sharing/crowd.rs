//! More threads that poll than there are CPUs: most of them sleep at once.
//!
//! A thread that polls receives for all, so that a few suffice, and each further one keeps those
//! that have work from their CPU. Up to a thread for each CPU may poll at a time; when there are
//! more, a quarter as many may for a while.
//!
//! Threads that take turns on few CPUs are never seen to poll together. So those are counted, too,
//! that have slept in a period of some milliseconds, each once: more than there are CPUs, by far,
//! are a crowd.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

/// A period, as a shift of the clock's nanoseconds: 8 ms.
const PERIOD_SHIFT: u32 = 23;
/// So many threads for each CPU sleep in a period, at least, where they are a crowd.
const CROWD_FACTOR: u32 = 2;
static SLEPT: Slept = Slept(AtomicU64::new(0));

thread_local! {
    /// The thread's mark and its last place.
    static OWN: Cell<(u64, usize)> = const { Cell::new((0, 0)) };
    /// The period in which it has slept last.
    static SLEPT_LAST: Cell<u32> = const { Cell::new(0) };
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

/// The thread is about to sleep until something comes.
pub(super) fn sleeps(now_nsec: u64) {
    let many = CROWD_FACTOR * CPUS.load(Ordering::Relaxed);
    if let Some(count) = SLEPT.count(now_nsec)
        && many > 0
        && count > many
    {
        CROWDED_UNTIL_NSEC.store(now_nsec + CROWDED_NSEC, Ordering::Relaxed);
    }
}

/// A period, in the upper half, and how many threads have slept in it.
struct Slept(AtomicU64);

impl Slept {
    /// Counts the thread; says how many that makes. `None`: it has slept in this period before.
    fn count(&self, now_nsec: u64) -> Option<u32> {
        let period = (now_nsec >> PERIOD_SHIFT) as u32;
        if SLEPT_LAST.replace(period) == period {
            return None;
        }
        let counted = |slept: u64| match (slept >> 32) as u32 == period {
            true => slept + 1,
            false => u64::from(period) << 32 | 1,
        };
        let one_more = |slept| Some(counted(slept));
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        Some(counted(before.unwrap_or_else(|slept| slept)) as u32)
    }
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

    #[test]
    fn those_who_sleep_are_counted_once_in_a_period() {
        let slept = Slept(AtomicU64::new(0));
        let now = 1 << 49;
        let another = |now| {
            thread::scope(|scope| {
                let sleeper = scope.spawn(|| (slept.count(now), slept.count(now)));
                sleeper.join().unwrap()
            })
        };
        let counts = [(); 3].map(|()| another(now));
        assert_eq!(counts, [(Some(1), None), (Some(2), None), (Some(3), None)]);
        let later = now + (1 << PERIOD_SHIFT);
        assert_eq!(another(later - 1), (Some(4), None));
        assert_eq!(another(later), (Some(1), None), "in another period");
    }
}
