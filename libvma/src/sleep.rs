//! The sleep of a thread, in a system call of the application's own.

use std::ptr;

use engine::{SelectSets, Sleep, Woken};
use libc::{c_int, epoll_event, pollfd, sigset_t, timespec};

use crate::guard::{self, contained};
use crate::real;
use crate::signal_set::SignalSet;

/// How a sleep has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slept {
    /// A signal handler has run that ends the call. Else something has happened, or the time is
    /// over: look again.
    pub(crate) is_interrupted: bool,
    /// What to look at, where that is known.
    pub(crate) woken: Option<Woken>,
}

/// How long a thread sleeps at a time where the kernel lets it watch nothing.
const BLIND_NSEC: i64 = 1_000_000;

/// Sleeps in the application's own `ppoll(2)` or `epoll_pwait2(2)`.
///
/// A handler either runs before the last look, or ends the sleep.
#[cold]
pub(crate) fn sleep_until_woken(
    mut sleep: Sleep,
    mask: Option<*const sigset_t>,
    interrupted: impl Fn() -> bool,
    any_handler: impl Fn() -> bool,
) -> Slept {
    let saved = guard::errno();
    let mut is_interrupted = false;
    sleep.begins();
    if interrupted() {
        is_interrupted = true;
    } else {
        let timeout = sleep.timeout();
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // Null leaves the thread's own mask in force.
        let mask = mask.unwrap_or(ptr::null());
        // SAFETY: the timeout and the mask are valid for the call.
        let result = unsafe { wait(&mut sleep, timeout, mask) };
        // A handler that the library has not seen installed counts as one that interrupts.
        if result < 0 && guard::errno() == libc::EINTR && (interrupted() || !any_handler()) {
            is_interrupted = true;
        }
    }
    let woken = contained(|| sleep.end()).ok();
    guard::set_errno(saved);
    Slept {
        is_interrupted,
        woken,
    }
}

/// What a leader learns at a time of what has woken it. What does not fit ends the next sleep at
/// once.
const EVENTS_MAX: usize = 16;
const NO_EVENT: epoll_event = epoll_event { events: 0, u64: 0 };

/// `ppoll(2)`, or what comes nearest where that is refused: it takes no more descriptors than the
/// process may have, even if it has them already, and a filter of system calls may not know it. A
/// cancellation point; what a cancelled thread leaves behind is said at `Sleep`.
///
/// # Safety
/// The timeout and the mask must be null or readable.
unsafe fn wait(sleep: &mut Sleep, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    if let Some(epoll) = sleep.epoll() {
        let mut events = [NO_EVENT; EVENTS_MAX];
        let (first, count) = (events.as_mut_ptr(), events.len() as c_int);
        // SAFETY: there is room for that many events, the rest is the caller's promise.
        let result = unsafe { real::epoll_pwait2(epoll, first, count, timeout, mask) };
        if let Ok(count) = usize::try_from(result) {
            sleep.reported(&events[..count.min(events.len())]);
        }
        if result >= 0 || guard::errno() == libc::EINTR {
            return result;
        }
        sleep.epoll_is_refused();
    }
    let fds = sleep.fds();
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the descriptors are valid for the call, the rest is the caller's promise.
    let result = unsafe { real::ppoll(fds.as_mut_ptr(), count, timeout, mask) };
    if result >= 0 {
        sleep.polled();
        return result;
    }
    if guard::errno() == libc::EINTR {
        return result;
    }
    let fds = sleep.fds();
    // SAFETY: the caller's promise.
    let result = unsafe { wait_by_select(fds, timeout, mask) };
    match guard::errno() {
        _ if result >= 0 => result,
        libc::EINTR => result,
        // One was closed meanwhile, which the next look shows.
        libc::EBADF => 0,
        // SAFETY: the caller's promise.
        _ => unsafe { nap(mask) },
    }
}

/// The same by `pselect(2)`.
///
/// # Safety
/// That of `wait`.
#[cold]
unsafe fn wait_by_select(
    fds: &mut [pollfd],
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let mut sets = SelectSets::of(fds);
    let [read, write, except] = sets.as_mut_ptrs();
    // SAFETY: each set has room for that many descriptors, the rest is the caller's promise.
    let result = unsafe { real::pselect(sets.count(), read, write, except, timeout, mask) };
    sets.store(fds, result);
    result
}

/// Sleeps for a moment, with the mask's signals let through.
///
/// # Safety
/// The mask must be null or readable.
#[cold]
unsafe fn nap(mask: *const sigset_t) -> c_int {
    let time = timespec {
        tv_sec: 0,
        tv_nsec: BLIND_NSEC,
    };
    let (time, left) = (&raw const time, ptr::null_mut::<timespec>());
    // Of a mask the kernel reads its own 64 bits.
    // SAFETY: the caller's promise.
    let mask = (!mask.is_null()).then(|| unsafe { mask.cast::<u64>().read_unaligned() });
    let mut mask = mask.map(SignalSet::of);
    if let Some(mask) = &mut mask {
        mask.swap_with_current();
    }
    // SAFETY: the kernel reads one timespec.
    let result = unsafe { libc::syscall(libc::SYS_nanosleep, time, left) };
    let errno = guard::errno();
    if let Some(mask) = &mut mask {
        mask.swap_with_current();
    }
    guard::set_errno(errno);
    result as c_int
}
