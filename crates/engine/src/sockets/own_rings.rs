//! By which of its interfaces' rings a socket receives: `VMA_RING_ALLOCATION_LOGIC_RX`,
//! `VMA_RING_MIGRATION_RATIO_RX`. Where interfaces have one, as by default, there is nothing here
//! to do.

use links::Receiver;
use links::interface::Interface;
use links::interface::own_ring::OwnRing;
use links::rings::{Migration, RingUser};

/// The rings of a socket, on interfaces that have several, and whose they are.
#[derive(Debug)]
pub(crate) struct OwnRings<S: Receiver> {
    pub(super) rings: Vec<OwnRing<S>>,
    /// Who has made the socket receive, or receives from it by now.
    pub(super) user: Option<RingUser>,
    pub(super) migration: Migration,
}

impl<S: Receiver> Default for OwnRings<S> {
    fn default() -> Self {
        Self {
            rings: Vec::new(),
            user: None,
            migration: Migration::default(),
        }
    }
}

impl<S: Receiver> OwnRings<S> {
    /// Whose they are is to be found out anew.
    pub(super) fn forget_user(&mut self) {
        self.user = None;
    }

    pub(super) fn of(&self, interface: &Interface<S>) -> Option<&OwnRing<S>> {
        self.rings.iter().find(|ring| ring.is_of(interface))
    }
}
