//! Objects that are never freed, only used again.
//!
//! Any thread may look up a descriptor while another closes it. With type-stable memory the loser
//! of that race finds a live object of the right type whose generation has moved on, and no look-up
//! pays a reference count.

use std::sync::{Mutex, PoisonError};

/// A growing set of `'static` objects.
#[derive(Debug)]
pub(crate) struct Slab<T: 'static> {
    free: Mutex<Vec<&'static T>>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            free: Mutex::new(Vec::new()),
        }
    }

    /// An object that nobody uses: the one given back last, or a new one.
    pub(crate) fn take(&self, make: impl FnOnce() -> T) -> &'static T {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        free.unwrap_or_else(|| Box::leak(Box::new(make())))
    }

    /// Gives an object back. The caller has moved its generation on.
    pub(crate) fn give(&self, object: &'static T) {
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(object);
    }
}
