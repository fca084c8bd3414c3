//! Calls threads back that wait in the kernel's `epoll_wait(2)` when a first socket of ours comes into their set.
//!
//! They sleep in a system call that knows nothing of us, so an event of our own brings them out: an eventfd in the kernel's
//! set, with data that no program uses. The hook takes the event out of the results; the last thread to come out, or any one
//! after [`EVICTION_NSEC`], takes the eventfd away.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{c_int, epoll_event};

use crate::sys;

const EVICTION_NSEC: u64 = 100_000_000;

/// An eviction under way, or none.
#[derive(Debug, Default)]
pub(super) struct Eviction {
    state: Mutex<Option<(sys::OwnedFd, u64)>>,
}

impl Eviction {
    /// Brings every thread out of the kernel that waits for `epfd`.
    pub(super) fn begin(&self, epfd: c_int) {
        let Ok(eventfd) = sys::eventfd() else { return };
        sys::signal_eventfd(&eventfd);
        let event = epoll_event {
            events: libc::EPOLLIN as u32,
            u64: cookie(),
        };
        if sys::epoll_add(epfd, &eventfd, event).is_ok() {
            *self.lock() = Some((eventfd, sys::now_nsec() + EVICTION_NSEC));
        }
    }

    /// Ends an eviction: the set is closed.
    pub(super) fn end(&self) {
        *self.lock() = None;
    }

    /// Takes the event of the eviction out of what the kernel reported; returns what is left. `is_last`: nobody waits in the
    /// kernel any more.
    pub(super) fn take_out(&self, events: &mut [epoll_event], is_last: bool) -> usize {
        let cookie = cookie();
        let mut kept = 0;
        for index in 0..events.len() {
            if events[index].u64 != cookie {
                events[kept] = events[index];
                kept += 1;
            }
        }
        if kept < events.len() {
            let mut state = self.lock();
            if is_last
                || state
                    .as_ref()
                    .is_some_and(|(_, until)| sys::now_nsec() >= *until)
            {
                // Closing the eventfd takes it out of the kernel's set: it has no other descriptor.
                *state = None;
            }
        }
        kept
    }

    fn lock(&self) -> MutexGuard<'_, Option<(sys::OwnedFd, u64)>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What marks our event: a random number, so that no program has the same by chance or by habit.
fn cookie() -> u64 {
    static COOKIE: AtomicU64 = AtomicU64::new(0);
    let known = COOKIE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let fresh = sys::random() | 1;
    match COOKIE.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => fresh,
        Err(other) => other,
    }
}
