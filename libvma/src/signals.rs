//! Signals: the library must know which handlers ran, because a call that polls in user space has
//! to end with `EINTR` where the kernel's would (signal(7)). So handlers are installed inside a
//! wrapper, which the application never sees.

mod action;
mod bus_error;
mod crash;
mod death;
mod delivery;
mod installation;
mod interruption;
mod number;
mod stand_in;

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::interrupt;
use libc::{c_int, c_void, siginfo_t};

use crate::{guard, process_state, real};
use action::Action;
use delivery::{install_again, waits_outside};
use installation::Installation;
use number::{SIGNALS, index};

pub(crate) use bus_error::survive_truncated_statistics;
pub(crate) use crash::log_backtraces;
pub(crate) use death::hand_over_before_death;
pub(crate) use delivery::die_by;
pub(crate) use interruption::end_calls_on_sigint;

/// What `siginterrupt(3)` said last.
static INTERRUPTS: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];

/// Runs in place of the application's handler.
extern "C" fn wrapper(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(index) = index(signal) else { return };
    let action = Action::of(index);
    // SAFETY: the kernel passes it for a handler installed with SA_SIGINFO, as this one is.
    if unsafe { bus_error::is_survived(signal, info) } {
        install_again(signal, wrapper);
        return;
    }
    // First: the handler may leave with longjmp.
    let saved = guard::errno();
    interrupt::handler_runs(action.restarts());
    guard::set_errno(saved);
    interruption::signal_came(signal);
    // SAFETY: the kernel passes both for a handler installed with SA_SIGINFO, as this one is.
    if unsafe { waits_outside(signal, info, context, wrapper) } {
        return;
    }
    let handler = action.handler();
    if handler == 0 {
        return;
    }
    if action.resets() {
        let is_own = !action.takes_information();
        stand_in::replace_default(signal, if is_own { libc::SA_SIGINFO } else { 0 });
    }
    if action.takes_information() {
        // SAFETY: the application installed a handler of three arguments (SA_SIGINFO).
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            unsafe { mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: the application installed a handler of one argument.
        let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
        handler(signal);
    }
}

/// `sigaction(2)` with the wrapper around handlers.
///
/// # Safety
/// That of `sigaction(2)`.
pub(crate) unsafe fn install(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // A child of vfork(2) has handlers of its own, but its parent's memory.
    let Some(index) = index(signal).filter(|_| !process_state::is_vfork_child()) else {
        // SAFETY: the caller's promise.
        let result = unsafe { real::sigaction(signal, new, old) };
        if let (0, Some(index)) = (result, index(signal)) {
            // SAFETY: `old` is null or writable (the caller's promise).
            unsafe { show_at(index, old, Action::of(index)) };
        }
        return result;
    };
    // SAFETY: `new` is null or readable (the caller's promise).
    let mut passed = (!new.is_null()).then(|| unsafe { new.read_unaligned() });
    let asks = passed.is_some_and(|action| is_function(action.sa_sigaction));
    let _alone = passed.is_some().then(Installation::begin);
    let previous = Action::of(index);
    if let Some(action) = passed.as_mut() {
        if action.sa_sigaction == wrapper as *const () as usize {
            // The C library has told of it in a way that no hook sees.
            action.sa_flags |= libc::SA_SIGINFO;
        } else if is_function(action.sa_sigaction) {
            // Before the wrapper can run.
            if let Some(asked) = Action::new(action.sa_sigaction, action.sa_flags) {
                asked.publish(index);
                action.sa_sigaction = wrapper as *const () as usize;
                action.sa_flags |= libc::SA_SIGINFO;
            }
        }
    }
    let given = passed.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `given` is null or points at our copy; `old` is the caller's.
    let result = unsafe { real::sigaction(signal, given, old) };
    if result != 0 {
        if asks {
            previous.publish(index);
        }
        return result;
    }
    // SAFETY: `old` is null or writable (the caller's promise).
    unsafe { show_at(index, old, previous) };
    if let Some(action) = passed
        && action.sa_sigaction == libc::SIG_DFL
    {
        stand_in::replace_default(signal, 0);
    }
    result
}

/// # Safety
/// `old` must be null, or writable and filled in.
unsafe fn show_at(index: usize, old: *mut libc::sigaction, known: Action) {
    if !old.is_null() {
        // SAFETY: the caller's promise.
        let mut seen = unsafe { old.read_unaligned() };
        show(index, &mut seen, known);
        // SAFETY: the caller's promise.
        unsafe { old.write_unaligned(seen) };
    }
}

/// Makes of what the kernel has what the program has installed.
fn show(index: usize, seen: &mut libc::sigaction, known: Action) {
    if seen.sa_sigaction == wrapper as *const () as usize {
        seen.sa_sigaction = known.handler();
        if !known.takes_information() {
            seen.sa_flags &= !libc::SA_SIGINFO;
        }
    }
    stand_in::hide(index, seen);
}

/// What `signal(2)` and its like do: installs a handler with `flags`, during which `blocked`
/// signals wait. Returns the one before, or `SIG_ERR`.
pub(crate) fn install_simple(
    signal: c_int,
    handler: libc::sighandler_t,
    flags: c_int,
    blocked: Option<c_int>,
) -> libc::sighandler_t {
    if handler == libc::SIG_ERR {
        guard::set_errno(libc::EINVAL);
        return libc::SIG_ERR;
    }
    // SAFETY: all-zero is a value of this struct: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { mem::zeroed() };
    if let Some(blocked) = blocked
        // SAFETY: `sa_mask` is writable, and the number is checked by the C library.
        && unsafe { libc::sigaddset(&raw mut action.sa_mask, blocked) } != 0
    {
        return libc::SIG_ERR;
    }
    // SAFETY: both structs live as long as the call.
    match unsafe { install(signal, &raw const action, &raw mut old) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// What is installed for a signal, or `SIG_ERR`.
pub(crate) fn installed(signal: c_int) -> libc::sighandler_t {
    // SAFETY: all-zero is a value of this struct.
    let mut old: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the struct lives as long as the call.
    match unsafe { install(signal, ptr::null(), &raw mut old) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// `siginterrupt(3)` changes one flag of an installed handler.
pub(crate) fn restart_flag_changed(signal: c_int, interrupts: bool) {
    if let Some(index) = index(signal) {
        INTERRUPTS[index].store(interrupts, Ordering::Relaxed);
        action::set_restart(index, !interrupts);
    }
}

/// The flags with which `signal(2)` installs a handler.
pub(crate) fn default_flags(signal: c_int) -> c_int {
    let interrupts = index(signal).is_some_and(|index| INTERRUPTS[index].load(Ordering::Relaxed));
    if interrupts { 0 } else { libc::SA_RESTART }
}

fn is_function(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}
