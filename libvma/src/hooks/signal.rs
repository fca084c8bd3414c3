//! Installing signal handlers.

use std::mem;

use libc::{c_int, sighandler_t};

use super::define::hook;
use crate::{real, signals};

hook! {
    /// `sigaction(2)`
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { signals::install(signal, new, old) }
    }
}

hook! {
    /// `sigaction(2)` under the C library's own name for it
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { signals::install(signal, new, old) }
    }
}

hook! {
    /// `signal(2)`: the BSD semantics of the C library, which restarts system calls.
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        bsd(signal, handler)
    }
}

hook! {
    /// `bsd_signal(3)`
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        bsd(signal, handler)
    }
}

hook! {
    /// `ssignal(3)`: the same as `signal(2)` in the C library.
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        bsd(signal, handler)
    }
}

hook! {
    /// `sysv_signal(3)`
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        system_v(signal, handler)
    }
}

hook! {
    /// What `signal(2)` is in programs built for ISO C (`-std=c99`).
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        system_v(signal, handler)
    }
}

hook! {
    /// `sigset(3)`
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
        let held = |how| {
            // SAFETY: all-zero is a value of this struct: an empty set.
            let mut set: libc::sigset_t = unsafe { mem::zeroed() };
            let mut before = set;
            // SAFETY: the set is writable, and the number is checked by the C library.
            if unsafe { libc::sigaddset(&raw mut set, signal) } != 0 {
                return None;
            }
            // SAFETY: both sets are valid for the call.
            if unsafe { libc::sigprocmask(how, &raw const set, &raw mut before) } != 0 {
                return None;
            }
            // SAFETY: the set was filled by the call.
            Some(unsafe { libc::sigismember(&raw const before, signal) } == 1)
        };
        if handler == SIG_HOLD {
            return match held(libc::SIG_BLOCK) {
                Some(true) => SIG_HOLD,
                Some(false) => signals::installed(signal),
                None => libc::SIG_ERR,
            };
        }
        let old = signals::install_simple(signal, handler, 0, None);
        if old == libc::SIG_ERR {
            return old;
        }
        match held(libc::SIG_UNBLOCK) {
            Some(true) => SIG_HOLD,
            Some(false) => old,
            None => libc::SIG_ERR,
        }
    }
}

/// `SIG_HOLD` of the C library's headers.
const SIG_HOLD: sighandler_t = 2;
/// `SA_INTERRUPT` of the kernel's headers: what is the case anyhow.
const SA_INTERRUPT: c_int = 0x2000_0000;

fn bsd(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let flags = signals::default_flags(signal);
    signals::install_simple(signal, handler, flags, Some(signal))
}

/// The handler runs once, does not block its signal, and system calls are not restarted.
fn system_v(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let flags = libc::SA_RESETHAND | libc::SA_NODEFER | SA_INTERRUPT;
    signals::install_simple(signal, handler, flags, None)
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
