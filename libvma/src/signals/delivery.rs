//! What becomes of a signal that has come: it waits until the thread is outside of the library,
//! comes once more, or ends the process.

use std::mem;
use std::ptr;

use libc::{c_int, c_void, siginfo_t};

use crate::{guard, process_state, real};

/// A handler of the library.
pub(super) type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// If the signal has come while the thread was inside the library, perhaps with a lock held: a
/// handler may use sockets or leave with longjmp, so it has to wait. The signal is queued again for
/// this thread and stays blocked until the thread is out, which is soon, as the call knows of the
/// handler. `false`: it need not or cannot wait.
///
/// # Safety
/// The arguments must be those of `installed`, a signal handler.
pub(super) unsafe fn waits_outside(
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
    if guard::keep_number(signal) {
        return true;
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
pub(super) fn is_fault(signal: c_int, information: &siginfo_t) -> bool {
    use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    information.si_code > 0
        && matches!(
            signal,
            SIGSEGV | SIGBUS | SIGFPE | SIGILL | SIGTRAP | SIGSYS
        )
}

/// The next delivery is to find the handler. With `SA_RESETHAND` the kernel has put the default
/// action in its place before this one; it leaves flags and mask as they are.
pub(super) fn install_again(signal: c_int, handler: Handler) {
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
pub(super) unsafe fn send_to_this_thread(signal: c_int, info: *mut siginfo_t) -> bool {
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
