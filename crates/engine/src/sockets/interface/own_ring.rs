//! The receiving ring of a socket.

use std::net::IpAddr;

use dev_core::{Flow, Steering};

use crate::sockets::interface::Interface;
use crate::sockets::rings::{Reserved, RingPolicy, RingUser};
use crate::sockets::stack::Stack;

/// The use of a receiving ring; the ring is everybody's again when nobody has it.
#[derive(Debug)]
pub(crate) struct OwnRing<S: Stack> {
    interface: &'static Interface<S>,
    local: IpAddr,
    reserved: Reserved,
}

impl<S: Stack> OwnRing<S> {
    pub(crate) fn interface(&self) -> &'static Interface<S> {
        self.interface
    }

    pub(crate) fn is_of(&self, interface: &Interface<S>) -> bool {
        std::ptr::eq(self.interface, interface)
    }

    /// The address for whose packets it was chosen.
    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    pub(crate) fn number(&self) -> usize {
        self.reserved.ring()
    }
}

impl<S: Stack> Interface<S> {
    /// How sockets choose the ring by which they receive, if they do not say.
    pub(crate) fn receiving_policy(&self) -> RingPolicy {
        self.receiving_policy
    }

    /// Asks the device to bring a flow's packets by a ring.
    pub(crate) fn bring(&self, flow: &Flow, ring: &OwnRing<S>) {
        if let Err(error) = self.steering.bring(flow, ring.number()) {
            // They are received wherever they come.
            let (name, number) = (&self.spec.name, ring.number());
            log::debug!("{name}: the device does not bring {flow:?} by ring {number}: {error}");
        }
    }

    /// The ring for packets to `local`, which `user` receives.
    pub(crate) fn own_ring(&'static self, user: RingUser, local: IpAddr) -> OwnRing<S> {
        let key = user.key(local);
        OwnRing {
            interface: self,
            local,
            reserved: self.receiving_table.reserve(key),
        }
    }
}
