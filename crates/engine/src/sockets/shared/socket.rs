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
    claimed: AtomicU32,
    /// Latest generation that a descendant has asked for.
    requested: AtomicU32,
    /// The process that takes connections or datagrams from the socket, which it has inherited, 0 for none, or [`SEVERAL`].
    taker: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<SharedSocket>() == 12 && align_of::<SharedSocket>() == 4);

/// Several processes take from it, or have.
const SEVERAL: u32 = u32::MAX;

impl SharedSocket {
    /// The owner is about to take the socket's packets past the kernel. `false`: a descendant uses the socket.
    ///
    /// Either this sees the descendant's request, or the descendant sees that it has to ring and wait.
    pub(crate) fn claim(&self, generation: u32) -> bool {
        self.claimed.store(generation, Ordering::Release);
        fence(Ordering::SeqCst);
        !self.is_requested(generation)
    }

    /// The first word alone, to count with.
    pub(crate) fn counter(&self) -> &AtomicU32 {
        &self.claimed
    }

    /// The owner has left the socket's packets to the kernel.
    pub(crate) fn release(&self) {
        if self.claimed.swap(0, Ordering::AcqRel) != 0 {
            sys::futex_wake_all(&self.claimed);
        }
    }

    /// Whether a descendant asks for the socket.
    pub(crate) fn is_requested(&self, generation: u32) -> bool {
        self.requested.load(Ordering::Acquire) == generation
    }

    /// A descendant asks for the socket. Then it looks whether the owner has claimed it.
    pub(crate) fn request(&self, generation: u32) {
        self.requested.fetch_max(generation, Ordering::Release);
        // The other half of that in `claim`.
        fence(Ordering::SeqCst);
    }

    /// Whether the owner still has the socket's packets.
    pub(crate) fn is_claimed(&self, generation: u32) -> bool {
        self.claimed.load(Ordering::Acquire) == generation
    }

    /// A descendant is about to accept or receive from the socket. Returns whether no other one does, of which `lives` says whether they still
    /// run. If there is another, that finds out by [`is_sole_taker`](Self::is_sole_taker).
    pub(crate) fn begin_taking(&self, process: u32, lives: impl FnOnce(u32) -> bool) -> bool {
        let known = self.taker.load(Ordering::Acquire);
        let is_free = known == 0 || known == process || (known != SEVERAL && !lives(known));
        let taken = is_free
            && self
                .taker
                .compare_exchange(known, process, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        if !taken {
            self.is_taken_by_several();
        }
        taken
    }

    /// Others may take from it, too.
    pub(crate) fn is_taken_by_several(&self) {
        self.taker.store(SEVERAL, Ordering::Release);
    }

    /// Whether no other process has come to take from it, too.
    pub(crate) fn is_sole_taker(&self, process: u32) -> bool {
        self.taker.load(Ordering::Acquire) == process
    }

    /// The process takes nothing from it any more.
    pub(crate) fn end_taking(&self, process: u32) {
        let _ = self
            .taker
            .compare_exchange(process, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Waits until the owner has released the socket, or `limit` has passed.
    pub(crate) fn wait(&self, generation: u32, limit: Duration) {
        sys::futex_wait(&self.claimed, generation, limit);
    }
}
