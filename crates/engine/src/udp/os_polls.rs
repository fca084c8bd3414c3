//! When to ask the kernel's socket between polls of the rings (`VMA_RX_UDP_POLL_OS_RATIO`).
//!
//! What does not come through a ring (fragments, other interfaces, what the host sends to its own groups) waits in the kernel's socket. A look at it
//! costs a system call, as much as a hundred polls of a ring. While looks find nothing, the distance between them doubles,
//! up to [`DISTANCE_MAX`] times the ratio: some tens of microseconds.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys;

const DISTANCE_MAX: u32 = 64;

/// How long a socket in an epoll set may go without a look of its own: what the kernel's socket has is reported there.
const WATCHED_NSEC: u64 = 50_000_000;

/// How a call asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// It goes on polling.
    Blocking,
    /// It ends.
    Nonblocking,
    /// The same, and the socket is in an epoll set.
    Watched,
}

/// The schedule of one socket. Threads that receive from the same socket at once may disturb each other's count, which
/// costs a look too many or too few, nothing else.
#[derive(Debug, Default)]
pub(crate) struct OsPolls {
    left: AtomicU32,
    distance: AtomicU32,
    looked_at_nsec: AtomicU64,
}

impl OsPolls {
    /// Counts a poll; says whether it is time for a look.
    #[inline]
    pub(crate) fn due(&self, ratio: u32, asker: Asker) -> bool {
        if ratio == 0 {
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 1 && !self.is_late(asker) {
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

    fn is_late(&self, asker: Asker) -> bool {
        let since = || sys::tick_nsec().wrapping_sub(self.looked_at_nsec.load(Ordering::Relaxed));
        asker != Asker::Blocking && asker.is_late_after(since())
    }
}

impl Asker {
    /// A program that asks now and then must not need a hundred calls to see what the kernel holds. One with hundreds of sockets in an
    /// epoll set, which tells of that, too, must not ask for each of them at every tick.
    fn is_late_after(self, since_nsec: u64) -> bool {
        match self {
            Self::Blocking => false,
            Self::Nonblocking => since_nsec != 0,
            Self::Watched => since_nsec > WATCHED_NSEC,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls_until_due(polls: &OsPolls) -> u32 {
        (1..).find(|_| polls.due(10, Asker::Blocking)).unwrap()
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
        assert!((0..1000).all(|_| !polls.due(0, Asker::Blocking)));
    }

    #[test]
    fn a_late_nonblocking_call_looks_at_once() {
        let polls = OsPolls::default();
        polls_until_due(&polls);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(polls.due(1000, Asker::Nonblocking));
    }

    #[test]
    fn a_tick_is_late_unless_an_epoll_set_tells() {
        let late_after =
            |nsec| [Asker::Nonblocking, Asker::Watched].map(|it| it.is_late_after(nsec));
        assert_eq!(late_after(0), [false, false]);
        assert_eq!(late_after(4_000_000), [true, false]);
        assert_eq!(late_after(60_000_000), [true, true]);
    }
}
