//! A connection that is the kernel's until an interface is free, or open.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ::tcp::Options;

use crate::tcp::egress::Headers;

/// What a socket has whose `connect(2)` was the kernel's for a while.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Waiting {
    is_waiting: AtomicBool,
    /// The interface may be there: the next call looks whether the connection can go over, at most
    /// once a tick of the clock.
    is_to_look: AtomicBool,
    looked_nsec: AtomicU64,
    /// It has just come to be there: nobody sleeps before that was looked for.
    is_called: AtomicBool,
    /// The socket's options before it was connected. Of some a connected one says something else.
    began_with: Mutex<Option<(Options, Headers)>>,
}

impl Waiting {
    pub(in crate::tcp) fn begin(&self, options: (Options, Headers)) {
        *self
            .began_with
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(options);
        self.call();
        self.is_waiting.store(true, Ordering::Release);
    }

    pub(in crate::tcp) fn end(&self) {
        self.is_waiting.store(false, Ordering::Release);
        self.is_to_look.store(false, Ordering::Relaxed);
        self.is_called.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(in crate::tcp) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    pub(in crate::tcp) fn began_with(&self) -> Option<(Options, Headers)> {
        self.began_with
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The interface may be there.
    pub(in crate::tcp) fn call(&self) {
        self.is_to_look.store(true, Ordering::SeqCst);
        self.is_called.store(true, Ordering::SeqCst);
    }

    #[inline]
    pub(in crate::tcp) fn is_called(&self) -> bool {
        self.is_called.load(Ordering::SeqCst)
    }

    /// The connection could not go over in this moment.
    pub(in crate::tcp) fn look_again(&self) {
        self.is_to_look.store(true, Ordering::SeqCst);
    }

    /// Whether the caller is to look. What comes to be while it does is looked for again.
    pub(in crate::tcp) fn begin_look(&self) -> bool {
        let now = sys::tick_nsec();
        let is_due = self.is_called() || self.looked_nsec.load(Ordering::Relaxed) != now;
        if !is_due || !self.is_to_look.swap(false, Ordering::SeqCst) {
            return false;
        }
        self.is_called.store(false, Ordering::SeqCst);
        self.looked_nsec.store(now, Ordering::Relaxed);
        true
    }
}
