//! The threads that wait for one object. `models/tests/wait.rs` tries every interleaving.

use std::sync::{Arc, PoisonError};

use super::Waiter;
use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering};

/// The threads that wait for one object.
#[derive(Debug, Default)]
pub struct WaitQueue {
    count: AtomicU32,
    waiters: Mutex<Vec<Arc<Waiter>>>,
}

impl WaitQueue {
    /// Registers a sleeper. Before it sleeps it must look at the object once more, under the
    /// object's lock: then either it sees what was delivered, or the deliverer, who took the lock
    /// later, sees its count.
    pub fn add(&self, waiter: &Arc<Waiter>) {
        self.lock().push(Arc::clone(waiter));
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Ends a registration.
    pub fn remove(&self, waiter: &Arc<Waiter>) {
        let mut waiters = self.lock();
        if let Some(index) = waiters.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            waiters.swap_remove(index);
            self.count.fetch_sub(1, Ordering::Release);
        }
    }

    /// Wakes everybody. Called after the object changed and its lock was released.
    #[inline]
    pub fn wake_all(&self) {
        if self.count.load(Ordering::Relaxed) != 0 {
            self.wake_sleepers();
        }
    }

    #[cold]
    fn wake_sleepers(&self) {
        self.lock().iter().for_each(|waiter| waiter.wake());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Waiter>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
