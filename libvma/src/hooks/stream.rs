//! Streams of the C library, whose own calls no hook sees.

use libc::{FILE, c_char};

use super::hook;
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

hook! {
    /// `freopen(3)`
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        // SAFETY: the arguments are the caller's own.
        reopened(unsafe { real::freopen(path, mode, stream) })
    }
}

hook! {
    /// `freopen(3)` of programs built for 64-bit file offsets
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        // SAFETY: the arguments are the caller's own.
        reopened(unsafe { real::freopen64(path, mode, stream) })
    }
}
