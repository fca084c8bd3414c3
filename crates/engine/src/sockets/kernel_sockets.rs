//! Sockets of kinds that are never accelerated, kept for `vma_stats` to list: an operator who asks what the library does for a
//! program sees all of its sockets. Touched when sockets are made and closed, never by their calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dev_core::Backend;
use libc::c_int;
use stats::KernelSocketSlot;

use crate::engine::Engine;
use crate::sockets::reason::Reason;
use crate::sys;

/// Sockets with higher numbers are not listed.
const DESCRIPTORS: usize = 1024;

/// Which descriptors are listed.
#[derive(Debug, Default)]
pub(crate) struct KernelSockets {
    /// A bit for each descriptor, so that closing another costs a load.
    listed: [AtomicU64; DESCRIPTORS / 64],
    slots: Mutex<HashMap<c_int, KernelSocketSlot>>,
}

impl KernelSockets {
    #[inline]
    fn contains(&self, fd: c_int) -> bool {
        let word = usize::try_from(fd)
            .ok()
            .and_then(|fd| self.listed.get(fd / 64));
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (fd % 64)) != 0)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<c_int, KernelSocketSlot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, fd: c_int, slot: KernelSocketSlot) {
        let mut slots = self.slots();
        let word = usize::try_from(fd)
            .ok()
            .and_then(|fd| self.listed.get(fd / 64));
        if let Some(word) = word {
            word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
            slots.insert(fd, slot);
        }
    }

    fn forget(&self, fd: c_int) {
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

/// Why a socket of a family and kind is never accelerated, and its protocol. `None`: it may be, or is no internet socket.
fn never_accelerated(domain: c_int, kind: c_int, protocol: c_int) -> Option<(Reason, u32)> {
    match (domain, kind) {
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM)
            if matches!(protocol, 0 | libc::IPPROTO_TCP) =>
        {
            Some((Reason::Tcp, stats::PROTOCOL_TCP))
        }
        (libc::AF_INET6, libc::SOCK_DGRAM) if matches!(protocol, 0 | libc::IPPROTO_UDP) => {
            Some((Reason::Ipv6, stats::PROTOCOL_UDP))
        }
        _ => None,
    }
}

impl<B: Backend> Engine<B> {
    /// A socket was made that is not one of [`Engine::socket_opened`].
    pub fn other_socket_opened(&self, fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
        let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if let Some((reason, protocol)) = never_accelerated(domain, kind, protocol)
            && !self.is_other_process()
        {
            let slot = self.segment.claim_kernel_socket();
            slot.protocol.set(protocol);
            slot.reason.set(reason as u32);
            slot.fd.set(fd);
            self.kernel_sockets.list(fd, slot);
        }
    }

    /// Lists the sockets that were made before the engine.
    pub fn list_earlier_sockets(&self) {
        for fd in 0..EARLIER_DESCRIPTORS {
            let option = |name| sys::option_int(fd, libc::SOL_SOCKET, name);
            if let (Ok(domain), Ok(kind), Ok(protocol)) = (
                option(libc::SO_DOMAIN),
                option(libc::SO_TYPE),
                option(libc::SO_PROTOCOL),
            ) {
                self.other_socket_opened(fd, domain, kind, protocol);
            }
        }
    }

    /// Whether a descriptor is that of a socket that is listed only.
    #[inline]
    pub fn is_listed(&self, fd: c_int) -> bool {
        self.kernel_sockets.contains(fd)
    }

    /// Takes it off the list.
    pub fn listed_closes(&self, fd: c_int) {
        if !self.is_other_process() {
            self.kernel_sockets.forget(fd);
        }
    }

    /// The same for all descriptors from `first` to `last`.
    pub(crate) fn listed_close(&self, first: u32, last: u32) {
        let last = last.min(DESCRIPTORS as u32 - 1);
        for fd in (first..=last).map(u32::cast_signed) {
            if self.is_listed(fd) {
                self.kernel_sockets.forget(fd);
            }
        }
    }
}

/// How many descriptors are looked at when the engine starts, a system call each.
const EARLIER_DESCRIPTORS: c_int = 128;
