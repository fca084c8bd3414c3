//! Connections that are over and that nobody has.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A list of them. Those that the internal thread has ended are still in it; their objects may be
/// in use again.
pub(in crate::tcp) struct Reaper<S> {
    sockets: Mutex<Vec<S>>,
    has_some: AtomicBool,
}

impl<S: Copy> Reaper<S> {
    pub(in crate::tcp) fn new() -> Self {
        Self {
            sockets: Mutex::default(),
            has_some: AtomicBool::new(false),
        }
    }

    pub(in crate::tcp) fn add(&self, socket: S) {
        self.sockets().push(socket);
        self.has_some.store(true, Ordering::Relaxed);
    }

    /// Whether there are some.
    #[inline]
    pub(in crate::tcp) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Relaxed)
    }

    /// Takes the one that was added last: its memory is in the cache.
    pub(in crate::tcp) fn next(&self) -> Option<S> {
        if !self.has_some() {
            return None;
        }
        let mut sockets = self.sockets();
        let next = sockets.pop();
        self.has_some.store(!sockets.is_empty(), Ordering::Relaxed);
        next
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<S>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Reaper<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reaper").finish_non_exhaustive()
    }
}
