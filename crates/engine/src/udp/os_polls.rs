//! When to ask the kernel's socket between polls of the rings (`VMA_RX_UDP_POLL_OS_RATIO`).
//!
//! What does not come through a ring (fragments, other interfaces, what the host sends to its own groups) waits in the kernel's socket. A look at it
//! costs a system call, as much as a hundred polls of a ring. While looks find nothing, the distance between them doubles,
//! up to [`DISTANCE_MAX`] times the ratio: some tens of microseconds.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys;

const DISTANCE_MAX: u32 = 64;

/// The schedule of one socket. Threads that receive from the same socket at once may disturb each other's count, which
/// costs a look too many or too few, nothing else.
#[derive(Debug, Default)]
pub(crate) struct OsPolls {
    left: AtomicU32,
    distance: AtomicU32,
    looked_at_nsec: AtomicU64,
}

impl OsPolls {
    /// Counts a poll; says whether it is time for a look. `blocking`: the caller goes on polling if not.
    #[inline]
    pub(crate) fn due(&self, ratio: u32, blocking: bool) -> bool {
        if ratio == 0 {
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 1 && (blocking || !self.tick_has_passed()) {
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

    /// A program that asks now and then must not need a hundred calls to see what the kernel holds.
    fn tick_has_passed(&self) -> bool {
        sys::tick_nsec() != self.looked_at_nsec.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls_until_due(polls: &OsPolls) -> u32 {
        (1..).find(|_| polls.due(10, true)).unwrap()
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
        assert!((0..1000).all(|_| !polls.due(0, true)));
    }

    #[test]
    fn a_late_nonblocking_call_looks_at_once() {
        let polls = OsPolls::default();
        polls_until_due(&polls);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(polls.due(1000, false));
    }
}
