//! `VMA_HANDLE_SIGINTR`: Ctrl-C ends what waits inside the library.

use std::sync::atomic::{AtomicBool, Ordering};

use engine::interrupt;
use libc::c_int;

use super::{death, stand_in};
use crate::process_state;

static ENABLED: AtomicBool = AtomicBool::new(false);

/// From here on `SIGINT` ends every call that waits.
pub(crate) fn end_calls_on_sigint() {
    if interrupt::prepare_interrupt_all().is_err() {
        log::warn!("VMA_HANDLE_SIGINTR: no descriptor is left to wake sleeping threads with");
    }
    ENABLED.store(true, Ordering::Relaxed);
    stand_in::install(libc::SIGINT, death::dies);
}

/// A handler of the application is about to run. Async-signal-safe.
pub(super) fn signal_came(signal: c_int) {
    if signal == libc::SIGINT
        && ENABLED.load(Ordering::Relaxed)
        && let Some(engine) = process_state::engine()
    {
        engine.interrupt_all();
    }
}
