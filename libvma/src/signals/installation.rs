//! One thread at a time installs a handler: what is published for the wrapper and what the kernel
//! knows must be of one call.
//!
//! `sigaction(2)` may be called in handlers, so every signal is blocked meanwhile.

use std::marker::PhantomData;

use crate::{guard, process_state};

/// Every signal, those of the C library's own included: a thread that is cancelled here would stop
/// all others.
const EVERY_SIGNAL: u64 = u64::MAX;

/// The thread installs handlers, until this is dropped.
pub(super) struct Installation {
    before: u64,
    /// The signal mask is the thread's.
    _not_send: PhantomData<*const ()>,
}

impl Installation {
    /// Waits until no other thread installs one.
    pub(super) fn begin() -> Self {
        let before = guard::change_mask(libc::SIG_SETMASK, EVERY_SIGNAL);
        process_state::begin_installation();
        Self {
            before,
            _not_send: PhantomData,
        }
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        process_state::end_installation();
        guard::change_mask(libc::SIG_SETMASK, self.before);
    }
}
