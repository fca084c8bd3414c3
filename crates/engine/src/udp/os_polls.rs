//! When to ask the kernel's socket between polls of the rings (`VMA_RX_UDP_POLL_OS_RATIO`).
//!
//! What does not come through a ring (fragments, other interfaces, what the host sends to its own groups) waits in the kernel's socket. A look at it
//! costs a system call, as much as a hundred polls of a ring. While looks find nothing, the distance between them doubles,
//! up to [`DISTANCE_MAX`] times the ratio: some tens of microseconds.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys;

const DISTANCE_MAX: u32 = 64;

/// How long a socket in an epoll set may go without a look of its own, whatever the set is told.
const WATCHED_NSEC: u64 = 50_000_000;

/// The schedule of one socket. Threads that receive from the same socket at once may disturb each other's count, which
/// costs a look too many or too few, nothing else.
#[derive(Debug, Default)]
pub(crate) struct OsPolls {
    left: AtomicU32,
    distance: AtomicU32,
    looked_at_nsec: AtomicU64,
    /// When an epoll set with the socket in it was told what the kernel has for all of them.
    told_at_nsec: AtomicU64,
}

impl OsPolls {
    /// Counts a poll; says whether it is time for a look. `blocking`: the caller goes on polling if not. `told_nsec`: the tick at which the
    /// kernel has last told an epoll set what the socket has.
    #[inline]
    pub(crate) fn due(&self, ratio: u32, blocking: bool, told_nsec: impl FnOnce() -> u64) -> bool {
        if ratio == 0 {
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 1 && (blocking || !self.is_late(sys::tick_nsec(), told_nsec)) {
            self.left.store(left - 1, Ordering::Relaxed);
            return false;
        }
        self.look(ratio);
        true
    }

    /// The look found something: more may follow soon.
    pub(crate) fn hit(&self) {
        self.distance.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    #[cold]
    fn look(&self, ratio: u32) {
        let distance = (self.distance.load(Ordering::Relaxed) * 2).clamp(1, DISTANCE_MAX);
        self.distance.store(distance, Ordering::Relaxed);
        self.left
            .store(ratio.saturating_mul(distance), Ordering::Relaxed);
        self.looked_at_nsec
            .store(sys::tick_nsec(), Ordering::Relaxed);
    }

    /// A program that asks now and then must not need a hundred calls to see what the kernel holds. One with hundreds of sockets in an
    /// epoll set must not ask for each of them at every tick, if it has just asked for all of them at once.
    fn is_late(&self, tick_nsec: u64, told_nsec: impl FnOnce() -> u64) -> bool {
        let looked_at = self.looked_at_nsec.load(Ordering::Relaxed);
        if looked_at == tick_nsec {
            return false;
        }
        if tick_nsec.wrapping_sub(looked_at) > WATCHED_NSEC {
            return true;
        }
        if self.told_at_nsec.load(Ordering::Relaxed) != tick_nsec {
            self.told_at_nsec.store(told_nsec(), Ordering::Relaxed);
        }
        self.told_at_nsec.load(Ordering::Relaxed) != tick_nsec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls_until_due(polls: &OsPolls) -> u32 {
        (1..).find(|_| polls.due(10, true, || 0)).unwrap()
    }

    #[test]
    fn distance_doubles_while_nothing_is_found() {
        let polls = OsPolls::default();
        assert_eq!(polls_until_due(&polls), 1);
        assert_eq!([(); 4].map(|()| polls_until_due(&polls)), [10, 20, 40, 80]);
        for _ in 0..10 {
            polls_until_due(&polls);
        }
        assert_eq!(polls_until_due(&polls), 10 * DISTANCE_MAX);
        polls.hit();
        assert_eq!([(); 2].map(|()| polls_until_due(&polls)), [1, 10]);
    }

    #[test]
    fn ratio_zero_never_looks() {
        let polls = OsPolls::default();
        assert!((0..1000).all(|_| !polls.due(0, true, || 0)));
    }

    #[test]
    fn a_late_nonblocking_call_looks_at_once() {
        let polls = OsPolls::default();
        polls_until_due(&polls);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(polls.due(1000, false, || 0));
    }

    #[test]
    fn a_tick_is_late_unless_an_epoll_set_was_told_in_it() {
        const TICK: u64 = 4_000_000;
        const NEVER: u64 = 0;
        let polls = OsPolls::default();
        let is_late = |ticks: u64, told: u64| polls.is_late(ticks * TICK, || told * TICK);
        polls.looked_at_nsec.store(100 * TICK, Ordering::Relaxed);
        assert!(!is_late(100, NEVER), "its own look");
        assert!(is_late(101, NEVER) && is_late(101, 100), "too long ago");
        assert!(!is_late(102, 102));
        assert!(!is_late(102, NEVER), "known of this tick");
        assert!(is_late(103, 102));
        assert!(is_late(113, 113), "a look of its own now and then");
    }
}
