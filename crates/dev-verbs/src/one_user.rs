//! What has one user at a time, for no longer than a look at a queue.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct OneUser<T> {
    is_used: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: what is in the cell is used under the flag only, see `Use`.
unsafe impl<T: Send> Sync for OneUser<T> {}

/// The use of it.
#[derive(Debug)]
pub(crate) struct Use<'a, T>(&'a OneUser<T>);

impl<T> OneUser<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            is_used: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(crate) fn try_use(&self) -> Option<Use<'_, T>> {
        // The guard of a try in vain would end another's use.
        (!self.is_used.swap(true, Ordering::Acquire)).then(|| Use(self))
    }

    #[inline]
    pub(crate) fn use_it(&self) -> Use<'_, T> {
        loop {
            if let Some(used) = self.try_use() {
                return used;
            }
            std::hint::spin_loop();
        }
    }
}

impl<T> Deref for Use<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the flag is this user's.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Use<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Use<'_, T> {
    fn drop(&mut self) {
        self.0.is_used.store(false, Ordering::Release);
    }
}
