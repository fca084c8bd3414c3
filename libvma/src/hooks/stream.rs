//! Streams of the C library, whose own calls no hook sees.

use engine::Reason;
use libc::{FILE, c_char, c_int};

use super::descriptor::{self, is_own};
use super::{hook, transfer};
use crate::guard::set_errno;
use crate::log_sink;
use crate::real;

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
        descriptor::forget(unsafe { libc::fileno(stream) });
    }
}

hook! {
    /// `fdopen(3)`: what reads and writes the stream are functions of the C library that call the kernel themselves.
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
