//! One socket in the memory that `fork(2)` shares. `models/src/shared_socket_model.rs` tries every order.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, fence};
use crate::sys;

/// One socket. Generations are those of the owner's object, odd and never 0 while it is open, so a descendant that was born
/// in an earlier life of the object asks for nothing that it does not have.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct SharedSocket {
    /// Generation whose packets come past the kernel, 0 for none. Descendants wait on it.
    held: AtomicU32,
    /// Latest generation that a descendant has asked for.
    wanted: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<SharedSocket>() == 8 && align_of::<SharedSocket>() == 4);

impl SharedSocket {
    /// The owner is about to take the socket's packets past the kernel. `false`: a descendant uses the socket.
    ///
    /// Either this sees the descendant's wish, or the descendant sees that it has to ring and wait.
    pub(crate) fn hold(&self, generation: u32) -> bool {
        self.held.store(generation, Ordering::Release);
        fence(Ordering::SeqCst);
        !self.is_wanted(generation)
    }

    /// The owner has left the socket's packets to the kernel.
    pub(crate) fn release(&self) {
        if self.held.swap(0, Ordering::AcqRel) != 0 {
            sys::futex_wake_all(&self.held);
        }
    }

    /// Whether a descendant asks for the socket.
    pub(crate) fn is_wanted(&self, generation: u32) -> bool {
        self.wanted.load(Ordering::Acquire) == generation
    }

    /// A descendant asks for the socket. Then it looks whether the owner holds it.
    pub(crate) fn want(&self, generation: u32) {
        self.wanted.fetch_max(generation, Ordering::Release);
        // The other half of that in `hold`.
        fence(Ordering::SeqCst);
    }

    /// Whether the owner still has the socket's packets.
    pub(crate) fn is_held(&self, generation: u32) -> bool {
        self.held.load(Ordering::Acquire) == generation
    }

    /// Waits until the owner has released the socket, or `limit` has passed.
    pub(crate) fn wait(&self, generation: u32, limit: Duration) {
        sys::futex_wait(&self.held, generation, limit);
    }
}
