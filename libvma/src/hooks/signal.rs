//! Installing signal handlers.

use libc::{c_int, sighandler_t};

use super::hook;
use crate::real;
use crate::signals;

hook! {
    /// `sigaction(2)`
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { signals::install(signal, new, old) }
    }
}

hook! {
    /// `signal(2)`: the BSD semantics of the C library, which restarts system calls.
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        if handler == libc::SIG_ERR {
            crate::guard::set_errno(libc::EINVAL);
            return libc::SIG_ERR;
        }
        // SAFETY: all-zero is a value of this struct: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler;
        action.sa_flags = signals::default_flags(signal);
        // SAFETY: as above.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: `sa_mask` is writable, and the number is checked by the C library.
        if unsafe { libc::sigaddset(&raw mut action.sa_mask, signal) } != 0 {
            return libc::SIG_ERR;
        }
        // SAFETY: both structs live as long as the call.
        match unsafe { signals::install(signal, &raw const action, &raw mut old) } {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

hook! {
    /// `siginterrupt(3)`
    fn siginterrupt(signal: c_int, flag: c_int) -> c_int {
        // SAFETY: integers.
        let result = unsafe { real::siginterrupt(signal, flag) };
        if result == 0 {
            signals::restart_flag_changed(signal, flag != 0);
        }
        result
    }
}
