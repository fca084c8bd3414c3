//! One socket in the memory that `fork(2)` shares. `models/src/shared_socket_model.rs` tries every
//! order.

use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// One socket. Generations are those of the owner's object, odd and never 0 while it is open, so a
/// descendant that was born in an earlier life of the object asks for nothing that it does not
/// have.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct SharedSocket {
    /// Generation whose packets come past the kernel, 0 for none. Descendants wait on it.
    claimed: AtomicU32,
    /// Latest generation that a descendant has asked for.
    requested: AtomicU32,
    /// The process that takes connections or datagrams from the socket, which it has inherited, 0
    /// for none, [`TOGETHER`] or [`SEVERAL`]; in the upper half the generation that it has.
    taker: AtomicU64,
    /// The process that has the socket's packets past the kernel though it has inherited it, 0 for
    /// none, or [`PARTS`] and how many have a part of them. Who else is about to use the socket
    /// waits on it.
    adopter: AtomicU32,
    /// Latest generation that the owner does not use for more than sending, without asking whether
    /// others have it.
    offered: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<SharedSocket>() == 24 && align_of::<SharedSocket>() == 8);

/// Several processes take from it, or have.
const SEVERAL: u32 = u32::MAX;
/// Several processes take from it past the kernel, each its part.
const TOGETHER: u32 = u32::MAX - 1;
/// No process has a number as large.
const PARTS: u32 = 1 << 31;

/// The word that says who takes from a generation. Those of later generations are larger, and of
/// one generation [`SEVERAL`] is the largest.
fn taker_word(generation: u32, process: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(process)
}

impl SharedSocket {
    /// The owner is about to take the socket's packets past the kernel. `false`: a descendant uses
    /// the socket.
    ///
    /// Either this sees the descendant's request, or the descendant sees that it has to wake the
    /// other and wait.
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
        let generation = self.claimed.swap(0, Ordering::AcqRel);
        // Who waits has asked before. The other half of the fence in `request`: either this sees
        // that, or who asks does not wait.
        fence(Ordering::SeqCst);
        if generation != 0 && self.requested.load(Ordering::Acquire) >= generation {
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

    /// The owner has left the socket's packets to the kernel, and asks from here on, before it uses
    /// the socket for more than sending, whether another process has them.
    pub(crate) fn offer(&self, generation: u32) {
        self.offered.fetch_max(generation, Ordering::Release);
    }

    /// Whether the owner has offered the socket.
    pub(crate) fn is_offered(&self, generation: u32) -> bool {
        self.offered.load(Ordering::Acquire) == generation
    }

    /// A descendant is about to accept or receive from the socket. Returns whether no other one
    /// does, of which `lives` says whether they still run. If there is another, that finds out by
    /// [`is_sole_taker`](Self::is_sole_taker).
    pub(crate) fn begin_taking(
        &self,
        generation: u32,
        process: u32,
        lives: impl FnOnce(u32) -> bool,
    ) -> bool {
        self.begin(generation, process, lives)
    }

    /// The same of one that goes on beside others that do so together. `false`: another process has
    /// come that does not.
    pub(crate) fn begin_taking_together(
        &self,
        generation: u32,
        lives: impl FnOnce(u32) -> bool,
    ) -> bool {
        self.begin(generation, TOGETHER, lives)
    }

    /// `taker`: a process, or [`TOGETHER`].
    fn begin(&self, generation: u32, taker: u32, lives: impl FnOnce(u32) -> bool) -> bool {
        let known = self.taker.load(Ordering::Acquire);
        let before = (known & u64::from(u32::MAX)) as u32;
        let is_free = match ((known >> 32) as u32).cmp(&generation) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => {
                before == 0 || before == taker || (before < TOGETHER && !lives(before))
            }
            std::cmp::Ordering::Greater => false,
        };
        let word = taker_word(generation, taker);
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let exchange = || self.taker.compare_exchange(known, word, set, get);
        // Another may just have begun the same.
        let taken = is_free && exchange().map_or_else(|now| now == word, |_| true);
        if !taken {
            self.mark_taken_by_several(generation);
        }
        taken
    }

    /// Whether processes take from it together.
    pub(crate) fn is_taken_together(&self, generation: u32) -> bool {
        self.taker.load(Ordering::Acquire) == taker_word(generation, TOGETHER)
    }

    /// Others may take from it, too. Then it is to be looked whether one has [adopted](Self::adopt)
    /// it.
    pub(crate) fn mark_taken_by_several(&self, generation: u32) {
        let word = taker_word(generation, SEVERAL);
        if self.taker.load(Ordering::Acquire) < word {
            self.taker.fetch_max(word, Ordering::AcqRel);
        }
        // The other half of that in `adopt`.
        fence(Ordering::SeqCst);
    }

    /// Whether no other process has come to take from it, too.
    pub(crate) fn is_sole_taker(&self, generation: u32, process: u32) -> bool {
        self.taker.load(Ordering::Acquire) == taker_word(generation, process)
    }

    /// Whether nobody has come to take from it but the process, or who does so together with it.
    pub(crate) fn is_taker(&self, generation: u32, process: u32) -> bool {
        self.is_sole_taker(generation, process) || self.is_taken_together(generation)
    }

    /// The process takes nothing from it any more.
    pub(crate) fn end_taking(&self, generation: u32, process: u32) {
        let _ = self.taker.compare_exchange(
            taker_word(generation, process),
            0,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// The only process that takes from the socket is about to have its packets past the kernel.
    /// `false`: another has come to use it.
    ///
    /// Either this sees that, or the other sees that it has to wake the other and wait.
    pub(crate) fn adopt(&self, generation: u32, process: u32) -> bool {
        self.adopter.store(process, Ordering::Release);
        fence(Ordering::SeqCst);
        self.is_sole_taker(generation, process)
    }

    /// The same of one of those that take from it together. [`end_part`](Self::end_part) is to
    /// follow also if it is `false`.
    pub(crate) fn begin_part(&self, generation: u32) -> bool {
        let more = |parts: u32| Some(parts.max(PARTS) + 1);
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.adopter.fetch_update(set, get, more);
        fence(Ordering::SeqCst);
        self.is_taken_together(generation)
    }

    /// Whether others than the caller, which has a part, have one, too.
    pub(crate) fn have_others_parts(&self) -> bool {
        self.adopter.load(Ordering::Acquire) > PARTS + 1
    }

    /// Returns whether others may have a part still.
    pub(crate) fn end_part(&self) -> bool {
        let less = |parts: u32| match parts {
            // Somebody has waited for too long.
            ..=PARTS => None,
            parts if parts == PARTS + 1 => Some(0),
            parts => Some(parts - 1),
        };
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let ended = self.adopter.fetch_update(set, get, less);
        sys::futex_wake_all(&self.adopter);
        ended.is_ok_and(|before| before > PARTS + 1)
    }

    /// Whether what [`adopter`](Self::adopter) says is a process.
    pub(crate) fn is_process(adopter: u32) -> bool {
        adopter < PARTS
    }

    /// The process that has the packets of a socket that it has inherited, or those that have.
    pub(crate) fn adopter(&self) -> Option<u32> {
        let process = self.adopter.load(Ordering::Acquire);
        (process != 0).then_some(process)
    }

    /// The packets are the kernel's again, or their process has ended.
    pub(crate) fn end_adoption(&self, process: u32) {
        let ended = self
            .adopter
            .compare_exchange(process, 0, Ordering::AcqRel, Ordering::Acquire);
        if ended.is_ok() {
            sys::futex_wake_all(&self.adopter);
        }
    }

    /// Waits until that has happened, or `limit` has passed.
    pub(crate) fn wait_for_adopter(&self, process: u32, limit: Duration) {
        sys::futex_wait(&self.adopter, process, limit);
    }

    /// Waits until the owner has released the socket, or `limit` has passed.
    pub(crate) fn wait(&self, generation: u32, limit: Duration) {
        sys::futex_wait(&self.claimed, generation, limit);
    }
}
