//! The maps that tell the XDP program which datagrams are ours.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use descriptors::OwnDescriptor;
use dev_core::Protocol;

use super::error::BpfError;
use super::syscall::{Map, MapKind, Name};

mod groups;
mod slotted;

pub(crate) use groups::PROCESSES_MAX;
pub(super) use groups::{FIRST_GROUP, OPENERS, Owners};
pub use groups::{GROUPS_MAX, NOBODY, Shares};

use slotted::Slotted;

/// Key of the port map: destination address and port as in the packet, protocol, a zero byte.
pub(super) const PORT_KEY_BYTES: usize = 8;
/// Key of the flow map: both addresses and both ports as in the packet (source first), protocol,
/// three zero bytes.
pub(super) const FLOW_KEY_BYTES: usize = 16;

/// The same for IPv6: address, port, protocol, five zero bytes.
pub(super) const V6_PORT_KEY_BYTES: usize = 24;
/// The same for IPv6.
pub(super) const V6_FLOW_KEY_BYTES: usize = 40;

/// Key of the address map: a destination address as in the packet.
pub(super) const ADDRESS_BYTES: usize = 4;
/// The same for IPv6.
pub(super) const V6_ADDRESS_BYTES: usize = 16;

/// Values of a port's upper byte; for each there is an octet for each value of the lower one.
pub(super) const PORT_OCTETS: usize = 256;

/// Receive queues that an interface can have; more are refused by [`FlowMaps::set_xsk`].
const QUEUES_MAX: u32 = 1024;
/// The same where several processes have it: the upper part of the number is the process's.
pub const SHARED_QUEUES_MAX: u32 = 1 << QUEUE_BITS;
pub(super) const QUEUE_BITS: i32 = 4;

/// The ports and flows to redirect, and the AF_XDP socket of each receive queue.
///
/// Changes take effect with the next packet. A protocol is an IP protocol number; the program knows
/// TCP (6) and UDP (17), entries of others have no effect. "Local" is the packet's destination,
/// "peer" its source. Flow label and scope of addresses do not count.
#[derive(Debug)]
pub struct FlowMaps {
    v4: V4Tables,
    v6: V6Tables,
    xsks: Map<4, 4>,
    /// Of an interface that several processes have.
    owners: Option<Box<Owners>>,
    capacity: u32,
}

pub(super) type V4Tables = Tables<PORT_KEY_BYTES, FLOW_KEY_BYTES, ADDRESS_BYTES>;
pub(super) type V6Tables = Tables<V6_PORT_KEY_BYTES, V6_FLOW_KEY_BYTES, V6_ADDRESS_BYTES>;

/// The maps of one family.
#[derive(Debug)]
pub(super) struct Tables<const PORT: usize, const FLOW: usize, const ADDRESS: usize> {
    /// In the slot of a port's lower byte.
    pub(super) ports: Slotted<PORT>,
    flows: Map<FLOW, 4>,
    /// Ports that are redirected whichever address of the interface a packet is for: an array,
    /// which costs no hash. By the upper byte of the port an octet for each lower one, those of TCP
    /// [behind](Self::FIRST_OF_TCP) those of UDP.
    wildcards: Map<4, PORT_OCTETS>,
    /// The addresses of the interface, in the slot of the last byte.
    pub(super) addresses: Slotted<ADDRESS>,
}

impl FlowMaps {
    /// Empty maps with room for `capacity` ports of each family and as many flows. Memory is taken
    /// as they are added.
    pub fn create(capacity: u32) -> Result<Self, BpfError> {
        Self::create_for(capacity, None)
    }

    /// The same for an interface that several processes have, numbered from 0. A flow is one's, and
    /// so is a port, at whatever address.
    pub fn create_shared(capacity: u32) -> Result<Self, BpfError> {
        Self::create_for(capacity, Some(Box::new(Owners::create()?)))
    }

    fn create_for(capacity: u32, owners: Option<Box<Owners>>) -> Result<Self, BpfError> {
        Ok(Self {
            owners,
            v4: Tables::create(capacity)?,
            v6: Tables::create(capacity)?,
            xsks: Map::create(
                MapKind::XskMap,
                XSKS_NAME,
                QUEUES_MAX,
                "create the AF_XDP map",
            )?,
            capacity,
        })
    }

    /// For how many ports or flows of a family there is room.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Redirects all packets to `local`, whoever sends them.
    pub fn add_port(&self, local: impl Into<SocketAddr>, protocol: u8) -> Result<(), BpfError> {
        let local = local.into();
        let added = match port_key(local, protocol) {
            PortKey::V4(key) => self.v4.ports.add(&key, slot(local)),
            PortKey::V6(key) => self.v6.ports.add(&key, slot(local)),
        };
        added.map_err(|cause| BpfError::new("add a port to the XDP port map", cause))
    }

    /// Takes back [`add_port`](Self::add_port). An error (`ENOENT`) if the port is not there.
    pub fn remove_port(&self, local: impl Into<SocketAddr>, protocol: u8) -> Result<(), BpfError> {
        let local = local.into();
        let removed = match port_key(local, protocol) {
            PortKey::V4(key) => self.v4.ports.remove(&key, slot(local)),
            PortKey::V6(key) => self.v6.ports.remove(&key, slot(local)),
        };
        removed.map_err(|cause| BpfError::new("remove a port from the XDP port map", cause))
    }

    /// Whether all packets to `local` are redirected.
    pub fn has_port(&self, local: impl Into<SocketAddr>, protocol: u8) -> Result<bool, BpfError> {
        let value = match port_key(local.into(), protocol) {
            PortKey::V4(key) => self.v4.ports.lookup(&key),
            PortKey::V6(key) => self.v6.ports.lookup(&key),
        };
        let value =
            value.map_err(|cause| BpfError::new("look up a port in the XDP port map", cause))?;
        Ok(value.is_some())
    }

    /// Redirects all packets to a port at any of the interface's [addresses](Self::add_address),
    /// whoever sends them. `of_v6`: of which version.
    pub fn add_wildcard(&self, port: u16, of_v6: bool, protocol: u8) -> Result<(), BpfError> {
        self.set_wildcard(port, of_v6, protocol, ANY)
    }

    /// Takes back [`add_wildcard`](Self::add_wildcard). Nothing happens if it is not there.
    pub fn remove_wildcard(&self, port: u16, of_v6: bool, protocol: u8) -> Result<(), BpfError> {
        self.set_wildcard(port, of_v6, protocol, 0)
    }

    fn set_wildcard(
        &self,
        port: u16,
        of_v6: bool,
        protocol: u8,
        value: u8,
    ) -> Result<(), BpfError> {
        let wildcards = match of_v6 {
            true => &self.v6.wildcards,
            false => &self.v4.wildcards,
        };
        set_octet(wildcards, protocol, port, value)
            .map_err(|cause| BpfError::new("change the XDP array of ports", cause))
    }

    /// Says whose a port is that is redirected, where several processes have the interface.
    pub fn set_owner(&self, port: u16, protocol: u8, owner: u8) -> Result<(), BpfError> {
        let Some(owners) = &self.owners else {
            return Ok(());
        };
        set_octet(&owners.ports, protocol, port, owner)
            .map_err(|cause| BpfError::new("change the XDP array of owners", cause))
    }

    /// From here on the interface has this address.
    pub fn add_address(&self, address: IpAddr) -> Result<(), BpfError> {
        let added = match address {
            IpAddr::V4(ip) => self.v4.addresses.add(&ip.octets(), ip.octets()[3]),
            IpAddr::V6(ip) => self.v6.addresses.add(&ip.octets(), ip.octets()[15]),
        };
        added.map_err(|cause| BpfError::new("add an address to the XDP address map", cause))
    }

    /// The interface has it no longer. An error (`ENOENT`) if it is not there.
    pub fn remove_address(&self, address: IpAddr) -> Result<(), BpfError> {
        let removed = match address {
            IpAddr::V4(ip) => self.v4.addresses.remove(&ip.octets(), ip.octets()[3]),
            IpAddr::V6(ip) => self.v6.addresses.remove(&ip.octets(), ip.octets()[15]),
        };
        removed.map_err(|cause| BpfError::new("remove an address from the XDP address map", cause))
    }

    /// Redirects packets from `peer` to `local`. Both are of one family.
    pub fn add_flow(
        &self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
        protocol: u8,
    ) -> Result<(), BpfError> {
        self.add_flow_of(0, local, peer, protocol)
    }

    /// The same to one of the processes that have the interface.
    pub fn add_flow_of(
        &self,
        owner: u8,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
        protocol: u8,
    ) -> Result<(), BpfError> {
        let value = (PRESENT | u32::from(owner) << OWNER_SHIFT).to_ne_bytes();
        let added = match flow_key(local.into(), peer.into(), protocol) {
            FlowKey::V4(key) => self.v4.flows.update(&key, &value),
            FlowKey::V6(key) => self.v6.flows.update(&key, &value),
        };
        added.map_err(|cause| BpfError::new("add a flow to the XDP flow map", cause))
    }

    /// Takes back [`add_flow`](Self::add_flow). An error (`ENOENT`) if the flow is not there.
    pub fn remove_flow(
        &self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
        protocol: u8,
    ) -> Result<(), BpfError> {
        let removed = match flow_key(local.into(), peer.into(), protocol) {
            FlowKey::V4(key) => self.v4.flows.delete(&key),
            FlowKey::V6(key) => self.v6.flows.delete(&key),
        };
        removed.map_err(|cause| BpfError::new("remove a flow from the XDP flow map", cause))
    }

    /// Leaves packets from `peer` to `local` to the kernel although the port is redirected, except
    /// segments that open a connection (a SYN alone): those are for whoever listens. Takes effect
    /// when the port [has exemptions](Self::port_has_exemptions).
    pub fn add_exemption(
        &self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
        protocol: u8,
    ) -> Result<(), BpfError> {
        let value = EXEMPT.to_ne_bytes();
        let added = match flow_key(local.into(), peer.into(), protocol) {
            FlowKey::V4(key) => self.v4.flows.update(&key, &value),
            FlowKey::V6(key) => self.v6.flows.update(&key, &value),
        };
        added.map_err(|cause| BpfError::new("add an exemption to the XDP flow map", cause))
    }

    /// Takes back [`add_exemption`](Self::add_exemption). An error (`ENOENT`) if it is not there.
    pub fn remove_exemption(
        &self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
        protocol: u8,
    ) -> Result<(), BpfError> {
        self.remove_flow(local, peer, protocol)
    }

    /// Has the program look for exemptions of a redirected port, until [`add_port`](Self::add_port)
    /// is called for it again, or, at the unspecified address,
    /// [`add_wildcard`](Self::add_wildcard): its packets take up to two more looks into maps then.
    pub fn port_has_exemptions(
        &self,
        local: impl Into<SocketAddr>,
        protocol: u8,
    ) -> Result<(), BpfError> {
        let local = local.into();
        if local.ip().is_unspecified() {
            return self.set_wildcard(local.port(), local.is_ipv6(), protocol, ANY_WITH_EXEMPTIONS);
        }
        let changed = match port_key(local, protocol) {
            PortKey::V4(key) => self.v4.ports.mark_exemptions(&key, slot(local)),
            PortKey::V6(key) => self.v6.ports.mark_exemptions(&key, slot(local)),
        };
        changed.map_err(|cause| BpfError::new("change a port in the XDP port map", cause))
    }

    /// The same for one of several processes.
    pub fn set_xsk_of(&self, owner: u8, queue: u32, socket: RawFd) -> Result<(), BpfError> {
        self.set_xsk(u32::from(owner) << QUEUE_BITS | queue, socket)
    }

    /// Names the AF_XDP socket that takes the packets of a receive queue. It leaves the map by
    /// itself when it is closed. Packets of queues without a socket go to the kernel.
    pub fn set_xsk(&self, queue: u32, socket: RawFd) -> Result<(), BpfError> {
        self.xsks
            .update(&queue.to_ne_bytes(), &socket.to_ne_bytes())
            .map_err(|cause| BpfError::new("add an AF_XDP socket to the map of queues", cause))
    }

    /// Takes that back.
    pub fn remove_xsk_of(&self, owner: u8, queue: u32) -> Result<(), BpfError> {
        let index = u32::from(owner) << QUEUE_BITS | queue;
        self.xsks
            .delete(&index.to_ne_bytes())
            .map_err(|cause| BpfError::new("take an AF_XDP socket out of the map", cause))
    }

    /// The descriptor of one of them, for others to become a copy of.
    pub(crate) fn stand_in(&self) -> &OwnDescriptor {
        self.v4.flows.descriptor()
    }

    pub(super) fn v4(&self) -> &V4Tables {
        &self.v4
    }

    pub(super) fn v6(&self) -> &V6Tables {
        &self.v6
    }

    pub(super) fn owners(&self) -> Option<&Owners> {
        self.owners.as_deref()
    }

    pub(super) fn xsks_fd(&self) -> BorrowedFd<'_> {
        self.xsks.as_fd()
    }
}

impl<const PORT: usize, const FLOW: usize, const ADDRESS: usize> Tables<PORT, FLOW, ADDRESS> {
    /// The place of TCP's port 0 in the array of ports.
    pub(super) const FIRST_OF_TCP: u32 = 256;

    fn create(capacity: u32) -> Result<Self, BpfError> {
        Ok(Self {
            ports: Slotted::create(
                (PORTS_NAME, "create the XDP port map"),
                (SLOTS_NAME, "create the XDP port array"),
                capacity,
            )?,
            flows: Map::create(
                MapKind::Hash,
                FLOWS_NAME,
                capacity,
                "create the XDP flow map",
            )?,
            wildcards: Map::create(
                MapKind::Array,
                WILDCARDS_NAME,
                2 * Self::FIRST_OF_TCP,
                "create the XDP array of ports",
            )?,
            addresses: Slotted::create(
                (ADDRESSES_NAME, "create the XDP address map"),
                (SLOTS_NAME, "create the XDP address array"),
                capacity,
            )?,
        })
    }

    pub(super) fn flows_fd(&self) -> BorrowedFd<'_> {
        self.flows.as_fd()
    }

    pub(super) fn wildcards_fd(&self) -> BorrowedFd<'_> {
        self.wildcards.as_fd()
    }
}

enum PortKey {
    V4([u8; PORT_KEY_BYTES]),
    V6([u8; V6_PORT_KEY_BYTES]),
}

enum FlowKey {
    V4([u8; FLOW_KEY_BYTES]),
    V6([u8; V6_FLOW_KEY_BYTES]),
}

fn port_key(local: SocketAddr, protocol: u8) -> PortKey {
    let port = local.port().to_be_bytes();
    match local.ip() {
        IpAddr::V4(ip) => PortKey::V4(joined(&[&ip.octets(), &port, &[protocol]])),
        IpAddr::V6(ip) => PortKey::V6(joined(&[&ip.octets(), &port, &[protocol]])),
    }
}

fn flow_key(local: SocketAddr, peer: SocketAddr, protocol: u8) -> FlowKey {
    let ports = [peer.port().to_be_bytes(), local.port().to_be_bytes()].concat();
    match (local.ip(), peer.ip()) {
        (IpAddr::V4(local), IpAddr::V4(peer)) => {
            let (local, peer) = (local.octets(), peer.octets());
            FlowKey::V4(joined(&[&peer, &local, &ports, &[protocol]]))
        }
        (local, peer) => {
            let (local, peer) = (v6_octets(local), v6_octets(peer));
            FlowKey::V6(joined(&[&peer, &local, &ports, &[protocol]]))
        }
    }
}

/// An address of IPv4 beside one of IPv6 is mapped: no packet is of such a flow.
fn v6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The parts behind each other, and zeros.
fn joined<const LEN: usize>(parts: &[&[u8]]) -> [u8; LEN] {
    let mut key = [0; LEN];
    for (to, from) in key.iter_mut().zip(parts.iter().copied().flatten()) {
        *to = *from;
    }
    key
}

/// Changes what an array says of a port, in which those of TCP stand behind those of UDP.
fn set_octet(
    array: &Map<4, PORT_OCTETS>,
    protocol: u8,
    port: u16,
    value: u8,
) -> std::io::Result<()> {
    const { assert!(V4Tables::FIRST_OF_TCP == V6Tables::FIRST_OF_TCP) };
    let first = match protocol == Protocol::Udp as u8 {
        true => 0,
        false => V4Tables::FIRST_OF_TCP,
    };
    let [upper, lower] = port.to_be_bytes();
    let key = (first + u32::from(upper)).to_ne_bytes();
    let mut octets = array.lookup(&key)?.unwrap_or([0; PORT_OCTETS]);
    octets[usize::from(lower)] = value;
    array.update(&key, &octets)
}

/// In which slot a port is.
fn slot(local: SocketAddr) -> u8 {
    local.port().to_be_bytes()[1]
}

/// A port or a flow that is redirected.
pub(super) const PRESENT: u32 = 1;
/// Whose a flow is that is redirected: above that.
pub(super) const OWNER_SHIFT: i32 = 8;
/// A port that is, but for some flows.
pub(super) const WITH_EXEMPTIONS: u32 = 2;
/// The same of a port at any address of the interface, in its octet.
const ANY: u8 = 1;
pub(super) const ANY_WITH_EXEMPTIONS: u8 = 2;
/// A flow that is not.
pub(super) const EXEMPT: u32 = 2;

const PORTS_NAME: Name = *b"vma_ports\0\0\0\0\0\0\0";
const SLOTS_NAME: Name = *b"vma_slots\0\0\0\0\0\0\0";
const FLOWS_NAME: Name = *b"vma_flows\0\0\0\0\0\0\0";
const WILDCARDS_NAME: Name = *b"vma_any_address\0";
const ADDRESSES_NAME: Name = *b"vma_addresses\0\0\0";
const XSKS_NAME: Name = *b"vma_xsks\0\0\0\0\0\0\0\0";
