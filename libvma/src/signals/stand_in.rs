//! Handlers of the library in the place of a signal's default action, where the program has no handler of its own. The program
//! does not see them: it is told `SIG_DFL`, and a handler that it installs takes their place.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_int, siginfo_t};

use super::{Handler, SIGNALS};
use crate::real;

/// By signal number; 0 where there is none.
static STAND_INS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// Puts `handler` in the place of the default action. When it runs, the default action is in force again, and
/// [`act_as_usual`] brings it about.
pub(super) fn install(signal: c_int, handler: Handler) {
    let Some(index) = super::index(signal) else {
        return;
    };
    STAND_INS[index].store(handler as *const () as usize, Ordering::Relaxed);
    // SAFETY: all-zero is a value of this struct: the default action, no flags, an empty mask.
    let mut current: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the struct is writable.
    let known = unsafe { real::sigaction(signal, ptr::null(), &raw mut current) } == 0;
    if known
        && current.sa_sigaction == libc::SIG_DFL
        && let Some(action) = of_default_action(index)
    {
        // SAFETY: the struct is valid for the call.
        unsafe { real::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
}

/// What to install where the program asks for `SIG_DFL`, if there is a stand-in.
pub(super) fn of_default_action(index: usize) -> Option<libc::sigaction> {
    let handler = STAND_INS[index].load(Ordering::Relaxed);
    if handler == 0 {
        return None;
    }
    // SAFETY: all-zero is a value of this struct: an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
    Some(action)
}

/// What the program sees of an action that may be a stand-in's.
pub(super) fn hide(index: usize, seen: &mut libc::sigaction) {
    let stand_in = STAND_INS[index].load(Ordering::Relaxed);
    if stand_in != 0 && seen.sa_sigaction == stand_in {
        seen.sa_sigaction = libc::SIG_DFL;
        seen.sa_flags = 0;
    }
}

/// Lets the signal have its default action as soon as its handler, the caller, returns: a fault happens once more by itself,
/// with the registers that a core dump should show; anything else is sent again.
///
/// # Safety
/// `info` must be a signal handler's.
pub(super) unsafe fn act_as_usual(signal: c_int, info: *mut siginfo_t) {
    // SAFETY: the caller's promise.
    let is_fault = unsafe { info.as_ref() }.is_some_and(|info| info.si_code > 0);
    if is_fault && matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { super::send_to_this_thread(signal, info) };
}
