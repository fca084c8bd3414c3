//! What the engine asks of the kernel's network configuration. Slow path only.

use std::fmt;
use std::net::Ipv4Addr;

use ring::LinkSpec;

use crate::reason::Reason;

/// An interface and what decides whether it can be accelerated.
#[derive(Clone, Debug)]
pub struct InterfaceFacts {
    /// Name, index, hardware address, MTU, driver.
    pub spec: LinkSpec,
    /// Its IPv4 addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// Administratively up.
    pub up: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// Ethernet, of a kind that a back-end can take over, and not part of a bond or bridge.
    pub eligible: bool,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Out of an interface, to a neighbour whose hardware address is known.
    Link {
        /// Interface index.
        link_index: u32,
        /// Hardware address of the next hop.
        mac: [u8; 6],
        /// Source address that the route prefers.
        source: Ipv4Addr,
        /// Largest IP packet in bytes.
        mtu: u32,
    },
    /// Through the kernel.
    Kernel(Reason),
}

/// What kind of change the network's configuration has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkChange {
    /// Links or addresses have changed, not only routes and neighbours.
    pub interfaces: bool,
}

/// The kernel's network configuration.
pub trait Network: fmt::Debug + Send + Sync {
    /// All interfaces.
    fn interfaces(&self) -> Vec<InterfaceFacts>;

    /// What has changed since the last call, without waiting; `None`: nothing.
    fn take_changes(&self) -> Option<NetworkChange>;

    /// The kernel's routing decision and neighbour for a destination.
    fn next_hop(&self, destination: Ipv4Addr, source: Option<Ipv4Addr>, tos: u8) -> NextHop;
}

/// A network that does not change, for tests and benches without a kernel network.
#[derive(Clone, Debug)]
pub struct FixedNetwork {
    /// The answer to [`Network::interfaces`].
    pub interfaces: Vec<InterfaceFacts>,
    /// The answer to [`Network::next_hop`].
    pub next_hop: NextHop,
}

impl Network for FixedNetwork {
    fn interfaces(&self) -> Vec<InterfaceFacts> {
        self.interfaces.clone()
    }

    fn take_changes(&self) -> Option<NetworkChange> {
        None
    }

    fn next_hop(&self, _destination: Ipv4Addr, _source: Option<Ipv4Addr>, _tos: u8) -> NextHop {
        self.next_hop
    }
}
