//! This process's listeners that others may share an address with.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sockets::strangers::Strangers;

/// This process's listeners with the option.
#[derive(Debug, Default)]
pub(in crate::tcp) struct SharedListeners {
    /// Inode numbers of those past the kernel, or that wait for an interface, and of those that
    /// were closed there and that the kernel may list still: no strangers.
    pub(in crate::tcp) own: Mutex<HashSet<u64>>,
    /// Listeners of other processes.
    pub(in crate::tcp) strangers: Strangers,
    /// Those of one address go back to the kernel. Under the control lock.
    pub(in crate::tcp) are_leaving: AtomicBool,
}

impl SharedListeners {
    pub(in crate::tcp) fn own(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
