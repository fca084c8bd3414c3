//! `VMA_HANDLE_SIGINTR`: Ctrl-C ends what waits inside the library.

use std::sync::atomic::{AtomicBool, Ordering};

use engine::interrupt;
use libc::{c_int, c_void, siginfo_t};

use super::stand_in;
use crate::runtime;

static ENABLED: AtomicBool = AtomicBool::new(false);

/// From here on `SIGINT` ends every call that waits.
pub(crate) fn end_calls_on_sigint() {
    if interrupt::prepare_interrupt_all().is_err() {
        log::warn!("VMA_HANDLE_SIGINTR: no descriptor is left to wake sleeping threads with");
    }
    ENABLED.store(true, Ordering::Relaxed);
    stand_in::install(libc::SIGINT, end_process);
}

/// A handler of the application is about to run. Async-signal-safe.
pub(super) fn signal_came(signal: c_int) {
    if signal == libc::SIGINT
        && ENABLED.load(Ordering::Relaxed)
        && let Some(engine) = runtime::engine()
    {
        engine.interrupt_all();
    }
}

/// In the place of the default action, which would leave the statistics file behind.
extern "C" fn end_process(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both for a handler installed with SA_SIGINFO, as this one is.
    if unsafe { super::waits_outside(signal, info, context, end_process) } {
        return;
    }
    if let Some(engine) = runtime::engine() {
        engine.process_ends_by_signal();
    }
    // SAFETY: this is a signal handler.
    unsafe { stand_in::act_as_usual(signal, info) };
}
