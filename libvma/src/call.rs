//! Runs a call on a socket of ours to its end: lets the engine decide, sleeps in the application's own system call, and
//! hands over to the kernel what is the kernel's.

use engine::{
    Engine, Errno, Follows, Message, MuxCall, MuxOutcome, Reason, RecvCall, RecvOutcome, Refusal,
    Request, SendOutcome, Sleep, UdpSocket,
};
use libc::{c_int, msghdr, sigset_t, ssize_t};

use crate::guard::{self, Refused, contained, fail};
use crate::real;
use crate::runtime::{self, Device, SignalSet};

/// A receive call on the socket that was found behind `fd`. `kernel` makes the same call to the kernel.
///
/// # Safety
/// `header` must be valid for `recvmsg(2)`.
#[inline]
pub(crate) unsafe fn receive(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    let mut call = RecvCall::begin(engine, fd, socket, flags);
    loop {
        let attempt = contained(|| {
            // SAFETY: the caller's promise.
            let mut message = unsafe { Message::new(header) };
            socket.receive(engine, &mut call, &mut message, flags)
        });
        match attempt {
            Ok(RecvOutcome::Done(len)) => return len.cast_signed(),
            Ok(RecvOutcome::Fail(Errno(errno))) => return fail(errno),
            Ok(RecvOutcome::Kernel) | Err(Refused::Inside) => {
                let result = kernel();
                socket.count_os_receive(outcome(result));
                return result;
            }
            // SAFETY: nothing is held here that a cancelled thread would leave behind.
            Ok(RecvOutcome::Again) => unsafe { real::pthread_testcancel() },
            Ok(RecvOutcome::Sleep(sleep)) => {
                if let Some(errno) =
                    sleep_until_woken(sleep, None, || call.interrupted(), || call.any_handler())
                {
                    return fail(errno);
                }
            }
            Err(Refused::Panicked) => return poisoned(engine, socket),
        }
    }
}

/// A send call on the socket that was found behind `fd`. `kernel` makes the same call to the kernel.
///
/// # Safety
/// `header` must be valid for `sendmsg(2)`.
#[inline]
pub(crate) unsafe fn send(
    engine: &'static Engine<Device>,
    fd: c_int,
    socket: &'static UdpSocket<Device>,
    header: &mut msghdr,
    flags: c_int,
    follows: Follows,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    if flags & libc::MSG_MORE != 0 && is_refused(engine, socket, Request::MoreToCome) {
        return fail(libc::EINVAL);
    }
    let attempt = contained(|| {
        // SAFETY: the caller's promise.
        let message = unsafe { Message::new(header) };
        socket.send(engine, fd, &message, flags, follows)
    });
    match attempt {
        Ok(SendOutcome::Done(len)) => len.cast_signed(),
        Ok(SendOutcome::Kernel(reason)) => {
            let result = kernel();
            socket.count_os_send(outcome(result));
            if reason == Reason::NotBound && result >= 0 {
                // The first send has bound the socket.
                addresses_changed(engine, socket);
            }
            result
        }
        Err(Refused::Inside) => kernel(),
        Err(Refused::Panicked) => poisoned(engine, socket),
    }
}

/// `poll(2)` and its like. `attempt` lets the engine decide; the caller copies results.
#[inline]
pub(crate) fn wait(
    call: &mut MuxCall,
    mask: Option<*const sigset_t>,
    mut attempt: impl FnMut(&mut MuxCall) -> MuxOutcome<Device>,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    loop {
        match contained(|| attempt(call)) {
            Ok(MuxOutcome::Done(count)) => return c_int::try_from(count).unwrap_or(c_int::MAX),
            Ok(MuxOutcome::Fail(Errno(errno))) => return fail(errno),
            // SAFETY: nothing is held here that a cancelled thread would leave behind but the call's own list of
            // descriptors.
            Ok(MuxOutcome::Again) => unsafe { real::pthread_testcancel() },
            Ok(MuxOutcome::Sleep(sleep)) => {
                let interrupted = || call.interrupted();
                if let Some(errno) = sleep_until_woken(sleep, mask, interrupted, interrupted) {
                    return fail(errno);
                }
            }
            Err(Refused::Inside | Refused::Panicked) => return kernel(),
        }
    }
}

/// Whether `VMA_EXCEPTION_HANDLING` has a request fail, with `EINVAL`. Does not return if it has the program end.
pub(crate) fn is_refused(
    engine: &'static Engine<Device>,
    socket: &'static UdpSocket<Device>,
    request: Request,
) -> bool {
    match contained(|| engine.refusal(socket, request)) {
        Ok(Some(Refusal::Fail)) => true,
        // SAFETY: abort has no preconditions, and nothing of ours is alive here.
        Ok(Some(Refusal::Abort)) => unsafe { libc::abort() },
        _ => false,
    }
}

/// The kernel's socket may have other addresses now.
pub(crate) fn addresses_changed(
    engine: &'static Engine<Device>,
    socket: &'static UdpSocket<Device>,
) {
    let _ = contained(|| {
        engine.addresses_changed(socket);
        runtime::watch_network(engine);
    });
    runtime::end_if_start_failed();
}

/// Sleeps in the application's own `ppoll(2)`. Returns the error that ends the call, if one does.
///
/// Signals stay blocked from the last look at the handlers that ran until the kernel has put the thread to sleep: a handler
/// either runs before the look, or ends the sleep.
#[cold]
fn sleep_until_woken(
    mut sleep: Sleep<Device>,
    mask: Option<*const sigset_t>,
    interrupted: impl Fn() -> bool,
    any_handler: impl Fn() -> bool,
) -> Option<c_int> {
    let saved = guard::errno();
    let mut signals = SignalSet::all();
    signals.swap_with_current();
    let mut ended = None;
    if interrupted() {
        ended = Some(libc::EINTR);
    } else {
        let timeout = sleep.timeout();
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        let (fds, count) = (sleep.fds().as_mut_ptr(), sleep.fds().len() as libc::nfds_t);
        let mask = mask.unwrap_or(signals.as_ptr());
        // SAFETY: the descriptors, the timeout and the mask are valid for the call. It is a cancellation point; what a
        // cancelled thread leaves behind is said at `Sleep`.
        let result = unsafe { real::ppoll(fds, count, timeout, mask) };
        // A handler that the library has not seen installed counts as one that interrupts.
        if result < 0 && guard::errno() == libc::EINTR && (interrupted() || !any_handler()) {
            ended = Some(libc::EINTR);
        }
    }
    signals.swap_with_current();
    let _ = contained(|| sleep.end());
    guard::set_errno(saved);
    ended
}

#[inline]
fn outcome(result: ssize_t) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno(guard::errno()))
}

/// A decision about the socket panicked: it is left alone from here on.
#[cold]
fn poisoned(engine: &'static Engine<Device>, socket: &'static UdpSocket<Device>) -> ssize_t {
    let _ = contained(|| engine.leave_to_kernel(socket, Reason::Poisoned));
    fail(libc::EIO)
}
