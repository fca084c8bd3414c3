//! When to ask the kernel's socket between polls of the rings (`VMA_RX_UDP_POLL_OS_RATIO`).
//!
//! What does not come through a ring (fragments, other interfaces, what the host sends to its own
//! groups) waits in the kernel's socket. A look at it costs a system call, as much as a hundred
//! polls of a ring. While looks find nothing, the distance between them doubles, up to
//! [`DISTANCE_MAX`] times the ratio: some tens of microseconds.
//!
//! A socket that is never idle has two ways that are never empty. What the rings bring counts as a
//! poll, and there is a look at every tick. What the kernel brings goes first, because it may be
//! older, but not for ever: then both take turns.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const DISTANCE_MAX: u32 = 64;

/// How long a socket in an epoll set may go without a look of its own, whatever the set is told.
const WATCHED_NSEC: u64 = 50_000_000;

/// How long a packet may be on its way through the kernel to a socket.
const ON_ITS_WAY_NSEC: u64 = 20_000_000;

/// Datagrams of the kernel's in a row before it matters how many there can be.
const KERNELS_MIN: u32 = 64;

/// Datagrams from the rings between two looks at the clock.
const RECEIVED_PER_CLOCK: u32 = 8;

/// The schedule of one socket. Threads that receive from the same socket at once may disturb each
/// other's count, which costs a look too many or too few, nothing else.
#[derive(Debug, Default)]
pub(crate) struct OsPolls {
    left: AtomicU32,
    distance: AtomicU32,
    looked_at_nsec: AtomicU64,
    /// When an epoll set with the socket in it was told what the kernel has for all of them.
    told_at_nsec: AtomicU64,
    /// Datagrams that the kernel's socket had, since it had none.
    kernels_in_a_row: AtomicU32,
    /// The next datagram is one of the rings', if there is one.
    rings_are_next: AtomicBool,
    /// When the socket has come past the kernel, if what the kernel has may be older than what the
    /// rings have; else 0.
    came_at_nsec: AtomicU64,
}

impl OsPolls {
    /// Counts a poll; says whether it is time for a look. `blocking`: the caller goes on polling if
    /// not. `told_nsec`: the tick at which the kernel has last told an epoll set what the socket
    /// has.
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

    /// A call has received a datagram from a ring, or looked at it (`peeks`): a look at the same
    /// must find the same. Says whether the kernel is to be asked first by the next call.
    #[inline]
    pub(crate) fn received(&self, ratio: u32, peeks: bool) -> bool {
        if peeks || self.rings_are_next.load(Ordering::Relaxed) {
            self.rings_are_next.store(peeks, Ordering::Relaxed);
        }
        if peeks || ratio == 0 {
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 1 {
            self.left.store(left - 1, Ordering::Relaxed);
            if !left.is_multiple_of(RECEIVED_PER_CLOCK)
                || self.looked_at_nsec.load(Ordering::Relaxed) == sys::tick_nsec()
            {
                return false;
            }
        }
        self.look(ratio);
        true
    }

    /// A call has received a datagram from the kernel, or looked at it (`peeks`). `waiting_max`: so
    /// many may have waited there since before the first that came through a ring.
    pub(crate) fn received_from_kernel(&self, peeks: bool, waiting_max: impl FnOnce() -> usize) {
        let mut in_a_row = self.kernels_in_a_row.load(Ordering::Relaxed);
        if !peeks {
            in_a_row = in_a_row.saturating_add(1);
            self.kernels_in_a_row.store(in_a_row, Ordering::Relaxed);
        }
        let is_turn = !peeks && in_a_row >= KERNELS_MIN && in_a_row as usize > waiting_max();
        self.rings_are_next.store(is_turn, Ordering::Relaxed);
    }

    /// The kernel's socket has nothing.
    pub(crate) fn kernel_is_empty(&self) {
        self.kernels_in_a_row.store(0, Ordering::Relaxed);
    }

    /// What the kernel's socket has from here on, or had before, is older than what comes through
    /// a ring, until it is empty.
    pub(crate) fn begin_with_kernel(&self) {
        self.came_at_nsec
            .store(sys::tick_nsec().max(1), Ordering::Release);
    }

    /// Whether that is so.
    #[inline]
    pub(crate) fn kernel_is_first(&self) -> bool {
        self.came_at_nsec.load(Ordering::Acquire) != 0
    }

    /// It was, and is empty. What was on its way through the kernel then may still come.
    pub(crate) fn end_with_kernel(&self) {
        let came_at = self.came_at_nsec.load(Ordering::Relaxed);
        if sys::tick_nsec().saturating_sub(came_at) > ON_ITS_WAY_NSEC {
            self.begin_with_rings();
        }
    }

    /// The socket has nothing that is older than what the rings bring.
    pub(crate) fn begin_with_rings(&self) {
        self.came_at_nsec.store(0, Ordering::Relaxed);
    }

    /// Whether a datagram from a ring comes before those in the kernel's socket.
    #[inline]
    pub(crate) fn rings_are_next(&self) -> bool {
        self.rings_are_next.load(Ordering::Relaxed)
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
    /// One with hundreds of sockets in an epoll set must not ask for each of them at every tick, if
    /// it has just asked for all of them at once.
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
        assert!((0..1000).all(|_| !polls.due(0, true, || 0) && !polls.received(0, false)));
    }

    #[test]
    fn what_is_received_counts_and_each_tick_has_a_look() {
        let polls = OsPolls::default();
        assert!(polls.received(10, false));
        assert!((1..=20).any(|_| polls.received(10, false)));
        polls.left.store(1_000_000, Ordering::Relaxed);
        for _ in 0..2 {
            polls.looked_at_nsec.store(0, Ordering::Relaxed);
            let received = (1..).find(|_| polls.received(10, false)).unwrap();
            assert!(received <= RECEIVED_PER_CLOCK);
            polls.left.store(1_000_000, Ordering::Relaxed);
        }
    }

    #[test]
    fn ways_that_are_never_empty_take_turns() {
        let polls = OsPolls::default();
        for _ in 0..=100 {
            assert!(!polls.rings_are_next());
            polls.received_from_kernel(false, || 100);
        }
        for _ in 0..3 {
            assert!(polls.rings_are_next());
            polls.received(10, false);
            assert!(!polls.rings_are_next());
            polls.received_from_kernel(false, || 100);
        }
        polls.received(10, false);
        polls.kernel_is_empty();
        polls.received_from_kernel(false, || 100);
        assert!(!polls.rings_are_next());
    }

    #[test]
    fn what_was_looked_at_is_next() {
        let polls = OsPolls::default();
        assert!(!polls.received(1, true) && polls.rings_are_next());
        polls.received(1, false);
        assert!(!polls.rings_are_next());
        polls.rings_are_next.store(true, Ordering::Relaxed);
        polls.received_from_kernel(true, || 0);
        assert!(!polls.rings_are_next());
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
