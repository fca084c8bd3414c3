//! This process's listeners that others may share an address with.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// This process's listeners with the option.
#[derive(Debug, Default)]
pub(in crate::tcp) struct SharedListeners {
    /// Inode numbers of those past the kernel, or that wait for an interface, and of those that
    /// were closed there and that the kernel may list still: no strangers.
    pub(in crate::tcp) own: Mutex<HashSet<u64>>,
    /// Listeners of other processes that were seen where a broker may give them their part, and
    /// since when.
    pub(in crate::tcp) strangers: Mutex<HashMap<u64, Instant>>,
    /// Those of one address go back to the kernel. Under the control lock.
    pub(in crate::tcp) are_leaving: AtomicBool,
}

impl SharedListeners {
    pub(in crate::tcp) fn strangers(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::tcp) fn own(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
