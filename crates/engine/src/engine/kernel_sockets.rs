//! Listing sockets that are not accelerated from their beginning on.

use dev_core::Backend;
use libc::c_int;
use links::reason::Reason;

use crate::engine::Engine;
use crate::sockets::kernel_sockets::{DESCRIPTORS, is_stream};
use crate::tcp;

impl<B: Backend> Engine<B> {
    /// A socket was made that is not one of [`Engine::socket_opened`].
    pub fn other_socket_opened(&self, fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
        // It comes from the program that this one was before, or from another process.
        self.list_stream(fd, (domain, kind, protocol), Reason::Passed);
    }

    /// Lists the sockets that were made before the engine. `is_child`: they may be those of the
    /// process that has forked this one.
    pub fn list_earlier_sockets(&self, is_child: bool) {
        let reason = match is_child {
            true => Reason::Forked,
            false => Reason::Passed,
        };
        for fd in 0..EARLIER_DESCRIPTORS {
            let option = |name| sys::option_int(fd, libc::SOL_SOCKET, name);
            if let Ok(domain) = option(libc::SO_DOMAIN)
                && let Ok(kind) = option(libc::SO_TYPE)
                && let Ok(protocol) = option(libc::SO_PROTOCOL)
            {
                self.list_stream(fd, (domain, kind, protocol), reason);
            }
        }
    }

    fn list_stream(&self, fd: c_int, what: (c_int, c_int, c_int), reason: Reason) {
        let (domain, kind, protocol) = what;
        let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if is_stream(domain, kind, protocol) && !self.is_other_process() {
            let reason = match tcp::may_accelerate(self.rules()) {
                true => reason,
                false => Reason::Rule,
            };
            let slot = self.segment.claim_kernel_socket();
            slot.protocol.set(stats::PROTOCOL_TCP);
            slot.reason.set(reason as u32);
            slot.fd.set(fd);
            self.kernel_sockets.list(fd, slot);
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
