//! Signals: the library must know which handlers ran, because a call that polls in user space has to end with `EINTR` where
//! the kernel's would (signal(7)). So handlers are installed inside a wrapper, which the application never sees.

mod crash;
mod interruption;
mod stand_in;

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use engine::interrupt;
use libc::{c_int, c_void, siginfo_t};

use crate::guard;
use crate::real;

pub(crate) use crash::log_backtraces;
pub(crate) use interruption::end_calls_on_sigint;

const SIGNALS: usize = 65;

/// The application's handlers by signal number; 0 where the wrapper is not installed.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// Their flags.
static FLAGS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];

/// What `siginterrupt(3)` said last.
static INTERRUPTS: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];

/// Runs in place of the application's handler.
extern "C" fn wrapper(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(index) = index(signal) else { return };
    let flags = FLAGS[index].load(Ordering::Relaxed);
    // First: the handler may leave with longjmp.
    interrupt::handler_runs(flags & libc::SA_RESTART != 0);
    interruption::signal_came(signal);
    // SAFETY: the kernel passes both for a handler installed with SA_SIGINFO, as this one is.
    if guard::is_inside() && unsafe { wait_outside(signal, info, context) } {
        return;
    }
    let handler = HANDLERS[index].load(Ordering::Acquire);
    if handler == 0 {
        return;
    }
    if flags & libc::SA_SIGINFO != 0 {
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

/// The signal has come while the thread was inside the library, perhaps with a lock held. A handler may use sockets or leave
/// with longjmp, so it has to wait: the signal is queued again for this thread and stays blocked until the thread is out,
/// which is soon, as the call knows of the handler. `false`: it cannot wait.
///
/// # Safety
/// The arguments must be those of a signal handler.
unsafe fn wait_outside(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    let (Some(information), Some(context)) = (unsafe { info.as_ref() }, unsafe {
        context.cast::<libc::ucontext_t>().as_mut()
    }) else {
        return false;
    };
    let is_fault = information.si_code > 0
        && matches!(
            signal,
            libc::SIGSEGV
                | libc::SIGBUS
                | libc::SIGFPE
                | libc::SIGILL
                | libc::SIGTRAP
                | libc::SIGSYS
        );
    if is_fault {
        return false;
    }
    let saved = guard::errno();
    let index = index(signal).unwrap_or(0);
    if FLAGS[index].load(Ordering::Relaxed) & libc::SA_RESETHAND != 0 {
        // The kernel has reset the disposition before this delivery; the next one is to find the handler.
        // SAFETY: all-zero is a value of this struct: an empty mask.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = wrapper as *const () as usize;
        action.sa_flags = FLAGS[index].load(Ordering::Relaxed) | libc::SA_SIGINFO;
        // SAFETY: the struct is valid for the call, and sigaction(2) is async-signal-safe.
        unsafe { real::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
    // Blocked in the interrupted code, from the handler's return on.
    // SAFETY: the set is part of the context that the kernel restores.
    unsafe { libc::sigaddset(&raw mut context.uc_sigmask, signal) };
    // SAFETY: getpid and gettid have no preconditions.
    let process = unsafe { libc::syscall(libc::SYS_getpid) };
    // SAFETY: as above.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    // SAFETY: the kernel reads one siginfo.
    let queued =
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) } == 0;
    if queued {
        guard::defer(signal);
    } else {
        // SAFETY: as above.
        unsafe { libc::sigdelset(&raw mut context.uc_sigmask, signal) };
    }
    guard::set_errno(saved);
    queued
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
    let Some(index) = index(signal) else {
        // SAFETY: the caller's promise.
        return unsafe { real::sigaction(signal, new, old) };
    };
    let previous = (
        HANDLERS[index].load(Ordering::Acquire),
        FLAGS[index].load(Ordering::Relaxed),
    );
    // SAFETY: `new` is null or readable (the caller's promise).
    let asked = unsafe { new.as_ref() };
    let mut wrapped = asked.copied();
    if let Some(action) = wrapped
        .as_mut()
        .filter(|action| is_function(action.sa_sigaction))
    {
        // Before the wrapper can run.
        HANDLERS[index].store(action.sa_sigaction, Ordering::Release);
        FLAGS[index].store(action.sa_flags, Ordering::Relaxed);
        action.sa_sigaction = wrapper as *const () as usize;
        action.sa_flags |= libc::SA_SIGINFO;
    } else if let Some(action) = wrapped
        .as_mut()
        .filter(|action| action.sa_sigaction == libc::SIG_DFL)
        && let Some(stand_in) = stand_in::of_default_action(index)
    {
        *action = stand_in;
    }
    let passed = wrapped.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `passed` is null or points at our copy; `old` is the caller's.
    let result = unsafe { real::sigaction(signal, passed, old) };
    if result != 0 {
        HANDLERS[index].store(previous.0, Ordering::Release);
        FLAGS[index].store(previous.1, Ordering::Relaxed);
        return result;
    }
    // SAFETY: `old` is null or writable (the caller's promise).
    if let Some(old) = unsafe { old.as_mut() } {
        if old.sa_sigaction == wrapper as *const () as usize {
            old.sa_sigaction = previous.0;
            old.sa_flags = previous.1;
        }
        stand_in::hide(index, old);
    }
    result
}

/// `siginterrupt(3)` changes one flag of an installed handler.
pub(crate) fn restart_flag_changed(signal: c_int, interrupts: bool) {
    if let Some(index) = index(signal) {
        let flag = libc::SA_RESTART;
        INTERRUPTS[index].store(interrupts, Ordering::Relaxed);
        if interrupts {
            FLAGS[index].fetch_and(!flag, Ordering::Relaxed);
        } else {
            FLAGS[index].fetch_or(flag, Ordering::Relaxed);
        }
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
