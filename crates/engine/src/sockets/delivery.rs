//! A received packet's way to its socket: IP is parsed once, then what it carries.

use std::net::SocketAddrV4;

use dev_core::Protocol;
use wire::tcp::Segment;
use wire::{ChecksumPolicy, Malformed, UdpDatagram, ipv4};

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Parsed {
    /// A datagram.
    Udp(UdpDatagram),
    /// A TCP segment.
    Tcp(Segment),
}

/// Where and when a packet came in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it was taken from the ring, if its way to the program is to be timed; else 0.
    pub(crate) nsec: u64,
    /// Index of the interface.
    pub(crate) interface: u32,
}

/// Which sums are taken for right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checksums {
    pub(crate) udp: ChecksumPolicy,
    pub(crate) tcp: ChecksumPolicy,
}

impl Parsed {
    /// Parses a frame of a device. Whole packets only: fragments are the kernel's.
    #[inline(always)]
    pub(crate) fn of(frame: &[u8], sums: Checksums) -> Result<Self, Malformed> {
        let packet = ipv4::parse(frame)?;
        match packet.protocol {
            ipv4::PROTOCOL_UDP => wire::parse_udp(&packet, sums.udp).map(Self::Udp),
            ipv4::PROTOCOL_TCP => wire::tcp::parse_tcp(&packet, sums.tcp).map(Self::Tcp),
            // No flow of another protocol leads here.
            _ => Err(Malformed::NotUdp),
        }
    }

    #[inline]
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Udp(_) => Protocol::Udp,
            Self::Tcp(_) => Protocol::Tcp,
        }
    }

    #[inline]
    pub(crate) fn source(&self) -> SocketAddrV4 {
        match self {
            Self::Udp(datagram) => datagram.source,
            Self::Tcp(segment) => segment.source,
        }
    }

    #[inline]
    pub(crate) fn destination(&self) -> SocketAddrV4 {
        match self {
            Self::Udp(datagram) => datagram.destination,
            Self::Tcp(segment) => segment.destination,
        }
    }
}
