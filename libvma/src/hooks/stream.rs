//! Streams of the C library, whose own calls no hook sees.

use engine::Reason;
use libc::{FILE, c_char, c_int, c_void};

use super::define::hook;
use super::numbers::{self, is_own};
use super::transfer;
use crate::guard::{fail, set_errno};
use crate::{log_sink, real, runtime};

#[cfg(target_arch = "x86_64")]
mod variadic;

/// Daemons give standard error another file this way.
fn reopened(stream: *mut FILE) -> *mut FILE {
    // SAFETY: the C library has just returned the stream.
    if !stream.is_null() && unsafe { libc::fileno(stream) } == libc::STDERR_FILENO {
        log_sink::standard_error_is_for_the_log();
    }
    stream
}

/// A stream's descriptor is about to be closed.
fn closing(stream: *mut FILE) {
    if !stream.is_null() {
        // SAFETY: the stream is the caller's, open so far.
        numbers::forget(unsafe { libc::fileno(stream) });
    }
}

hook! {
    /// `fdopen(3)`: what reads and writes the stream are functions of the C library that call the
    /// kernel themselves.
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        if is_own(fd) {
            set_errno(libc::EBADF);
            return std::ptr::null_mut();
        }
        // SAFETY: the arguments are the caller's own.
        let stream = unsafe { real::fdopen(fd, mode) };
        if !stream.is_null() {
            transfer::leave_to_kernel(fd, Reason::InLibc);
        }
        stream
    }
}

/// The C library is about to write to the descriptor itself. Whether it may: not if that is the
/// library's.
fn is_left_to_printing(fd: c_int) -> bool {
    if is_own(fd) {
        return false;
    }
    // The kernel can always send datagrams.
    if runtime::stream(fd).is_some() {
        transfer::leave_to_kernel(fd, Reason::InLibc);
    }
    true
}

hook! {
    /// `vdprintf(3)`
    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
        if !is_left_to_printing(fd) {
            return fail(libc::EBADF);
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { real::vdprintf(fd, format, list) }
    }
}

hook! {
    /// `vdprintf(3)` with `_FORTIFY_SOURCE`
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int {
        if !is_left_to_printing(fd) {
            return fail(libc::EBADF);
        }
        // SAFETY: the arguments are the caller's own.
        unsafe { real::__vdprintf_chk(fd, flag, format, list) }
    }
}

hook! {
    /// `backtrace_symbols_fd(3)`
    fn backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> () {
        if is_left_to_printing(fd) {
            // SAFETY: the arguments are the caller's own.
            unsafe { real::backtrace_symbols_fd(addresses, count, fd) };
        }
    }
}

hook! {
    /// `fclose(3)`
    fn fclose(stream: *mut FILE) -> c_int {
        closing(stream);
        // SAFETY: the argument is the caller's own.
        unsafe { real::fclose(stream) }
    }
}

hook! {
    /// `freopen(3)`
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        closing(stream);
        // SAFETY: the arguments are the caller's own.
        reopened(unsafe { real::freopen(path, mode, stream) })
    }
}

hook! {
    /// `freopen(3)` of programs built for 64-bit file offsets
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        closing(stream);
        // SAFETY: the arguments are the caller's own.
        reopened(unsafe { real::freopen64(path, mode, stream) })
    }
}
