//! `poll(2)`, `select(2)`, `epoll(7)`.

use std::slice;
use std::time::Instant;

use engine::{Engine, MuxCall};
use libc::{
    c_int, c_short, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval,
};

use super::hook;
use crate::call;
use crate::epoll_waits;
use crate::guard::{contained, fail};
use crate::real;
use crate::runtime::{self, Device};

const NSEC_PER_SEC: u64 = 1_000_000_000;

fn msec_to_nsec(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|msec| msec * 1_000_000)
}

/// `Err`: not a time; the kernel says what it thinks of it.
fn timespec_to_nsec(timeout: Option<&timespec>) -> Result<Option<u64>, ()> {
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
fn poll_ours(
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
    /// `select(2)`
    fn select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::select(count, read, write, except, timeout) };
        // SAFETY: the sets are the caller's.
        unsafe { recall_selected(count, [read, write, except]) };
        let Some(engine) = runtime::engine() else { return kernel() };
        // SAFETY: the timeout is the caller's, null or readable.
        let wait = match unsafe { timeout.as_ref() } {
            None => None,
            Some(time) if time.tv_sec < 0 || time.tv_usec < 0 => return kernel(),
            Some(time) => Some(
                time.tv_sec.unsigned_abs().saturating_mul(NSEC_PER_SEC)
                    .saturating_add(time.tv_usec.unsigned_abs().saturating_mul(1000)),
            ),
        };
        let begun = Instant::now();
        // SAFETY: the sets are the caller's.
        let sets = unsafe { Sets::new(count, read, write, except) };
        let Some(result) = sets.and_then(|sets| select_ours(engine, sets, wait, std::ptr::null(), kernel))
        else {
            return kernel();
        };
        // Linux leaves the time that was not slept.
        // SAFETY: null or writable, as select(2) asks.
        if let (Some(left), Some(wait)) = (unsafe { timeout.as_mut() }, wait) {
            let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let rest = wait.saturating_sub(passed);
            left.tv_sec = libc::time_t::try_from(rest / NSEC_PER_SEC).unwrap_or(libc::time_t::MAX);
            left.tv_usec = (rest % NSEC_PER_SEC / 1000) as libc::suseconds_t;
        }
        result
    }
}

hook! {
    /// `pselect(2)`
    fn pselect(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::pselect(count, read, write, except, timeout, mask) };
        // SAFETY: the sets are the caller's.
        unsafe { recall_selected(count, [read, write, except]) };
        let Some(engine) = runtime::engine() else { return kernel() };
        // SAFETY: the timeout is the caller's, null or readable.
        let wait = timespec_to_nsec(unsafe { timeout.as_ref() });
        // SAFETY: the sets are the caller's.
        let sets = unsafe { Sets::new(count, read, write, except) };
        let (Ok(wait), Some(sets)) = (wait, sets) else { return kernel() };
        select_ours(engine, sets, wait, mask, kernel).unwrap_or_else(kernel)
    }
}

/// The three sets of a `select(2)`.
struct Sets {
    fds: Vec<pollfd>,
    sets: [*mut fd_set; 3],
}

/// What makes a descriptor ready in each set (kernel `fs/select.c`).
const READY: [c_short; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR,
    libc::POLLPRI,
];
/// What is asked for.
const ASKED: [c_short; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

impl Sets {
    /// # Safety
    /// The sets must be null or valid for `count` descriptors.
    unsafe fn new(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
    ) -> Option<Self> {
        let mut this = Self {
            fds: Vec::new(),
            sets: [read, write, except],
        };
        for fd in 0..count.max(0) {
            let mut events = 0;
            for (set, asked) in this.sets.iter().zip(ASKED) {
                if set.is_null() {
                    continue;
                }
                // SAFETY: the caller's promise.
                let word = unsafe { Self::word(*set, fd) };
                // SAFETY: as above.
                if unsafe { word.read() } & Self::mask(fd) != 0 {
                    events |= asked;
                }
            }
            if events != 0 {
                this.fds.push(pollfd {
                    fd,
                    events,
                    revents: 0,
                });
            }
        }
        (!this.fds.is_empty()).then_some(this)
    }

    /// Writes the result into the application's sets and returns the number of bits set.
    fn store(&self) -> c_int {
        let mut count = 0;
        for polled in &self.fds {
            for ((set, asked), ready) in self.sets.iter().zip(ASKED).zip(READY) {
                if polled.events & asked == 0 {
                    continue;
                }
                let is_ready = polled.revents & ready != 0;
                count += c_int::from(is_ready);
                if is_ready {
                    continue;
                }
                // SAFETY: the bit was read from this set in `new`.
                let word = unsafe { Self::word(*set, polled.fd) };
                // SAFETY: as above.
                let others = unsafe { word.read() } & !Self::mask(polled.fd);
                // SAFETY: as above.
                unsafe { word.write(others) };
            }
        }
        count
    }

    /// # Safety
    /// The set must be valid for `fd`.
    unsafe fn word(set: *mut fd_set, fd: c_int) -> *mut u64 {
        // Programs with more than FD_SETSIZE descriptors pass longer sets than the type says.
        // SAFETY: the caller's promise.
        unsafe { set.cast::<u64>().add(fd.unsigned_abs() as usize / 64) }
    }

    fn mask(fd: c_int) -> u64 {
        1 << (fd.unsigned_abs() % 64)
    }
}

/// # Safety
/// The sets must be null or valid for `count` descriptors.
unsafe fn recall_selected(count: c_int, [read, write, except]: [*mut fd_set; 3]) {
    if runtime::has_ancestors() {
        // SAFETY: the caller's promise.
        let sets = unsafe { Sets::new(count, read, write, except) };
        let fds = sets.iter().flat_map(|sets| &sets.fds);
        runtime::recall_all(fds.map(|polled| polled.fd));
    }
}

/// `select(2)` with sockets of ours in the sets. `None`: there are none.
fn select_ours(
    engine: &'static Engine<Device>,
    mut sets: Sets,
    timeout_nsec: Option<u64>,
    mask: *const sigset_t,
    kernel: impl Fn() -> c_int + Copy,
) -> Option<c_int> {
    let fds = &mut sets.fds;
    let result = poll_ours(engine, fds, timeout_nsec, mask, kernel)?;
    if result < 0 {
        return Some(result);
    }
    if sets
        .fds
        .iter()
        .any(|polled| polled.revents & libc::POLLNVAL != 0)
    {
        return Some(fail(libc::EBADF));
    }
    Some(sets.store())
}

hook! {
    /// `epoll_ctl(2)`
    fn epoll_ctl(epfd: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        if operation != libc::EPOLL_CTL_DEL {
            runtime::recall(fd);
        }
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::epoll_ctl(epfd, operation, fd, event) };
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

/// The three forms of `epoll_wait(2)`. `kernel` makes the call to the kernel.
///
/// # Safety
/// `events` must be valid for `max` entries.
unsafe fn epoll_wait_any(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout_nsec: Option<u64>,
    mask: *const sigset_t,
    kernel: impl Fn() -> c_int,
) -> c_int {
    let Some(count) = usize::try_from(max)
        .ok()
        .filter(|max| *max > 0 && !events.is_null())
    else {
        return kernel();
    };
    let wait = |timeout_nsec| {
        let (engine, set) = runtime::epoll(epfd)?;
        // SAFETY: not null, and valid for `max` entries (the caller's promise).
        let events = unsafe { slice::from_raw_parts_mut(events, count) };
        let mask = (!mask.is_null()).then_some(mask);
        let mut call = MuxCall::begin(engine.settings(), timeout_nsec, mask.is_none());
        Some(call::wait(
            &mut call,
            mask,
            |call| engine.epoll_wait(set, call, events),
            &kernel,
        ))
    };
    if let Some(result) = wait(timeout_nsec) {
        return result;
    }
    if timeout_nsec == Some(0) {
        return kernel();
    }
    let begun = timeout_nsec.map(|_| Instant::now());
    epoll_waits::enter(epfd);
    if runtime::epoll(epfd).is_some() {
        epoll_waits::leave(epfd);
        return wait(timeout_nsec).unwrap_or_else(kernel);
    }
    let result = kernel();
    let still_waiting = epoll_waits::leave(epfd);
    let (Ok(found @ 1..), Some((_, set))) = (usize::try_from(result), runtime::epoll(epfd)) else {
        return result;
    };
    // SAFETY: the kernel has written that many events.
    let reported = unsafe { slice::from_raw_parts_mut(events, found) };
    match contained(|| set.take_out_eviction(reported, still_waiting == 0)) {
        Ok(0) => {
            let passed = begun.map_or(0, |begun| begun.elapsed().as_nanos());
            let passed = u64::try_from(passed).unwrap_or(u64::MAX);
            wait(timeout_nsec.map(|timeout| timeout.saturating_sub(passed))).unwrap_or(0)
        }
        Ok(kept) => c_int::try_from(kept).unwrap_or(result),
        Err(_) => result,
    }
}

hook! {
    /// `epoll_wait(2)`
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::epoll_wait(epfd, events, max, timeout) };
        // SAFETY: as above.
        unsafe { epoll_wait_any(epfd, events, max, msec_to_nsec(timeout), std::ptr::null(), kernel) }
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
        // SAFETY: as above.
        unsafe { epoll_wait_any(epfd, events, max, msec_to_nsec(timeout), mask, kernel) }
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
        let Ok(wait) = timespec_to_nsec(unsafe { timeout.as_ref() }) else { return kernel() };
        // SAFETY: as above.
        unsafe { epoll_wait_any(epfd, events, max, wait, mask, kernel) }
    }
}
