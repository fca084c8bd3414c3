//! An interface and an address where connections come in.

use std::net::{IpAddr, Ipv4Addr};

use links::interface::Interface;

use crate::sockets::stack::Stack;

/// Where connections come in.
#[derive(Clone, Copy)]
pub(super) struct Place<S: Stack> {
    pub(super) interface: &'static Interface<S>,
    /// The unspecified one means any of the interface's, of this version, also those that it has
    /// later.
    pub(super) address: IpAddr,
    /// For IPv6: what the interface says. That of IPv4 is the socket's own.
    pub(super) hop_limit: u8,
}

impl<S: Stack> Place<S> {
    pub(super) fn is_the_same(&self, other: &Self) -> bool {
        let index = |place: &Self| place.interface.spec().index;
        index(self) == index(other) && self.address == other.address
    }
}

/// Whether a place at `address` is one for what comes to `local`, an address of its interface.
pub(super) fn includes(address: IpAddr, local: IpAddr) -> bool {
    address == local || address.is_unspecified() && address.is_ipv4() == local.is_ipv4()
}

/// The addresses of IPv4 to which segments come past the kernel, by the index of the interface.
pub(super) type WaysIn = Vec<(u32, Vec<Ipv4Addr>)>;
