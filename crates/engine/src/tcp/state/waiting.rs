//! A connection that is the kernel's until an interface is free, or open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ::tcp::Options;

use crate::tcp::egress::Headers;

/// What a socket has whose `connect(2)` was the kernel's for a while.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Waiting {
    is_waiting: AtomicBool,
    /// The interface may be there: the next call looks.
    may_go_over: AtomicBool,
    /// The socket's options before it was connected. Of some a connected one says something else.
    began_with: Mutex<Option<(Options, Headers)>>,
}

impl Waiting {
    pub(in crate::tcp) fn begin(&self, options: (Options, Headers)) {
        *self
            .began_with
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(options);
        self.may_go_over.store(true, Ordering::Release);
        self.is_waiting.store(true, Ordering::Release);
    }

    pub(in crate::tcp) fn end(&self) {
        self.is_waiting.store(false, Ordering::Release);
        self.may_go_over.store(false, Ordering::Relaxed);
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

    pub(in crate::tcp) fn look_again(&self) {
        self.may_go_over.store(true, Ordering::SeqCst);
    }

    pub(in crate::tcp) fn is_to_look(&self) -> bool {
        self.may_go_over.load(Ordering::SeqCst)
    }

    /// In this order: what comes to be while the caller looks is looked for again.
    pub(in crate::tcp) fn begin_look(&self) -> bool {
        self.is_to_look() && self.may_go_over.swap(false, Ordering::SeqCst)
    }
}
