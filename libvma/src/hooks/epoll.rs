//! `epoll(7)`.

use std::ptr;

use engine::calls::nsec_of_msec;
use engine::user_memory::{is_readable, writable_entries};
use engine::{Engine, EpollSet, Errno, MuxCall};
use libc::{c_int, epoll_event, sigset_t, timespec};

use super::define::hook;
use super::list::with_list;
use super::numbers::is_own;
use super::waits::{MANY, is_bad_mask, timespec_at};
use crate::guard::{NotRun, contained, fail};
use crate::process_state::{self, Device};
use crate::{adoption, call, epoll_waits, real, runtime};

/// The longest tick of any kernel (`CONFIG_HZ=100`).
const TICK_NSEC_MAX: u64 = 10_000_000;

hook! {
    /// `epoll_ctl(2)`
    fn epoll_ctl(epfd: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        if is_own(epfd) || is_own(fd) {
            return fail(libc::EBADF);
        }
        if operation != libc::EPOLL_CTL_DEL {
            adoption::adopt_inherited(fd);
            runtime::recall(fd);
        }
        // SAFETY: as the caller's promise.
        if let Some(result) = unsafe { epoll_ctl_here(epfd, operation, fd, event) } {
            return result;
        }
        if operation == libc::EPOLL_CTL_ADD {
            // SAFETY: the arguments are the caller's own.
            return unsafe { epoll_add(epfd, fd, event) };
        }
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::epoll_ctl(epfd, operation, fd, event) };
        if result == 0 && let Some(engine) = process_state::engine() && engine.follows_in_epoll(fd) {
            let has_event = operation != libc::EPOLL_CTL_DEL;
            // SAFETY: the kernel has just read the event.
            let event = has_event.then(|| unsafe { event.read_unaligned() });
            let _ = contained(|| engine.epoll_changed(epfd, operation, fd, event));
        }
        result
    }
}

/// `EPOLL_CTL_ADD`
///
/// # Safety
/// That of `epoll_ctl(2)`.
unsafe fn epoll_add(epfd: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    engine::epoll_may_be_shared(fd);
    let engine = process_state::engine().filter(|engine| engine.follows_in_epoll(fd));
    let Some(engine) = engine.filter(|_| is_readable(event, size_of::<epoll_event>())) else {
        // SAFETY: the caller's promise.
        return unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, event) };
    };
    // SAFETY: readable (checked above).
    let asked = unsafe { event.read_unaligned() };
    let mut silent = engine.event_for_kernel(fd, asked);
    let given = silent.as_mut().map_or(event, ptr::from_mut);
    // SAFETY: an event of ours, or the caller's promise.
    let result = unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, given) };
    if result == 0 {
        let was_ours = engine.look_up(epfd).is_some();
        let _ = contained(|| {
            engine.epoll_added(epfd, fd, asked, silent.is_some());
            if !was_ours
                && let Some((engine, set)) = runtime::epoll(epfd)
                && epoll_waits::any(|number| engine.may_stand_for(number, set))
            {
                set.evict_kernel_waiters();
            }
        });
    }
    result
}

/// `epoll_ctl(2)` on a socket that the kernel knows nothing of. `None`: the call is for the kernel.
///
/// # Safety
/// `event` is the caller's own, and may be anything.
#[inline]
unsafe fn epoll_ctl_here(
    epfd: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> Option<c_int> {
    let engine = process_state::engine()?;
    if !engine.follows_in_epoll(fd) {
        return None;
    }
    let has_event = operation != libc::EPOLL_CTL_DEL;
    if has_event && !is_readable(event, size_of::<epoll_event>()) {
        return None;
    }
    // SAFETY: readable (checked above).
    let event = has_event.then(|| unsafe { event.read_unaligned() });
    match contained(|| engine.epoll_control(epfd, operation, fd, event)) {
        Ok(Some(Ok(()))) => Some(0),
        Ok(Some(Err(Errno(errno)))) => Some(fail(errno)),
        Ok(None) | Err(_) => None,
    }
}

/// What the program has not registered, or not any more, is not in the kernel's set either.
pub(super) fn forget_registration(epfd: c_int, fd: c_int) {
    if let Some(engine) = process_state::engine().filter(|engine| engine.look_up(fd).is_some()) {
        // SAFETY: no event is read.
        unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) };
        let _ = contained(|| engine.epoll_changed(epfd, libc::EPOLL_CTL_DEL, fd, None));
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
    if let Some((engine, set)) = runtime::epoll(call.epfd) {
        // SAFETY: the caller's promise.
        return unsafe { wait_for_watched(engine, set, call, &kernel) };
    }
    if is_own(call.epfd) {
        return fail(libc::EBADF);
    }
    if call.timeout_nsec == Some(0) {
        return kernel();
    }
    let waiting = epoll_waits::enter(call.epfd);
    if let Some((engine, set)) = runtime::epoll(call.epfd) {
        waiting.leave();
        // SAFETY: the caller's promise.
        return unsafe { wait_for_watched(engine, set, call, &kernel) };
    }
    let begun_nsec = call.begun_nsec();
    let found = kernel();
    let number_stays = waiting.leave();
    if found <= 0 {
        return found;
    }
    // SAFETY: the kernel has written that many events.
    match unsafe { watched_meanwhile(call, found, number_stays) } {
        Some((engine, set)) => {
            // SAFETY: the kernel has written that many events.
            let kept = unsafe {
                call.with_events(found, |events| {
                    contained(|| set.take_out_eviction(events, || is_waited_for(engine, set)))
                })
            };
            // SAFETY: the caller's promise.
            unsafe { back_from_kernel(engine, set, call, found, kept, begun_nsec) }
        }
        None => found,
    }
}

/// The set that the kernel has waited for, if it has come to be watched meanwhile.
///
/// # Safety
/// `call.events` must be valid for `found` entries.
#[inline]
unsafe fn watched_meanwhile(
    call: EpollWait,
    found: c_int,
    number_stays: bool,
) -> Option<(&'static Engine<Device>, &'static EpollSet<Device>)> {
    if number_stays && let Some(known) = runtime::epoll(call.epfd) {
        return Some(known);
    }
    // Closed meanwhile, or a copy that no hook has seen: what has called the thread back tells.
    let engine = process_state::engine().filter(|_| engine::epoll_has_called_back())?;
    let copy = number_stays.then_some(call.epfd);
    // SAFETY: the caller's promise.
    let set = unsafe {
        call.with_events(found, |events| {
            contained(|| engine.called_back_by(events, copy))
        })
    };
    set.ok().flatten().map(|set| (engine, set))
}

/// Whether threads wait in the kernel for a set that is watched.
fn is_waited_for(engine: &Engine<Device>, set: &'static EpollSet<Device>) -> bool {
    set.has_kernel_waiters() || epoll_waits::any(|number| engine.may_stand_for(number, set))
}

impl EpollWait {
    /// The time by the kernel's tick, which costs little, if the call is to end some time.
    #[inline]
    fn begun_nsec(&self) -> Option<u64> {
        self.timeout_nsec.map(|_| engine::tick_nsec())
    }

    /// Shows the first `count` events.
    ///
    /// # Safety
    /// If `count` is positive, `self.events` must be valid for that many.
    #[inline]
    unsafe fn with_events<R>(
        &self,
        count: c_int,
        use_events: impl FnOnce(&mut [epoll_event]) -> R,
    ) -> R {
        match usize::try_from(count) {
            // SAFETY: the caller's promise.
            Ok(count @ 1..) => unsafe { with_list(self.events, count, use_events) },
            _ => use_events(&mut []),
        }
    }
}

/// Waits for a set that sockets of ours are in, be they accelerated or not.
///
/// # Safety
/// That of `epoll_wait_any`.
#[inline]
unsafe fn wait_for_watched(
    engine: &'static Engine<Device>,
    set: &'static EpollSet<Device>,
    call: EpollWait,
    kernel: &impl Fn() -> c_int,
) -> c_int {
    let waits_in_kernel = engine.enters_kernel_wait(set)
        || (contained(|| set.refresh_interfaces()).is_ok() && engine.enters_kernel_wait(set));
    if !waits_in_kernel {
        // SAFETY: the caller's promise.
        return unsafe { wait_for_ours(engine, set, call, kernel) };
    }
    let begun_nsec = call.begun_nsec();
    let silence_before = engine::silence_changes();
    let found = kernel();
    set.leave_kernel_wait();
    if found <= 0 {
        return found;
    }
    // SAFETY: the kernel has written that many events.
    let kept = unsafe {
        call.with_events(found, |events| {
            contained(|| {
                set.kernel_has_reported(events, silence_before, || is_waited_for(engine, set))
            })
        })
    };
    // SAFETY: the caller's promise.
    unsafe { back_from_kernel(engine, set, call, found, kept, begun_nsec) }
}

/// The kernel has reported `found` events, of which `kept` are the program's. If none are, the
/// thread was called back because something comes past the kernel now: it goes on waiting.
///
/// # Safety
/// That of `epoll_wait_any`.
#[inline]
unsafe fn back_from_kernel(
    engine: &'static Engine<Device>,
    set: &'static EpollSet<Device>,
    call: EpollWait,
    found: c_int,
    kept: Result<usize, NotRun>,
    begun_nsec: Option<u64>,
) -> c_int {
    match kept {
        Ok(0) => {
            // The cheap clock is late by up to a tick: rather wait longer than too short.
            let until_nsec = engine::tick_nsec().saturating_sub(TICK_NSEC_MAX);
            let passed = begun_nsec.map_or(0, |begun| until_nsec.saturating_sub(begun));
            let timeout_nsec = call
                .timeout_nsec
                .map(|timeout| timeout.saturating_sub(passed));
            let rest = EpollWait {
                timeout_nsec,
                ..call
            };
            // SAFETY: the caller's promise.
            unsafe { wait_for_ours(engine, set, rest, &|| 0) }
        }
        Ok(kept) => c_int::try_from(kept).unwrap_or(found),
        Err(_) => found,
    }
}

/// Waits for a set that packets come past the kernel into.
///
/// # Safety
/// That of `epoll_wait_any`.
#[inline(never)]
unsafe fn wait_for_ours(
    engine: &'static Engine<Device>,
    set: &'static EpollSet<Device>,
    call: EpollWait,
    kernel: &impl Fn() -> c_int,
) -> c_int {
    let max = usize::try_from(call.max).unwrap_or(0);
    // More than the kernel takes (fs/eventpoll.c).
    let is_too_many = max > c_int::MAX as usize / size_of::<epoll_event>();
    let max = writable_entries(call.events, max.min(MANY));
    if max == 0 || is_too_many || is_bad_mask(call.mask) {
        return kernel();
    }
    call::cancellation_point();
    let mask = (!call.mask.is_null()).then_some(call.mask);
    let mut wait = MuxCall::begin(engine.settings(), call.timeout_nsec, mask.is_none());
    // SAFETY: writable for `max` entries (checked above).
    unsafe {
        with_list(call.events, max, |events| {
            let attempt = |wait: &mut MuxCall| engine.epoll_wait(set, wait, events);
            call::wait(&mut wait, mask, engine, attempt, kernel)
        })
    }
}

hook! {
    /// `epoll_wait(2)`
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::epoll_wait(epfd, events, max, timeout) };
        let timeout_nsec = nsec_of_msec(timeout);
        let call = EpollWait { epfd, events, max, timeout_nsec, mask: ptr::null() };
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
        let timeout_nsec = nsec_of_msec(timeout);
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
        // SAFETY: what the timeout leads to is the caller's own.
        let Ok(timeout_nsec) = (unsafe { timespec_at(timeout) }) else {
            return kernel();
        };
        // SAFETY: as above.
        unsafe { epoll_wait_any(EpollWait { epfd, events, max, timeout_nsec, mask }, kernel) }
    }
}
