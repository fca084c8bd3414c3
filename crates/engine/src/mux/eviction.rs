//! Calls threads back that wait in the kernel's `epoll_wait(2)` when something comes past the kernel into their set from now on.
//!
//! They sleep in a system call that knows nothing of us, so an event of our own brings them out: an eventfd in the kernel's
//! set, with data that no program uses. The hook takes the event out of the results; the last thread to come out, or any one
//! after [`EVICTION_NSEC`], takes the eventfd out of the set.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{c_int, epoll_event};

use crate::sys;

const EVICTION_NSEC: u64 = 100_000_000;

/// An eventfd that is always readable, for every set; -1 before the first. It is made before it is needed: then there may be no
/// descriptor left.
static ALARM: AtomicI32 = AtomicI32::new(-1);

/// To be called before a set is watched. `false`: nobody could be called back.
pub(super) fn prepare() -> bool {
    if ALARM.load(Ordering::Acquire) >= 0 {
        return true;
    }
    let Ok(eventfd) = sys::eventfd() else {
        return false;
    };
    sys::signal_eventfd(eventfd.raw());
    // It stays open for good, unless another thread was faster.
    let eventfd = ManuallyDrop::new(eventfd);
    let published = ALARM.compare_exchange(-1, eventfd.raw(), Ordering::AcqRel, Ordering::Acquire);
    if published.is_err() {
        drop(ManuallyDrop::into_inner(eventfd));
    }
    true
}

/// In a forked child, where the descriptor is closed.
pub(crate) fn forget_alarm() {
    ALARM.store(-1, Ordering::Release);
}

/// An eviction under way, and until when; or none.
#[derive(Debug, Default)]
pub(super) struct Eviction {
    until_nsec: Mutex<Option<u64>>,
}

impl Eviction {
    /// Brings every thread out of the kernel that waits for `epfd`.
    pub(super) fn begin(&self, epfd: c_int) {
        let event = epoll_event {
            events: libc::EPOLLIN as u32,
            u64: cookie(),
        };
        let mut until_nsec = self.lock();
        // If it is in the set already, threads that have come since are brought out, too.
        sys::epoll_add(epfd, ALARM.load(Ordering::Acquire), event);
        *until_nsec = Some(sys::now_nsec() + EVICTION_NSEC);
    }

    /// Ends an eviction: the set is about to be closed.
    pub(super) fn end(&self, epfd: c_int) {
        if self.lock().take().is_some() {
            sys::epoll_remove(epfd, ALARM.load(Ordering::Acquire));
        }
    }

    /// Takes the event of the eviction out of what the kernel reported; returns what is left. `is_last`: nobody waits in the
    /// kernel any more.
    pub(super) fn take_out(&self, epfd: c_int, events: &mut [epoll_event], is_last: bool) -> usize {
        let cookie = cookie();
        let mut kept = 0;
        for index in 0..events.len() {
            if events[index].u64 != cookie {
                events[kept] = events[index];
                kept += 1;
            }
        }
        if kept < events.len() {
            let is_over = |until_nsec: &u64| is_last || sys::now_nsec() >= *until_nsec;
            let mut until_nsec = self.lock();
            if until_nsec.as_ref().is_some_and(is_over) {
                *until_nsec = None;
                sys::epoll_remove(epfd, ALARM.load(Ordering::Acquire));
            }
        }
        kept
    }

    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.until_nsec
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
