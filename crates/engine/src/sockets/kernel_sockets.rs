//! Sockets that are not accelerated from their beginning on, kept for `vma_stats` to list: an
//! operator who asks what the library does for a program sees all of its sockets. Touched when
//! sockets are made and closed, never by their calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;
use stats::KernelSocketSlot;

/// Sockets with higher numbers are not listed.
pub(crate) const DESCRIPTORS: usize = 1024;

/// Which descriptors are listed.
#[derive(Debug, Default)]
pub(crate) struct KernelSockets {
    /// A bit for each descriptor, so that closing another costs a load.
    listed: [AtomicU64; DESCRIPTORS / 64],
    slots: Mutex<HashMap<c_int, KernelSocketSlot>>,
}

impl KernelSockets {
    #[inline]
    pub(crate) fn contains(&self, fd: c_int) -> bool {
        let word = usize::try_from(fd)
            .ok()
            .and_then(|fd| self.listed.get(fd / 64));
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (fd % 64)) != 0)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<c_int, KernelSocketSlot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn list(&self, fd: c_int, slot: KernelSocketSlot) {
        let mut slots = self.slots();
        let word = usize::try_from(fd)
            .ok()
            .and_then(|fd| self.listed.get(fd / 64));
        if let Some(word) = word {
            word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
            slots.insert(fd, slot);
        }
    }

    pub(crate) fn forget(&self, fd: c_int) {
        let mut slots = self.slots();
        if let Some(word) = usize::try_from(fd)
            .ok()
            .and_then(|fd| self.listed.get(fd / 64))
        {
            word.fetch_and(!(1 << (fd % 64)), Ordering::Relaxed);
            slots.remove(&fd);
        }
    }
}

/// Whether it is a TCP socket. Those of which no object is made are listed.
pub(crate) fn is_stream(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP)
}
