//! Signals: the library must know which handlers ran, because a call that polls in user space has
//! to end with `EINTR` where the kernel's would (signal(7)). So handlers are installed inside a
//! wrapper, which the application never sees.

mod action;
mod bus_error;
mod crash;
mod death;
mod installation;
mod interruption;
mod mask;
mod stand_in;

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::interrupt;
use libc::{c_int, c_void, siginfo_t};

use crate::{guard, process_state, real};
use action::Action;
use installation::Installation;

pub(crate) use bus_error::survive_truncated_statistics;
pub(crate) use crash::log_backtraces;
pub(crate) use death::hand_over_before_death;
pub(crate) use interruption::end_calls_on_sigint;
pub(crate) use mask::SignalSet;

const SIGNALS: usize = 65;

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

type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// If the signal has come while the thread was inside the library, perhaps with a lock held: a
/// handler may use sockets or leave with longjmp, so it has to wait. The signal is queued again for
/// this thread and stays blocked until the thread is out, which is soon, as the call knows of the
/// handler. `false`: it need not or cannot wait.
///
/// # Safety
/// The arguments must be those of `installed`, a signal handler.
unsafe fn waits_outside(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
    installed: Handler,
) -> bool {
    if !guard::is_inside() {
        return false;
    }
    // SAFETY: the caller's promise.
    let (Some(information), Some(context)) = (unsafe { info.as_ref() }, unsafe {
        context.cast::<libc::ucontext_t>().as_mut()
    }) else {
        return false;
    };
    if is_fault(signal, information) {
        return false;
    }
    let saved = guard::errno();
    install_again(signal, installed);
    // Blocked here, which it is not with SA_NODEFER, and in the interrupted code from the handler's
    // return on.
    guard::change_mask(libc::SIG_BLOCK, guard::set_of(signal));
    // SAFETY: the set is part of the context that the kernel restores.
    unsafe { libc::sigaddset(&raw mut context.uc_sigmask, signal) };
    // SAFETY: the caller's promise.
    let queued = unsafe { send_to_this_thread(signal, info) };
    if queued {
        guard::defer(signal);
    } else {
        // SAFETY: as above.
        unsafe { libc::sigdelset(&raw mut context.uc_sigmask, signal) };
    }
    guard::set_errno(saved);
    queued
}

/// Whether what the thread has done itself is the cause.
fn is_fault(signal: c_int, information: &siginfo_t) -> bool {
    use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    information.si_code > 0
        && matches!(
            signal,
            SIGSEGV | SIGBUS | SIGFPE | SIGILL | SIGTRAP | SIGSYS
        )
}

/// The next delivery is to find the handler. With `SA_RESETHAND` the kernel has put the default
/// action in its place before this one; it leaves flags and mask as they are.
fn install_again(signal: c_int, handler: Handler) {
    // SAFETY: all-zero is a value of this struct: the default action, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the struct is writable, and sigaction(2) is async-signal-safe.
    let known = unsafe { real::sigaction(signal, ptr::null(), &raw mut action) } == 0;
    if known && action.sa_sigaction == libc::SIG_DFL && action.sa_flags & libc::SA_RESETHAND != 0 {
        action.sa_sigaction = handler as *const () as usize;
        // SAFETY: the struct is valid for the call.
        unsafe { real::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
}

/// Queues a signal that has come once more, for this thread. Async-signal-safe.
///
/// # Safety
/// `info` must be a signal handler's.
unsafe fn send_to_this_thread(signal: c_int, info: *mut siginfo_t) -> bool {
    let (process, thread) = (stats::process_id(), process_state::thread_id());
    // SAFETY: the kernel reads one siginfo.
    if unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) } == 0 {
        return true;
    }
    // What the kernel itself has sent (Ctrl-C) cannot be repeated with its information on every
    // kernel. SAFETY: integers.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) == 0 }
}

/// Ends the process as the default action of a signal does. Returns if the kernel does not let it.
pub(crate) fn die_by(signal: c_int) {
    // SAFETY: all-zero is a value of this struct: the default action, no flags, an empty mask.
    let default: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the struct is valid for the call.
    unsafe { real::sigaction(signal, &raw const default, ptr::null_mut()) };
    let (process, thread) = (stats::process_id(), process_state::thread_id());
    // SAFETY: integers.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    guard::change_mask(libc::SIG_UNBLOCK, guard::set_of(signal));
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

fn index(signal: c_int) -> Option<usize> {
    usize::try_from(signal)
        .ok()
        .filter(|index| (1..SIGNALS).contains(index))
}

fn is_function(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}
