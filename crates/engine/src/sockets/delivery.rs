//! A received packet's way to its socket: IP is parsed once, then what it carries.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use dev_core::Protocol;
use wire::tcp::Segment;
use wire::{ChecksumPolicy, Malformed, UdpDatagram, ip, ipv4};

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Parsed {
    /// A datagram.
    Udp(UdpDatagram),
    /// A TCP segment.
    Tcp(Segment),
}

/// An end of a packet that [`Parsed::of`] has let through, or of a flow of ours: there is no other than IPv4.
#[inline]
pub(crate) fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, address.port()),
    }
}

/// The destination and the source of a segment.
#[inline]
pub(crate) fn ends(segment: &Segment) -> (SocketAddrV4, SocketAddrV4) {
    (
        v4(segment.endpoints.destination()),
        v4(segment.endpoints.source()),
    )
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
            ip::PROTOCOL_UDP => wire::parse_udp(&packet, sums.udp).map(Self::Udp),
            ip::PROTOCOL_TCP => wire::tcp::parse_tcp(&packet, sums.tcp).map(Self::Tcp),
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
            Self::Udp(datagram) => v4(datagram.endpoints.source()),
            Self::Tcp(segment) => v4(segment.endpoints.source()),
        }
    }

    #[inline]
    pub(crate) fn destination(&self) -> SocketAddrV4 {
        match self {
            Self::Udp(datagram) => v4(datagram.endpoints.destination()),
            Self::Tcp(segment) => v4(segment.endpoints.destination()),
        }
    }
}
