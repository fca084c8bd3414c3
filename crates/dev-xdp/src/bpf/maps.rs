//! The maps that tell the XDP program which datagrams are ours.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use descriptors::OwnDescriptor;

use super::error::BpfError;
use super::syscall::{Map, MapKind, Name};

/// Key of the port map: destination address and port as in the packet, protocol, a zero byte.
pub(super) const PORT_KEY_BYTES: usize = 8;
/// Key of the flow map: both addresses and both ports as in the packet (source first), protocol, three
/// zero bytes.
pub(super) const FLOW_KEY_BYTES: usize = 16;

/// Receive queues that an interface can have; more are refused by [`FlowMaps::set_xsk`].
const QUEUES_MAX: u32 = 1024;

/// Slots of the array in front of the port map: one for each value of a port's lower byte.
const SLOTS: u32 = 256;

/// The ports and flows to redirect, and the AF_XDP socket of each receive queue.
///
/// Changes take effect with the next packet. A protocol is an IP protocol number; the program knows TCP
/// (6) and UDP (17), entries of others have no effect. "Local" is the packet's destination, "peer" its source.
#[derive(Debug)]
pub struct FlowMaps {
    ports: Map<PORT_KEY_BYTES, 4>,
    /// In each slot the key of one [`PortMode::AnySource`] port, or zeros: found without the hash of the port map, which takes
    /// 50 ns a packet.
    slots: Map<4, PORT_KEY_BYTES>,
    flows: Map<FLOW_KEY_BYTES, 4>,
    xsks: Map<4, 4>,
}

/// What a port's packets are redirected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PortMode {
    /// All packets to the port, whoever sends them.
    AnySource = 1,
    /// Those of the flows added with [`FlowMaps::add_flow`]; the kernel gets the others.
    ExactFlows = 2,
}

impl FlowMaps {
    /// Empty maps with room for `capacity` ports and as many flows. Memory is taken as they are added.
    pub fn create(capacity: u32) -> Result<Self, BpfError> {
        Ok(Self {
            ports: Map::create(
                MapKind::Hash,
                PORTS_NAME,
                capacity,
                "create the XDP port map",
            )?,
            slots: Map::create(
                MapKind::Array,
                SLOTS_NAME,
                SLOTS,
                "create the XDP port array",
            )?,
            flows: Map::create(
                MapKind::Hash,
                FLOWS_NAME,
                capacity,
                "create the XDP flow map",
            )?,
            xsks: Map::create(
                MapKind::XskMap,
                XSKS_NAME,
                QUEUES_MAX,
                "create the AF_XDP map",
            )?,
        })
    }

    /// Redirects packets to `local`, replacing what was said about this port before.
    pub fn add_port(
        &self,
        local: SocketAddrV4,
        protocol: u8,
        mode: PortMode,
    ) -> Result<(), BpfError> {
        let key = port_key(local, protocol);
        let failed = |cause| BpfError::new("add a port to the XDP port map", cause);
        if mode != PortMode::AnySource {
            self.clear_slot(&key).map_err(failed)?;
        }
        self.ports
            .update(&key, &(mode as u32).to_ne_bytes())
            .map_err(failed)?;
        if mode == PortMode::AnySource {
            // Another port that had the slot is found in the map.
            self.slots.update(&slot(&key), &key).map_err(failed)?;
        }
        Ok(())
    }

    /// The port is not redirected for everybody any more.
    fn clear_slot(&self, key: &[u8; PORT_KEY_BYTES]) -> io::Result<()> {
        if self.slots.lookup(&slot(key))? == Some(*key) {
            self.slots.update(&slot(key), &[0; PORT_KEY_BYTES])?;
        }
        Ok(())
    }

    /// The same for a port that nothing was said about.
    pub(crate) fn add_new_port(
        &self,
        local: SocketAddrV4,
        protocol: u8,
        mode: PortMode,
    ) -> Result<(), BpfError> {
        if mode == PortMode::AnySource {
            return self.add_port(local, protocol, mode);
        }
        self.ports
            .update(&port_key(local, protocol), &(mode as u32).to_ne_bytes())
            .map_err(|cause| BpfError::new("add a port to the XDP port map", cause))
    }

    /// Leaves packets to `local`, of which some were redirected, to the kernel. An error (`ENOENT`) if none were.
    pub(crate) fn remove_exact_port(
        &self,
        local: SocketAddrV4,
        protocol: u8,
    ) -> Result<(), BpfError> {
        self.ports
            .delete(&port_key(local, protocol))
            .map_err(|cause| BpfError::new("remove a port from the XDP port map", cause))
    }

    /// Leaves packets to `local` to the kernel. An error (`ENOENT`) if they were.
    pub fn remove_port(&self, local: SocketAddrV4, protocol: u8) -> Result<(), BpfError> {
        let key = port_key(local, protocol);
        self.clear_slot(&key)
            .and_then(|()| self.ports.delete(&key))
            .map_err(|cause| BpfError::new("remove a port from the XDP port map", cause))
    }

    /// What is redirected of the packets to `local`, if anything.
    pub fn port(&self, local: SocketAddrV4, protocol: u8) -> Result<Option<PortMode>, BpfError> {
        let value = self
            .ports
            .lookup(&port_key(local, protocol))
            .map_err(|cause| BpfError::new("look up a port in the XDP port map", cause))?;
        let modes = [PortMode::AnySource, PortMode::ExactFlows];
        Ok(value.and_then(|value| {
            modes
                .into_iter()
                .find(|mode| *mode as u32 == u32::from_ne_bytes(value))
        }))
    }

    /// Redirects packets from `peer` to `local`, if the port of `local` is added too.
    pub fn add_flow(
        &self,
        local: SocketAddrV4,
        peer: SocketAddrV4,
        protocol: u8,
    ) -> Result<(), BpfError> {
        self.flows
            .update(
                &flow_key(local, peer, protocol),
                &FLOW_PRESENT.to_ne_bytes(),
            )
            .map_err(|cause| BpfError::new("add a flow to the XDP flow map", cause))
    }

    /// Takes back [`add_flow`](Self::add_flow). An error (`ENOENT`) if the flow is not there.
    pub fn remove_flow(
        &self,
        local: SocketAddrV4,
        peer: SocketAddrV4,
        protocol: u8,
    ) -> Result<(), BpfError> {
        self.flows
            .delete(&flow_key(local, peer, protocol))
            .map_err(|cause| BpfError::new("remove a flow from the XDP flow map", cause))
    }

    /// Names the AF_XDP socket that takes the packets of a receive queue. It leaves the map by itself
    /// when it is closed. Packets of queues without a socket go to the kernel.
    pub fn set_xsk(&self, queue: u32, socket: RawFd) -> Result<(), BpfError> {
        self.xsks
            .update(&queue.to_ne_bytes(), &socket.to_ne_bytes())
            .map_err(|cause| BpfError::new("add an AF_XDP socket to the map of queues", cause))
    }

    /// The descriptor of one of them, for others to become a copy of.
    pub(crate) fn stand_in(&self) -> &OwnDescriptor {
        self.ports.descriptor()
    }

    pub(super) fn slots_fd(&self) -> BorrowedFd<'_> {
        self.slots.as_fd()
    }

    pub(super) fn ports_fd(&self) -> BorrowedFd<'_> {
        self.ports.as_fd()
    }

    pub(super) fn flows_fd(&self) -> BorrowedFd<'_> {
        self.flows.as_fd()
    }

    pub(super) fn xsks_fd(&self) -> BorrowedFd<'_> {
        self.xsks.as_fd()
    }
}

fn port_key(local: SocketAddrV4, protocol: u8) -> [u8; PORT_KEY_BYTES] {
    let [a, b, c, d] = local.ip().octets();
    let [p, q] = local.port().to_be_bytes();
    [a, b, c, d, p, q, protocol, 0]
}

/// Where the array has a port.
fn slot(key: &[u8; PORT_KEY_BYTES]) -> [u8; 4] {
    u32::from(key[PORT_LOW_BYTE]).to_ne_bytes()
}

fn flow_key(local: SocketAddrV4, peer: SocketAddrV4, protocol: u8) -> [u8; FLOW_KEY_BYTES] {
    let mut key = [0; FLOW_KEY_BYTES];
    key[0..4].copy_from_slice(&peer.ip().octets());
    key[4..8].copy_from_slice(&local.ip().octets());
    key[8..10].copy_from_slice(&peer.port().to_be_bytes());
    key[10..12].copy_from_slice(&local.port().to_be_bytes());
    key[12] = protocol;
    key
}

/// The lower byte of the port in the key.
const PORT_LOW_BYTE: usize = 5;

/// The program looks only whether a flow is there.
const FLOW_PRESENT: u32 = 1;

const PORTS_NAME: Name = *b"vma_ports\0\0\0\0\0\0\0";
const SLOTS_NAME: Name = *b"vma_slots\0\0\0\0\0\0\0";
const FLOWS_NAME: Name = *b"vma_flows\0\0\0\0\0\0\0";
const XSKS_NAME: Name = *b"vma_xsks\0\0\0\0\0\0\0\0";
