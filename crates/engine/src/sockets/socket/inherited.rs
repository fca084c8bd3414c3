//! What descendants and ancestors have of the socket.

use std::sync::atomic::Ordering;

use links::reason::Reason;

use super::SocketCore;
use crate::sockets::shared::{Shared, WakeChannel};
use crate::sockets::stack::Stack;

impl<S: Stack> SocketCore<S> {
    /// Whether a descendant asks for the socket, and does not have it yet.
    pub(crate) fn is_requested(&self) -> bool {
        let wanted = self
            .shared()
            .is_some_and(|(shared, generation)| shared.is_requested(generation));
        wanted && !self.is_committed()
    }

    /// Before packets come past the kernel. `false`: a descendant uses the socket, or could not say
    /// so.
    pub(crate) fn claim(&self) -> bool {
        let process = sys::process_id().cast_unsigned();
        let adopt = |(shared, generation): (Shared, u32)| {
            if !shared.is_taken_together(generation) {
                return shared.adopt(generation, process);
            }
            self.has_part.store(true, Ordering::Relaxed);
            shared.begin_part(generation)
        };
        self.shared()
            .is_some_and(|(shared, generation)| shared.claim(generation))
            && self.inherited().is_none_or(adopt)
    }

    /// The socket's packets are the kernel's: descendants need not wait for them.
    pub(crate) fn release(&self) {
        if let Some(shared) = self.shared {
            shared.release();
        }
        if let Some((shared, _)) = self.inherited() {
            match self.has_part.swap(false, Ordering::Relaxed) {
                true => _ = shared.end_part(),
                false => shared.end_adoption(sys::process_id().cast_unsigned()),
            }
        }
    }

    /// Whether it was inherited, and other processes have their parts of what comes to it.
    pub(crate) fn is_taken_together(&self) -> bool {
        let inherited = self.inherited();
        inherited.is_some_and(|(shared, generation)| shared.is_taken_together(generation))
    }

    /// The process is about to use the socket for more than sending. If it has left it to
    /// descendants, and one has adopted it, that gives it back to the kernel first. No lock may be
    /// held.
    #[inline]
    pub fn recall_from_descendants(&self) {
        if self.reason() == Reason::Forked {
            self.ask_descendants();
        }
    }

    #[cold]
    fn ask_descendants(&self) {
        if let Some((shared, generation)) = self.shared() {
            shared.claim_from_adopter(generation);
        }
    }

    /// Other processes have the socket, too, for it was inherited.
    pub(crate) fn mark_inherited(&self) {
        self.forks_before.fetch_sub(1, Ordering::Relaxed);
        self.is_inherited.store(true, Ordering::Relaxed);
    }

    /// Its place in memory that an ancestor shares.
    fn inherited(&self) -> Option<(Shared, u32)> {
        let is_inherited = self.is_inherited.load(Ordering::Relaxed);
        is_inherited.then(|| self.attachment().inherited).flatten()
    }

    /// The same, and they go on when this one ends.
    pub(crate) fn have_others_parts(&self) -> bool {
        let inherited = self.inherited();
        inherited.is_some_and(|(shared, generation)| {
            shared.is_taken_together(generation) && shared.have_others_parts()
        })
    }

    /// The kernel alone can give each process its part.
    pub(crate) fn stops_taking_together(&self) {
        if let Some((shared, generation)) = self.inherited() {
            shared.mark_taken_by_several(generation);
            shared.channel().map(WakeChannel::wake);
        }
    }

    /// An inherited socket is about to be closed: another process may be the one that takes from
    /// it.
    pub(crate) fn end_taking(&self) {
        if let Some((shared, generation)) = self.inherited() {
            shared.end_taking(generation, sys::process_id().cast_unsigned());
        }
    }
}
