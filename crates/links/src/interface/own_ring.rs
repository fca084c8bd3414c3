//! The receiving ring of a socket.

use std::net::IpAddr;
use std::os::fd::RawFd;

use dev_core::{Flow, Steering};

use crate::interface::Interface;
use crate::receiver::Receiver;
use crate::rings::{Reserved, RingPolicy, RingUser};

/// The use of a receiving ring; the ring is everybody's again when nobody has it.
#[derive(Debug)]
pub struct OwnRing<S: Receiver> {
    interface: &'static Interface<S>,
    local: IpAddr,
    reserved: Reserved,
}

impl<S: Receiver> OwnRing<S> {
    pub fn interface(&self) -> &'static Interface<S> {
        self.interface
    }

    pub fn is_of(&self, interface: &Interface<S>) -> bool {
        std::ptr::eq(self.interface, interface)
    }

    /// The address for whose packets it was chosen.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    pub fn number(&self) -> usize {
        self.reserved.ring()
    }
}

impl<S: Receiver> Interface<S> {
    /// Descriptors that become readable when packets wait in a ring.
    pub fn ring_wait_fds(&self, ring: usize) -> impl Iterator<Item = RawFd> {
        self.receivers.get(ring).wait_fds()
    }

    /// How sockets choose the ring by which they receive, if they do not say.
    pub fn receiving_policy(&self) -> RingPolicy {
        self.receiving_policy
    }

    /// Asks the device to bring a flow's packets by a ring.
    pub fn bring(&self, flow: &Flow, ring: &OwnRing<S>) {
        if let Err(error) = self.steering.bring(flow, ring.number()) {
            // They are received wherever they come.
            let (name, number) = (&self.spec.name, ring.number());
            log::debug!("{name}: the device does not bring {flow:?} by ring {number}: {error}");
        }
    }

    /// The ring for packets to `local`, which `user` receives.
    pub fn own_ring(&'static self, user: RingUser, local: IpAddr) -> OwnRing<S> {
        let key = user.key(local);
        OwnRing {
            interface: self,
            local,
            reserved: self.receiving_table.reserve(key),
        }
    }
}
