//! Calls threads back that wait in the kernel's `epoll_wait(2)` when something comes past the
//! kernel into their set from now on.
//!
//! They sleep in a system call that knows nothing of us, so an event of our own brings them out: an
//! eventfd in the kernel's set, with data that no program uses. The hook takes the event out of the
//! results; the last thread to come out, or any one after [`EVICTION_NSEC`], takes the eventfd out
//! of the set. The data are each set's own: they tell a thread which set it has waited for, if the
//! number that it waited under is closed.

use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use libc::{c_int, epoll_event};

use crate::mux::silent::retain;

const EVICTION_NSEC: u64 = 100_000_000;

/// An eventfd that is always readable, for every set; null before the first. It is made before it
/// is needed: then there may be no descriptor left.
static ALARM: AtomicPtr<OwnDescriptor> = AtomicPtr::new(ptr::null_mut());

/// Whether threads were ever called back.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether a thread may have been called back from the kernel, whatever it waited for.
#[inline]
pub fn has_called_back() -> bool {
    HAS_BEGUN.load(Ordering::Acquire)
}

/// Its number.
fn alarm() -> Option<c_int> {
    // SAFETY: null, or a box that was leaked.
    unsafe { ALARM.load(Ordering::Acquire).as_ref() }.map(AsRawFd::as_raw_fd)
}

/// To be called before a set is watched. `false`: nobody could be called back.
pub(super) fn prepare() -> bool {
    if alarm().is_some() {
        return true;
    }
    let Ok(eventfd) = sys::eventfd() else {
        return false;
    };
    sys::signal_eventfd(eventfd.as_raw_fd());
    // It stays open for good, unless another thread was faster.
    let fresh = Box::into_raw(Box::new(eventfd));
    let published =
        ALARM.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire);
    if published.is_err() {
        // SAFETY: `fresh` came from Box::into_raw above and was not published.
        drop(unsafe { Box::from_raw(fresh) });
    }
    true
}

/// In a forked child, where the descriptor is closed.
pub(crate) fn forget_alarm() {
    ALARM.store(ptr::null_mut(), Ordering::Release);
}

/// An eviction under way, or none.
#[derive(Debug, Default)]
pub(super) struct Eviction {
    under_way: Mutex<Option<UnderWay>>,
    /// What marks the set's event: a random number, so that no program has the same by chance or by
    /// habit. 0 before the first.
    cookie: AtomicU64,
}

#[derive(Debug)]
struct UnderWay {
    until_nsec: u64,
    /// The alarm's number with which it is in the kernel's set, and with which it has to be taken
    /// out.
    alarm: c_int,
}

impl Eviction {
    /// Brings every thread out of the kernel that waits for `epfd`.
    pub(super) fn begin(&self, epfd: c_int) {
        let mut under_way = self.lock();
        let Some(alarm) = alarm() else { return };
        HAS_BEGUN.store(true, Ordering::Release);
        // If it is in the set already, threads that have come since are brought out, too.
        sys::epoll_add(epfd, alarm, self.event());
        *under_way = Some(UnderWay {
            until_nsec: sys::now_nsec() + EVICTION_NSEC,
            alarm,
        });
    }

    /// The alarm has another number, perhaps, and keeps the old one for a moment: goes on with the
    /// new one. The kernel's set knows its members by number and file.
    pub(super) fn follow_alarm(&self, epfd: c_int) {
        if let (Some(under_way), Some(alarm)) = (&mut *self.lock(), alarm())
            && under_way.alarm != alarm
        {
            sys::epoll_add(epfd, alarm, self.event());
            sys::epoll_remove(epfd, under_way.alarm);
            under_way.alarm = alarm;
        }
    }

    /// Ends an eviction: the set is about to be closed.
    pub(super) fn end(&self, epfd: c_int) {
        if let Some(under_way) = self.lock().take() {
            sys::epoll_remove(epfd, under_way.alarm);
        }
    }

    /// Whether the event of an eviction is among what the kernel reported.
    pub(super) fn is_among(&self, events: &[epoll_event]) -> bool {
        let cookie = self.cookie.load(Ordering::Acquire);
        cookie != 0 && events.iter().any(|event| event.u64 == cookie)
    }

    /// Takes the event of the eviction out of what the kernel reported; returns what is left.
    /// `others_wait`: whether threads still wait in the kernel. It is asked under the lock, for who
    /// comes to wait after that is called back anew.
    pub(super) fn take_out(
        &self,
        epfd: c_int,
        events: &mut [epoll_event],
        others_wait: impl FnOnce() -> bool,
    ) -> usize {
        let cookie = self.cookie.load(Ordering::Acquire);
        if cookie == 0 {
            return events.len();
        }
        let kept = retain(events, |event| event.u64 != cookie);
        if kept < events.len() {
            let is_over = |it: &mut UnderWay| sys::now_nsec() >= it.until_nsec || !others_wait();
            if let Some(ended) = self.lock().take_if(is_over) {
                sys::epoll_remove(epfd, ended.alarm);
            }
        }
        kept
    }

    /// The set's own event.
    fn event(&self) -> epoll_event {
        let known = self.cookie.load(Ordering::Acquire);
        let cookie = if known == 0 {
            // Under the lock, where nobody else makes one.
            let fresh = sys::random() | 1;
            self.cookie.store(fresh, Ordering::Release);
            fresh
        } else {
            known
        };
        epoll_event {
            events: libc::EPOLLIN as u32,
            u64: cookie,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<UnderWay>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
