//! Whether a socket is accelerated, and whether it may come to be: one word, so that one
//! compare-exchange decides between who accelerates it and who goes to wait in the kernel.
//! `models/src/offload_state_model.rs` tries every order.

use links::reason::Reason;

use crate::sync::{AtomicU32, Ordering};

/// Bits of the word that hold the code of a [`Reason`].
const CODE: u32 = 0xff;
/// The socket stays with the kernel for the rest of this life.
const COMMITTED: u32 = 1 << 8;
/// The socket has been accelerated in this life.
const WAS_OFFLOADED: u32 = 1 << 9;

const _: () = assert!(Reason::ALL.len() <= CODE as usize);

/// The reason changes under the engine's control lock only; threads commit the socket to the kernel
/// at any time.
#[derive(Debug)]
pub(crate) struct OffloadState {
    word: AtomicU32,
}

impl OffloadState {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(Reason::NotBound as u32),
        }
    }

    /// Begins a life of the socket.
    pub(crate) fn begin(&self) {
        self.word.store(Reason::NotBound as u32, Ordering::Release);
    }

    /// Code of the reason.
    #[inline]
    fn code(&self) -> u32 {
        self.word.load(Ordering::Acquire) & CODE
    }

    /// Why the socket is not accelerated; [`Reason::Offloaded`] if it is.
    #[inline]
    pub(crate) fn reason(&self) -> Reason {
        Reason::ALL
            .get(self.code() as usize)
            .copied()
            .unwrap_or(Reason::Poisoned)
    }

    /// Whether flows of the socket lead to user space.
    #[inline]
    pub(crate) fn is_offloaded(&self) -> bool {
        self.code() == Reason::Offloaded as u32
    }

    /// Whether datagrams may be sent past the kernel.
    #[inline]
    pub(crate) fn sends_past_kernel(&self) -> bool {
        let code = self.code();
        code == Reason::Offloaded as u32 || code == Reason::ReceiverRule as u32
    }

    /// Whether a call may be left to the kernel, if the socket is committed or can be.
    #[inline]
    pub(crate) fn may_be_left_to_kernel(&self) -> bool {
        is_of_kernel(self.code())
    }

    /// Gives the socket another reason. `false`: it was to be accelerated, and is the kernel's for
    /// good; nothing has changed.
    pub(crate) fn set(&self, reason: Reason) -> bool {
        let with_reason = |word: u32| {
            let flags = word & !CODE;
            match reason {
                Reason::Offloaded if flags & COMMITTED != 0 => None,
                Reason::Offloaded => Some(flags | WAS_OFFLOADED | reason as u32),
                _ => Some(flags | reason as u32),
            }
        };
        self.word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, with_reason)
            .is_ok()
    }

    /// A thread is about to wait in the kernel: from then on the socket cannot be accelerated.
    /// `false`: it is accelerated, may go over at any moment, or was accelerated and is not
    /// committed; the thread must not.
    pub(crate) fn commit_if_never_offloaded(&self) -> bool {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if !is_of_kernel(word & CODE) {
                return false;
            }
            if word & COMMITTED != 0 {
                return true;
            }
            if word & WAS_OFFLOADED != 0 {
                return false;
            }
            let committed = word | COMMITTED;
            match self.word.compare_exchange_weak(
                word,
                committed,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Makes the socket the kernel's for the rest of its life, whatever it was; the reason follows.
    /// Under the engine's control lock. `false`: it is already.
    pub(crate) fn commit(&self) -> bool {
        self.word.fetch_or(COMMITTED, Ordering::AcqRel) & COMMITTED == 0
    }

    /// Whether the socket has been accelerated in this life.
    pub(crate) fn was_offloaded(&self) -> bool {
        self.word.load(Ordering::Acquire) & WAS_OFFLOADED != 0
    }

    /// Whether the socket has always been the kernel's in this life, and will be.
    #[inline]
    pub(crate) fn is_never_offloaded(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word & (COMMITTED | WAS_OFFLOADED) == COMMITTED && is_of_kernel(word & CODE)
    }

    /// Whether the socket is the kernel's for the rest of its life.
    pub(crate) fn is_committed(&self) -> bool {
        self.word.load(Ordering::Acquire) & COMMITTED != 0
    }
}

/// What waits for an interface, held by another process or being opened, or for a peer, may go over
/// at any moment.
#[inline]
fn is_of_kernel(code: u32) -> bool {
    code != Reason::Offloaded as u32
        && code != Reason::NotBound as u32
        && code != Reason::Held as u32
        && code != Reason::BrokerEnded as u32
        && code != Reason::Opening as u32
        && code != Reason::SameHost as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn with(reason: Reason) -> OffloadState {
        let state = OffloadState::new();
        assert!(state.set(reason));
        state
    }

    #[test]
    fn a_socket_that_is_committed_is_not_accelerated() {
        let state = with(Reason::NoInterface);
        assert!(state.commit_if_never_offloaded());
        assert!(!state.set(Reason::Offloaded));
        assert_eq!(state.reason(), Reason::NoInterface);
        assert!(state.set(Reason::Loopback));
        assert!(state.is_committed() && state.commit_if_never_offloaded());
    }

    #[test]
    fn a_socket_that_was_accelerated_is_not_committed_by_a_thread() {
        let state = with(Reason::Offloaded);
        assert!(!state.commit_if_never_offloaded());
        assert!(state.set(Reason::NoInterface));
        assert!(state.may_be_left_to_kernel());
        assert!(!state.commit_if_never_offloaded() && !state.is_committed());
        assert!(state.commit() && !state.commit());
        assert!(state.commit_if_never_offloaded());
    }

    #[test]
    fn what_may_go_over_at_any_moment_is_not_committed() {
        let passing = [
            Reason::Held,
            Reason::BrokerEnded,
            Reason::Opening,
            Reason::SameHost,
        ];
        for reason in passing.into_iter().chain([Reason::NotBound]) {
            let state = with(reason);
            assert!(!state.may_be_left_to_kernel());
            assert!(!state.commit_if_never_offloaded() && !state.is_committed());
        }
    }

    #[test]
    fn a_new_life_begins_afresh() {
        let state = with(Reason::Offloaded);
        state.commit();
        state.begin();
        assert_eq!(state.reason(), Reason::NotBound);
        assert!(state.set(Reason::NoInterface) && state.commit_if_never_offloaded());
    }
}
