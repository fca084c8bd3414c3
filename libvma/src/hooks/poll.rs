//! `poll(2)`.

use descriptors::own;
use engine::calls::nsec_of_msec;
use engine::user_memory::is_writable;
use engine::{Engine, MuxCall, poll_now};
use libc::{c_int, nfds_t, pollfd, sigset_t, size_t, timespec};

use super::define::hook;
use super::list::with_list;
use super::numbers::is_own;
use super::waits::{MANY, is_bad_mask, timespec_at};
use crate::guard::{contained, fail};
use crate::process_state::{self, Device};
use crate::{adoption, call, real, runtime};

/// `poll(2)` with sockets of ours among the descriptors, or `select(2)` if `of_select` makes the
/// call one. `None`: there are none.
#[inline]
pub(super) fn poll_ours(
    engine: &'static Engine<Device>,
    fds: &mut [pollfd],
    timeout_nsec: Option<u64>,
    mask: *const sigset_t,
    of_select: bool,
    kernel: impl FnOnce() -> c_int,
) -> Option<c_int> {
    // Mostly there are none, which costs less to see than what surrounds a decision.
    if fds.iter().all(|polled| engine.look_up(polled.fd).is_none()) {
        return None;
    }
    call::cancellation_point();
    poll_any(engine, fds, timeout_nsec, mask, of_select, kernel)
}

/// More than any descriptor can be (`fs.nr_open`).
const NOT_OPEN: c_int = c_int::MAX;

/// `poll(2)` with numbers of the library's among the descriptors. To the program they are not open:
/// the call does not wait.
#[cold]
fn poll_with_own(fds: &mut [pollfd]) -> c_int {
    let mut seen = fds.to_vec();
    for polled in &mut seen {
        if is_own(polled.fd) {
            polled.fd = NOT_OPEN;
        }
    }
    let (entries, count) = (seen.as_mut_ptr(), seen.len());
    // No point where the thread may be cancelled.
    let kernel = || {
        // SAFETY: as many entries, which nobody else uses meanwhile.
        let seen = unsafe { std::slice::from_raw_parts_mut(entries, count) };
        poll_now(seen).map_or_else(|errno| fail(errno.0), |found| found as c_int)
    };
    let no_mask = std::ptr::null();
    let found = process_state::engine()
        .and_then(|engine| poll_any(engine, &mut seen, Some(0), no_mask, false, kernel))
        .unwrap_or_else(kernel);
    for (polled, seen) in fds.iter_mut().zip(&seen) {
        polled.revents = seen.revents;
    }
    found
}

#[inline(never)]
fn poll_any(
    engine: &'static Engine<Device>,
    fds: &mut [pollfd],
    timeout_nsec: Option<u64>,
    mask: *const sigset_t,
    of_select: bool,
    kernel: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let polled = contained(|| engine.polled_sockets(fds)).ok().flatten()?;
    let mask = (!mask.is_null()).then_some(mask);
    let mut call = MuxCall::begin(engine.settings(), timeout_nsec, mask.is_none());
    if of_select {
        call = call.of_select();
    }
    Some(call::wait(
        &mut call,
        mask,
        engine,
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
        let Some(count) = (unsafe { descriptors(fds, count) }) else { return kernel() };
        // SAFETY: writable for that many entries, and the caller's own.
        if let Some(found) = unsafe { polled_with_own(fds, count) } {
            return found;
        }
        let Some(engine) = process_state::engine() else { return kernel() };
        let wait = nsec_of_msec(timeout);
        // SAFETY: writable for that many entries, and the caller's own.
        let found = unsafe {
            with_list(fds, count, |list| poll_ours(engine, list, wait, std::ptr::null(), false, kernel))
        };
        found.unwrap_or_else(kernel)
    }
}

hook! {
    /// `poll(2)` by another name
    fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { poll(fds, count, timeout) }
    }
}

hook! {
    /// `poll(2)` with `_FORTIFY_SOURCE`
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int {
        if (size / size_of::<pollfd>()) < count as usize {
            // SAFETY: the arguments are the caller's own; the C library ends a program that would
            // overflow.
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
        let count = unsafe { descriptors(fds, count) };
        let Some(count) = count else { return kernel() };
        // SAFETY: what the timeout leads to is the caller's own.
        let Ok(wait) = (unsafe { timespec_at(timeout) }) else { return kernel() };
        if is_bad_mask(mask) {
            return kernel();
        }
        // SAFETY: writable for that many entries, and the caller's own.
        if let Some(found) = unsafe { polled_with_own(fds, count) } {
            return found;
        }
        let Some(engine) = process_state::engine() else { return kernel() };
        // SAFETY: writable for that many entries, and the caller's own.
        let found = unsafe {
            with_list(fds, count, |list| poll_ours(engine, list, wait, mask, false, kernel))
        };
        found.unwrap_or_else(kernel)
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
            // SAFETY: the arguments are the caller's own; the C library ends a program that would
            // overflow.
            return unsafe { real::__ppoll_chk(fds, count, timeout, mask, size) };
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { ppoll(fds, count, timeout, mask) }
    }
}

/// How many descriptors a call has, all writable, if the library may have to do with it. `None`: it
/// has not, or the kernel refuses the list.
///
/// # Safety
/// What `fds` leads to must be the caller's own.
#[inline]
unsafe fn descriptors(fds: *mut pollfd, count: nfds_t) -> Option<usize> {
    if process_state::engine().is_none() && !runtime::has_ancestors() && own::lowest() == c_int::MAX
    {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    let len = count.checked_mul(size_of::<pollfd>())?;
    if fds.is_null() || (count > MANY && count as u64 > descriptor_limit()) {
        return None;
    }
    // A list on many pages that is not writable everywhere is the kernel's to refuse.
    if !is_writable(fds, len) {
        return None;
    }
    // SAFETY: readable for `count` entries (checked above), and the caller's own.
    let fd = |index| unsafe { fds.wrapping_add(index).read_unaligned() }.fd;
    adoption::adopt_or_recall((0..count).map(fd));
    Some(count)
}

/// The result of a call that has numbers of the library's among its descriptors.
///
/// # Safety
/// `fds` must be valid for `count` entries.
#[inline]
unsafe fn polled_with_own(fds: *mut pollfd, count: usize) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let fd = |index| unsafe { fds.wrapping_add(index).read_unaligned() }.fd;
    if !(0..count).any(|index| is_own(fd(index))) {
        return None;
    }
    call::cancellation_point();
    // SAFETY: the caller's promise.
    Some(unsafe { with_list(fds, count, poll_with_own) })
}

/// How many descriptors `poll(2)` takes.
#[cold]
fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one limit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}
