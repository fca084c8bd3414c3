//! `poll(2)` and `epoll(7)`.

use std::slice;

use engine::{Engine, MuxCall};
use libc::{c_int, epoll_event, nfds_t, pollfd, sigset_t, size_t, timespec};

use super::hook;
use crate::call;
use crate::epoll_waits;
use crate::guard::contained;
use crate::real;
use crate::runtime::{self, Device};

pub(super) const NSEC_PER_SEC: u64 = 1_000_000_000;
/// The longest tick of any kernel (`CONFIG_HZ=100`).
const TICK_NSEC_MAX: u64 = 10_000_000;

fn msec_to_nsec(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|msec| msec * 1_000_000)
}

/// `Err`: not a time; the kernel says what it thinks of it.
pub(super) fn timespec_to_nsec(timeout: Option<&timespec>) -> Result<Option<u64>, ()> {
    let Some(timeout) = timeout else {
        return Ok(None);
    };
    let (sec, nsec) = (
        u64::try_from(timeout.tv_sec),
        u64::try_from(timeout.tv_nsec),
    );
    match (sec, nsec) {
        (Ok(sec), Ok(nsec)) if nsec < NSEC_PER_SEC => {
            Ok(Some(sec.saturating_mul(NSEC_PER_SEC).saturating_add(nsec)))
        }
        _ => Err(()),
    }
}

/// `poll(2)` with sockets of ours among the descriptors. `None`: there are none.
pub(super) fn poll_ours(
    engine: &'static Engine<Device>,
    fds: &mut [pollfd],
    timeout_nsec: Option<u64>,
    mask: *const sigset_t,
    kernel: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let polled = contained(|| engine.polled_sockets(fds)).ok().flatten()?;
    let mask = (!mask.is_null()).then_some(mask);
    let mut call = MuxCall::begin(engine.settings(), timeout_nsec, mask.is_none());
    Some(call::wait(
        &mut call,
        mask,
        |call| engine.poll(call, fds, &polled),
        kernel,
    ))
}

hook! {
    /// `poll(2)`
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::poll(fds, count, timeout) };
        // SAFETY: the descriptors are the caller's.
        let Some(list) = (unsafe { descriptors(fds, count) }) else { return kernel() };
        let Some(engine) = runtime::engine() else { return kernel() };
        poll_ours(engine, list, msec_to_nsec(timeout), std::ptr::null(), kernel).unwrap_or_else(kernel)
    }
}

hook! {
    /// `poll(2)` with `_FORTIFY_SOURCE`
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int {
        if (size / size_of::<pollfd>()) < count as usize {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would overflow.
            return unsafe { real::__poll_chk(fds, count, timeout, size) };
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { poll(fds, count, timeout) }
    }
}

hook! {
    /// `ppoll(2)`
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::ppoll(fds, count, timeout, mask) };
        // SAFETY: the descriptors are the caller's.
        let list = unsafe { descriptors(fds, count) };
        let Some(engine) = runtime::engine() else { return kernel() };
        // SAFETY: the timeout is the caller's, null or readable.
        let wait = timespec_to_nsec(unsafe { timeout.as_ref() });
        let (Some(list), Ok(wait)) = (list, wait) else { return kernel() };
        poll_ours(engine, list, wait, mask, kernel).unwrap_or_else(kernel)
    }
}

hook! {
    /// `ppoll(2)` with `_FORTIFY_SOURCE`
    fn __ppoll_chk(
        fds: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t,
        size: size_t,
    ) -> c_int {
        if (size / size_of::<pollfd>()) < count as usize {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would overflow.
            return unsafe { real::__ppoll_chk(fds, count, timeout, mask, size) };
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { ppoll(fds, count, timeout, mask) }
    }
}

/// # Safety
/// `fds` must be null or valid for `count` entries.
unsafe fn descriptors<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    let count = usize::try_from(count).ok()?;
    // SAFETY: the caller's promise; null is handled.
    let list = (!fds.is_null()).then(|| unsafe { slice::from_raw_parts_mut(fds, count) })?;
    runtime::recall_all(list.iter().map(|polled| polled.fd));
    Some(list)
}

hook! {
    /// `epoll_ctl(2)`
    fn epoll_ctl(epfd: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        if operation != libc::EPOLL_CTL_DEL {
            runtime::recall(fd);
        }
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::epoll_ctl(epfd, operation, fd, event) };
        if operation == libc::EPOLL_CTL_ADD {
            engine::epoll_may_be_shared(fd);
        }
        if result == 0 && let Some(engine) = runtime::engine() && engine.look_up(fd).is_some() {
            // SAFETY: the kernel has just read the event, or does not want one.
            let event = (!event.is_null()).then(|| unsafe { event.read_unaligned() });
            let was_ours = engine.look_up(epfd).is_some();
            let _ = contained(|| {
                engine.epoll_changed(epfd, operation, fd, event);
                if !was_ours
                    && epoll_waits::waiting(epfd) > 0
                    && let Some((_, set)) = runtime::epoll(epfd)
                {
                    set.evict_kernel_waiters();
                }
            });
        }
        result
    }
}

/// The arguments that the three forms of `epoll_wait(2)` have in common.
#[derive(Clone, Copy)]
struct EpollWait {
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout_nsec: Option<u64>,
    mask: *const sigset_t,
}

/// The three forms of `epoll_wait(2)`. `kernel` makes the call to the kernel.
///
/// # Safety
/// `call.events` must be valid for `call.max` entries.
#[inline]
unsafe fn epoll_wait_any(call: EpollWait, kernel: impl Fn() -> c_int) -> c_int {
    if runtime::epoll(call.epfd).is_some() {
        // SAFETY: the caller's promise.
        return unsafe { wait_for_ours(call, &kernel) }.unwrap_or_else(kernel);
    }
    if call.timeout_nsec == Some(0) {
        return kernel();
    }
    let begun_nsec = call.timeout_nsec.map(|_| engine::tick_nsec());
    let waiting = epoll_waits::enter(call.epfd);
    if runtime::look_up(call.epfd).is_some() {
        waiting.leave();
        // SAFETY: the caller's promise.
        return unsafe { wait_for_ours(call, &kernel) }.unwrap_or_else(kernel);
    }
    let result = kernel();
    let still_waiting = waiting.leave();
    match usize::try_from(result) {
        Ok(found @ 1..) if runtime::look_up(call.epfd).is_some() => {
            // SAFETY: the caller's promise; the kernel has written that many events.
            unsafe { called_back(call, found, still_waiting, begun_nsec, &kernel) }
        }
        _ => result,
    }
}

/// Waits for a set with sockets of ours in it. `None`: the call is for the kernel.
///
/// # Safety
/// That of `epoll_wait_any`.
#[inline(never)]
unsafe fn wait_for_ours(call: EpollWait, kernel: &impl Fn() -> c_int) -> Option<c_int> {
    let (engine, set) = runtime::epoll(call.epfd)?;
    let max = usize::try_from(call.max).ok().filter(|max| *max > 0)?;
    if call.events.is_null() {
        return None;
    }
    // SAFETY: not null, and valid for `max` entries (the caller's promise).
    let events = unsafe { slice::from_raw_parts_mut(call.events, max) };
    let mask = (!call.mask.is_null()).then_some(call.mask);
    let mut wait = MuxCall::begin(engine.settings(), call.timeout_nsec, mask.is_none());
    Some(call::wait(
        &mut wait,
        mask,
        |wait| engine.epoll_wait(set, wait, events),
        kernel,
    ))
}

/// The set became ours while this thread waited in the kernel: what that reported may be the library's own event.
///
/// # Safety
/// That of `epoll_wait_any`; the kernel must have written `found` events.
#[cold]
unsafe fn called_back(
    call: EpollWait,
    found: usize,
    still_waiting: u32,
    begun_nsec: Option<u64>,
    kernel: &impl Fn() -> c_int,
) -> c_int {
    let reported = found as c_int;
    let Some((_, set)) = runtime::epoll(call.epfd) else {
        return reported;
    };
    // SAFETY: the caller's promise.
    let events = unsafe { slice::from_raw_parts_mut(call.events, found) };
    match contained(|| set.take_out_eviction(events, still_waiting == 0)) {
        Ok(0) => {
            // The cheap clock is late by up to a tick: rather wait longer than too short.
            let until_nsec = engine::tick_nsec().saturating_sub(TICK_NSEC_MAX);
            let passed = begun_nsec.map_or(0, |begun| until_nsec.saturating_sub(begun));
            let timeout_nsec = call
                .timeout_nsec
                .map(|timeout| timeout.saturating_sub(passed));
            // SAFETY: the caller's promise.
            unsafe {
                wait_for_ours(
                    EpollWait {
                        timeout_nsec,
                        ..call
                    },
                    kernel,
                )
            }
            .unwrap_or(0)
        }
        Ok(kept) => c_int::try_from(kept).unwrap_or(reported),
        Err(_) => reported,
    }
}

hook! {
    /// `epoll_wait(2)`
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::epoll_wait(epfd, events, max, timeout) };
        let timeout_nsec = msec_to_nsec(timeout);
        let call = EpollWait { epfd, events, max, timeout_nsec, mask: std::ptr::null() };
        // SAFETY: as above.
        unsafe { epoll_wait_any(call, kernel) }
    }
}

hook! {
    /// `epoll_pwait(2)`
    fn epoll_pwait(
        epfd: c_int,
        events: *mut epoll_event,
        max: c_int,
        timeout: c_int,
        mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::epoll_pwait(epfd, events, max, timeout, mask) };
        let timeout_nsec = msec_to_nsec(timeout);
        // SAFETY: as above.
        unsafe { epoll_wait_any(EpollWait { epfd, events, max, timeout_nsec, mask }, kernel) }
    }
}

hook! {
    /// `epoll_pwait2(2)`
    fn epoll_pwait2(
        epfd: c_int,
        events: *mut epoll_event,
        max: c_int,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::epoll_pwait2(epfd, events, max, timeout, mask) };
        // SAFETY: the timeout is the caller's, null or readable.
        let Ok(timeout_nsec) = timespec_to_nsec(unsafe { timeout.as_ref() }) else {
            return kernel();
        };
        // SAFETY: as above.
        unsafe { epoll_wait_any(EpollWait { epfd, events, max, timeout_nsec, mask }, kernel) }
    }
}
