//! When packets arrived: the device notes it as long as a socket asks for time stamps, so that no
//! other packets pay for it.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who asks for it, and since when the device notes it.
#[derive(Debug)]
pub(super) struct Stamps {
    /// How many sockets do.
    pub(super) wanted_by: Mutex<u32>,
    /// [`NEVER`] if it does not.
    pub(super) since_nsec: AtomicU64,
}

pub(super) const NEVER: u64 = u64::MAX;

impl Default for Stamps {
    fn default() -> Self {
        Self {
            wanted_by: Mutex::new(0),
            since_nsec: AtomicU64::new(NEVER),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
