//! `fcntl(2)` and `ioctl(2)`.

use std::time::SystemTime;

use engine::calls::{Fcntl, Ioctl};
use engine::user_memory::{is_readable, is_writable};
use engine::{Amount, Request};
use libc::{c_int, c_ulong, c_void};

use super::define::hook;
use super::descriptor::{duplicated, lowest};
use super::options::is_refused;
use super::stream_calls;
use crate::guard::{contained, errno, fail};
use crate::{real, runtime};

hook! {
    /// `fcntl(2)`. It takes its third argument in the same register whether that is variadic or
    /// not.
    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the arguments are the caller's own.
        control(fd, command, argument, || unsafe { real::fcntl(fd, command, argument) })
    }
}

hook! {
    /// `fcntl(2)` by another name
    fn __fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { fcntl(fd, command, argument) }
    }
}

hook! {
    /// `fcntl(2)` of programs built for 64-bit file offsets
    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the arguments are the caller's own.
        control(fd, command, argument, || unsafe { real::fcntl64(fd, command, argument) })
    }
}

/// `fcntl(2)`; `kernel` makes the same call to it.
#[inline]
fn control(
    fd: c_int,
    command: c_int,
    argument: *mut c_void,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    let kind = Fcntl::of(command, argument.addr());
    match kind {
        Fcntl::HandedDown => handed_down(fd),
        kind if kind.recalls() => runtime::recall(fd),
        _ => {}
    }
    let is_signal_driven = true;
    if kind == (Fcntl::StatusFlags { is_signal_driven }) && is_refused(fd, Request::SignalDriven) {
        return fail(libc::EINVAL);
    }
    let result = kernel();
    match kind {
        Fcntl::Duplicate { flags } => {
            let from = argument.addr() as c_int;
            return duplicated(fd, lowest(fd, from, flags, result));
        }
        Fcntl::StatusFlags { .. } if result == 0 => flags_changed(fd),
        Fcntl::Owner if result == 0 => owner_changed(fd),
        _ => {}
    }
    result
}

/// A program that a child executes shall have the descriptor.
fn handed_down(fd: c_int) {
    runtime::recall(fd);
    if let Some(engine) = runtime::look_up(fd) {
        let _ = contained(|| engine.descriptor_handed_down(fd));
    }
}

fn flags_changed(fd: c_int) {
    if let Some((engine, socket)) = runtime::udp(fd) {
        let _ = contained(|| engine.status_flags_changed(socket));
    } else if let Some((engine, socket)) = runtime::stream(fd) {
        let _ = contained(|| engine.status_flags_changed(socket));
    }
}

fn owner_changed(fd: c_int) {
    if let Some((engine, socket)) = runtime::stream(fd) {
        let _ = contained(|| socket.owner_was_set(engine));
    }
}

hook! {
    /// `ioctl(2)`. It takes its third argument in the same register whether that is variadic or
    /// not.
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        let kind = Ioctl::of(request);
        match kind {
            Ioctl::HandedDown => handed_down(fd),
            kind if kind.recalls() => runtime::recall(fd),
            _ => {}
        }
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::ioctl(fd, request, argument) };
        // SAFETY: as above.
        if let Some(result) = unsafe { answer(fd, kind, argument, kernel) } {
            return result;
        }
        let result = kernel();
        if result == 0 {
            // SAFETY: the kernel has just looked at the argument.
            unsafe { follow_request(fd, kind, argument) };
        }
        result
    }
}

/// An `ioctl(2)` that is not the kernel's, or not its alone: `kernel` makes the same call to it.
/// `None`: it is.
///
/// # Safety
/// `argument` must be the caller's own.
#[inline]
unsafe fn answer(
    fd: c_int,
    kind: Ioctl,
    argument: *mut c_void,
    kernel: impl FnOnce() -> c_int,
) -> Option<c_int> {
    match kind {
        Ioctl::SignalDriven => {
            let is_refused = runtime::udp(fd).is_some()
                // SAFETY: the caller's promise.
                && unsafe { is_set(argument.cast()) }
                && is_refused(fd, Request::SignalDriven);
            is_refused.then(|| fail(libc::EINVAL))
        }
        // SAFETY: the caller's promise.
        Ioctl::LastStamp { unit_nsec } => unsafe {
            last_stamp(fd, unit_nsec, argument.cast(), kernel)
        },
        // SAFETY: the caller's promise.
        _ => unsafe { stream_calls::amount(fd, kind.amount()?, argument) },
    }
}

/// # Safety
/// `flag` must be the caller's own.
unsafe fn is_set(flag: *const c_int) -> bool {
    // SAFETY: read only if it is readable.
    is_readable(flag, size_of::<c_int>()) && unsafe { flag.read_unaligned() } != 0
}

/// The time of the last datagram. `None`: it is the kernel's to say.
///
/// # Safety
/// `time` must be the caller's own.
unsafe fn last_stamp(
    fd: c_int,
    unit_nsec: u64,
    time: *mut [u64; 2],
    kernel: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let (engine, socket) = runtime::udp(fd)?;
    if is_refused(fd, Request::LastStamp) {
        return Some(fail(libc::EINVAL));
    }
    let was_ours = contained(|| engine.last_stamp_wanted(socket)).unwrap_or(false);
    let result = kernel();
    if result == 0 || errno() != libc::ENOENT || !was_ours {
        return Some(result);
    }
    if !is_writable(time, size_of::<[u64; 2]>()) {
        return Some(fail(libc::EFAULT));
    }
    // Also the kernel knows of none before the first call, and says the time of the call.
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let now = [now.as_secs(), u64::from(now.subsec_nanos()) / unit_nsec];
    // SAFETY: writable (checked above).
    unsafe { time.write_unaligned(now) };
    Some(0)
}

/// The kernel has done what was asked for.
///
/// # Safety
/// The kernel has just looked at the argument.
unsafe fn follow_request(fd: c_int, kind: Ioctl, argument: *mut c_void) {
    match kind {
        Ioctl::Nonblocking | Ioctl::SignalDriven => flags_changed(fd),
        Ioctl::Owner => owner_changed(fd),
        Ioctl::Readable => {
            let next = runtime::udp(fd)
                .and_then(|(_, socket)| contained(|| socket.next_len_after_poll()).ok().flatten());
            if let Some(len) = next {
                let len = c_int::try_from(len).unwrap_or(c_int::MAX);
                // SAFETY: the kernel has just written an int there.
                unsafe { argument.cast::<c_int>().write_unaligned(len) };
            }
        }
        _ => {}
    }
}

hook! {
    /// `sockatmark(3)`: the C library asks the kernel's socket.
    fn sockatmark(fd: c_int) -> c_int {
        runtime::recall(fd);
        let mut is_at_mark: c_int = 0;
        let argument = (&raw mut is_at_mark).cast::<c_void>();
        // SAFETY: the argument has room for an int.
        match unsafe { stream_calls::amount(fd, Amount::AtMark, argument) } {
            Some(0) => is_at_mark,
            Some(result) => result,
            // SAFETY: an integer.
            None => unsafe { real::sockatmark(fd) },
        }
    }
}
