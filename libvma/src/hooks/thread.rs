//! What threads say about themselves.

use libc::c_int;

use super::define::hook;
use crate::{guard, real};

/// `PTHREAD_CANCEL_ASYNCHRONOUS` of the C library's headers.
const ASYNCHRONOUS: c_int = 1;

hook! {
    /// `pthread_setcanceltype(3)`: a thread that may be cancelled at any instruction must not be
    /// while it is in the library.
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
        // Before the thread can be cancelled, so that the note is made.
        guard::may_be_cancelled_anywhere(kind == ASYNCHRONOUS);
        // SAFETY: the arguments are the caller's own.
        unsafe { real::pthread_setcanceltype(kind, old) }
    }
}
