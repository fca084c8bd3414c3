//! A received packet's way to its socket: IP is parsed once, then what it carries.

use std::net::SocketAddrV4;

use dev_core::{Frame, Protocol};
use wire::{ChecksumPolicy, Malformed, UdpDatagram, ipv4};

use crate::sockets::stack::Stack;

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Parsed {
    /// A datagram.
    Udp(UdpDatagram),
}

impl Parsed {
    /// Parses a frame of a device. Whole packets only: fragments are the kernel's.
    #[inline]
    pub(crate) fn of(frame: &[u8], policy: ChecksumPolicy) -> Result<Self, Malformed> {
        let packet = ipv4::parse(frame)?;
        match packet.protocol {
            ipv4::PROTOCOL_UDP => wire::parse_udp(&packet, policy).map(Self::Udp),
            // No flow of another protocol leads here.
            _ => Err(Malformed::NotUdp),
        }
    }

    #[inline]
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Udp(_) => Protocol::Udp,
        }
    }

    #[inline]
    pub(crate) fn source(&self) -> SocketAddrV4 {
        match self {
            Self::Udp(datagram) => datagram.source,
        }
    }

    #[inline]
    pub(crate) fn destination(&self) -> SocketAddrV4 {
        match self {
            Self::Udp(datagram) => datagram.destination,
        }
    }
}

/// Who polls a ring, and may want a packet before its socket gets it.
pub(crate) trait Taker<S: Stack> {
    /// Shows a packet. `true`: the taker has copied what it needs, and the socket does not get it. `arrived_nsec` is as for
    /// [`Stack::deliver`].
    fn takes(&mut self, socket: S, packet: &Parsed, frame: &Frame, arrived_nsec: u64) -> bool;
}

/// Every packet is for its socket.
pub(crate) struct Nobody;

impl<S: Stack> Taker<S> for Nobody {
    #[inline]
    fn takes(&mut self, _socket: S, _packet: &Parsed, _frame: &Frame, _arrived_nsec: u64) -> bool {
        false
    }
}
