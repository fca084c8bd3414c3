//! `SIGBUS`: the statistics file was truncated, or the program's own affair.

use libc::{c_int, c_void, siginfo_t};

use super::delivery::install_again;
use super::{death, stand_in};

/// From here on the process survives that its statistics file is truncated, unless a thread has the
/// signal blocked.
pub(crate) fn survive_truncated_statistics() {
    stand_in::install(libc::SIGBUS, bus_error);
}

/// Whether a signal that has come is that, and the interrupted code can go on. Async-signal-safe.
///
/// # Safety
/// `info` must be a signal handler's.
pub(super) unsafe fn is_survived(signal: c_int, info: *mut siginfo_t) -> bool {
    // SAFETY: the caller's promise.
    let fault = unsafe { info.as_ref() }.filter(|info| signal == libc::SIGBUS && info.si_code > 0);
    // SAFETY: a fault carries its address.
    fault.is_some_and(|info| stats::survive_truncation(unsafe { info.si_addr() }.addr()))
}

/// In the place of the default action.
extern "C" fn bus_error(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes it for a handler installed with SA_SIGINFO, as this one is.
    if unsafe { is_survived(signal, info) } {
        // The next thread may stumble, too.
        install_again(signal, bus_error);
        return;
    }
    death::hand_over();
    // SAFETY: this is a signal handler.
    unsafe { stand_in::act_as_usual(signal, info) };
}
