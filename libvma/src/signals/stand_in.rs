//! Handlers of the library in the place of a signal's default action, where the program has no
//! handler of its own. The program does not see them: it is told `SIG_DFL`, and a handler that it
//! installs takes their place.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, siginfo_t};

use super::delivery::{Handler, send_to_this_thread};
use super::installation::Installation;
use super::number::{SIGNALS, index};
use crate::real;

/// By signal number; 0 where there is none.
static STAND_INS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// The flags that the program has set beside `SIG_DFL`, and the mask: it sees them again.
static FLAGS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];
static MASKS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];

/// Puts `handler` in the place of the default action, instead of a stand-in that there is. When it
/// runs, the default action is in force again, and [`act_as_usual`] brings it about.
pub(super) fn install(signal: c_int, handler: Handler) {
    if let Some(index) = index(signal) {
        let _alone = Installation::begin();
        STAND_INS[index].store(handler as *const () as usize, Ordering::Relaxed);
        replace_default(signal, 0);
    }
}

/// The same where there is none yet.
pub(super) fn install_first(signal: c_int, handler: Handler) {
    if index(signal).is_some_and(|index| STAND_INS[index].load(Ordering::Relaxed) == 0) {
        install(signal, handler);
    }
}

/// Where the default action is in force now, the stand-in takes its place, if there is one; the
/// program never sees the `unseen` ones of its flags. No other thread installs a handler.
/// Async-signal-safe.
pub(super) fn replace_default(signal: c_int, unseen: c_int) {
    let Some(index) = index(signal) else {
        return;
    };
    let Some(action) = of_default_action(index) else {
        return;
    };
    // SAFETY: all-zero is a value of this struct: the default action, no flags, an empty mask.
    let mut current: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the struct is writable.
    let known = unsafe { real::sigaction(signal, ptr::null(), &raw mut current) } == 0;
    if known && current.sa_sigaction == libc::SIG_DFL {
        FLAGS[index].store(current.sa_flags & !unseen, Ordering::Relaxed);
        // SAFETY: the set has at least 64 bits, the first of which are the kernel's.
        let mask = unsafe { (&raw const current.sa_mask).cast::<u64>().read_unaligned() };
        MASKS[index].store(mask, Ordering::Relaxed);
        // SAFETY: the struct is valid for the call.
        unsafe { real::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
}

/// What to install instead of `SIG_DFL`, if there is a stand-in.
fn of_default_action(index: usize) -> Option<libc::sigaction> {
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
        seen.sa_flags = FLAGS[index].load(Ordering::Relaxed);
        let mask = MASKS[index].load(Ordering::Relaxed);
        // SAFETY: the set has at least 64 bits, the first of which are the kernel's.
        unsafe { (&raw mut seen.sa_mask).cast::<u64>().write_unaligned(mask) };
    }
}

/// Lets the signal have its default action as soon as its handler, the caller, returns: a fault
/// happens once more by itself, with the registers that a core dump should show; anything else is
/// sent again.
///
/// # Safety
/// `info` must be a signal handler's.
pub(super) unsafe fn act_as_usual(signal: c_int, info: *mut siginfo_t) {
    // SAFETY: the caller's promise.
    if unsafe { info.as_ref() }.is_some_and(|info| happens_again(signal, info.si_code)) {
        return;
    }
    // SAFETY: the caller's promise.
    if !unsafe { send_to_this_thread(signal, info) } {
        // The user has as many signals queued as the limit allows (`RLIMIT_SIGPENDING`).
        // SAFETY: integers.
        unsafe { libc::syscall(libc::SYS_kill, stats::process_id(), signal) };
    }
}

/// Whether the interrupted instruction is at fault, and not an event that the kernel has told of
/// meanwhile.
fn happens_again(signal: c_int, code: c_int) -> bool {
    const BUS_MCEERR_AO: c_int = 5;
    const SEGV_MTEAERR: c_int = 8;
    match signal {
        libc::SIGSEGV => code > 0 && code != SEGV_MTEAERR,
        libc::SIGBUS => code > 0 && code != BUS_MCEERR_AO,
        libc::SIGILL | libc::SIGFPE => code > 0,
        _ => false,
    }
}
