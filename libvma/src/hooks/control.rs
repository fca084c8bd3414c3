//! `fcntl(2)` and `ioctl(2)`.

use std::time::SystemTime;

use engine::Request;
use engine::user_memory::{is_readable, is_writable};
use libc::{c_int, c_ulong, c_void};

use super::define::hook;
use super::descriptor::{duplicated, lowest};
use super::options::is_refused;
use super::stream_calls::{self, SIOCATMARK};
use crate::guard::{contained, errno, fail};
use crate::{real, runtime};

// include/uapi/asm-generic/fcntl.h
const F_SETOWN_EX: c_int = 15;

/// What precedes `fcntl(2)`.
fn about_to_control(fd: c_int, command: c_int, argument: *mut c_void) {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETFL | libc::F_SETOWN | F_SETOWN_EX => {
            runtime::recall(fd)
        }
        libc::F_SETFD if argument.addr() & libc::FD_CLOEXEC as usize == 0 => handed_down(fd),
        _ => {}
    }
}

/// A program that a child executes shall have the descriptor.
fn handed_down(fd: c_int) {
    runtime::recall(fd);
    if let Some(engine) = runtime::look_up(fd) {
        let _ = contained(|| engine.descriptor_handed_down(fd));
    }
}

/// What follows an `fcntl(2)`.
fn controlled(fd: c_int, command: c_int, argument: *mut c_void, result: c_int) -> c_int {
    // Passed as a pointer or not, it is an int.
    let from = argument.addr() as c_int;
    match command {
        libc::F_DUPFD => duplicated(fd, lowest(fd, from, 0, result)),
        libc::F_DUPFD_CLOEXEC => duplicated(fd, lowest(fd, from, libc::O_CLOEXEC, result)),
        libc::F_SETFL if result == 0 => flags_changed(fd, result),
        libc::F_SETOWN | F_SETOWN_EX if result == 0 => owner_changed(fd, result),
        _ => result,
    }
}

hook! {
    /// `fcntl(2)`. It takes its third argument in the same register whether that is variadic or
    /// not.
    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        about_to_control(fd, command, argument);
        if is_refused_control(fd, command, argument) {
            return fail(libc::EINVAL);
        }
        // SAFETY: the arguments are the caller's own.
        controlled(fd, command, argument, unsafe { real::fcntl(fd, command, argument) })
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
        about_to_control(fd, command, argument);
        if is_refused_control(fd, command, argument) {
            return fail(libc::EINVAL);
        }
        // SAFETY: the arguments are the caller's own.
        controlled(fd, command, argument, unsafe { real::fcntl64(fd, command, argument) })
    }
}

/// Whether an `fcntl(2)` is not even to be tried.
fn is_refused_control(fd: c_int, command: c_int, argument: *mut c_void) -> bool {
    command == libc::F_SETFL
        && argument.addr() & libc::O_ASYNC as usize != 0
        && is_refused(fd, Request::SignalDriven)
}

fn flags_changed(fd: c_int, result: c_int) -> c_int {
    if let Some((engine, socket)) = runtime::udp(fd) {
        let _ = contained(|| engine.status_flags_changed(socket));
    } else if let Some((engine, socket)) = runtime::stream(fd) {
        let _ = contained(|| engine.status_flags_changed(socket));
    }
    result
}

fn owner_changed(fd: c_int, result: c_int) -> c_int {
    if let Some((engine, socket)) = runtime::stream(fd) {
        let _ = contained(|| socket.owner_was_set(engine));
    }
    result
}

// include/uapi/asm-generic/sockios.h
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;

/// For the requests for the time of the last datagram: nanoseconds in the unit of the second word
/// of the answer.
fn stamp_unit(request: c_ulong) -> Option<u64> {
    // include/uapi/asm-generic/sockios.h and linux/sockios.h: the old forms, and those with 64
    // bits.
    match request {
        0x8906 | 0x8010_8906 => Some(1000),
        0x8907 | 0x8010_8907 => Some(1),
        _ => None,
    }
}

hook! {
    /// `ioctl(2)`. It takes its third argument in the same register whether that is variadic or
    /// not.
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        match request {
            libc::FIONBIO | libc::FIOASYNC | libc::FIONREAD | FIOSETOWN | SIOCSPGRP => {
                runtime::recall(fd);
            }
            libc::FIONCLEX => handed_down(fd),
            _ => {}
        }
        if request == libc::FIOASYNC
            && runtime::udp(fd).is_some()
            && is_readable(argument, size_of::<c_int>())
            // SAFETY: readable (checked above).
            && unsafe { argument.cast::<c_int>().read_unaligned() } != 0
            && is_refused(fd, Request::SignalDriven)
        {
            return fail(libc::EINVAL);
        }
        if let Some(unit) = stamp_unit(request)
            && let Some((engine, socket)) = runtime::udp(fd)
        {
            if is_refused(fd, Request::LastStamp) {
                return fail(libc::EINVAL);
            }
            let was_ours = contained(|| engine.last_stamp_wanted(socket)).unwrap_or(false);
            // SAFETY: the argument is the caller's own.
            let result = unsafe { real::ioctl(fd, request, argument) };
            if result == 0 || errno() != libc::ENOENT || !was_ours {
                return result;
            }
            if !is_writable(argument, size_of::<[i64; 2]>()) {
                return fail(libc::EFAULT);
            }
            // Also the kernel knows of none before the first call, and says the time of the call.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let time = [now.as_secs(), u64::from(now.subsec_nanos()) / unit];
            // SAFETY: writable (checked above).
            unsafe { argument.cast::<[u64; 2]>().write_unaligned(time) };
            return 0;
        }
        // SAFETY: the argument is the caller's own.
        if let Some(result) = unsafe { stream_calls::amount(fd, request, argument) } {
            return result;
        }
        // SAFETY: the arguments are the caller's own.
        let result = unsafe { real::ioctl(fd, request, argument) };
        if result != 0 {
            return result;
        }
        match request {
            libc::FIONBIO | libc::FIOASYNC => flags_changed(fd, result),
            FIOSETOWN | SIOCSPGRP => owner_changed(fd, result),
            libc::FIONREAD => {
                let next = runtime::udp(fd)
                    .and_then(|(_, socket)| contained(|| socket.next_len_after_poll()).ok().flatten());
                if let Some(len) = next {
                    // SAFETY: the kernel has just written an int there.
                    unsafe { argument.cast::<c_int>().write_unaligned(c_int::try_from(len).unwrap_or(c_int::MAX)) };
                }
                result
            }
            _ => result,
        }
    }
}

hook! {
    /// `sockatmark(3)`: the C library asks the kernel's socket.
    fn sockatmark(fd: c_int) -> c_int {
        runtime::recall(fd);
        let mut is_at_mark: c_int = 0;
        let argument = (&raw mut is_at_mark).cast::<c_void>();
        // SAFETY: the argument has room for an int.
        match unsafe { stream_calls::amount(fd, SIOCATMARK, argument) } {
            Some(0) => is_at_mark,
            Some(result) => result,
            // SAFETY: an integer.
            None => unsafe { real::sockatmark(fd) },
        }
    }
}
