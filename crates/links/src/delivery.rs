//! A received packet's way to its socket: IP is parsed once, then what it carries.

use std::net::SocketAddr;

use dev_core::{Frame, Protocol};
use wire::ip::{self, Endpoints};
use wire::tcp::Segment;
use wire::{ChecksumPolicy, Malformed, UdpDatagram};

use crate::family::scoped;

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Parsed {
    /// A datagram.
    Udp(UdpDatagram),
    /// A TCP segment.
    Tcp(Segment),
}

/// The destination and the source of a segment, as programs see them; `link_index` is the interface
/// by which it came.
#[inline]
pub fn ends(segment: &Segment, link_index: u32) -> (SocketAddr, SocketAddr) {
    let Segment { endpoints, .. } = segment;
    (
        scoped(endpoints.destination(), link_index),
        scoped(endpoints.source(), link_index),
    )
}

/// Where and when a packet came in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it was taken from the ring, if its way to the program is to be timed; else 0.
    pub nsec: u64,
    /// Index of the interface.
    pub interface: u32,
}

/// Which sums are taken for right.
#[derive(Clone, Copy, Debug)]
pub struct Checksums {
    pub udp: ChecksumPolicy,
    pub tcp: ChecksumPolicy,
}

impl Checksums {
    /// The same of a frame whose device may have looked.
    #[inline(always)]
    pub fn of_frame(self, frame: &Frame) -> Self {
        match frame.is_checked() {
            true => Self {
                udp: ChecksumPolicy::Checked,
                tcp: ChecksumPolicy::Checked,
            },
            false => self,
        }
    }
}

impl Parsed {
    /// Parses a frame of a device. Whole packets only: fragments are the kernel's.
    #[inline(always)]
    pub fn of(frame: &[u8], sums: Checksums) -> Result<Self, Malformed> {
        let packet = ip::parse(frame)?;
        match packet.protocol {
            ip::PROTOCOL_UDP => wire::parse_udp(&packet, sums.udp).map(Self::Udp),
            ip::PROTOCOL_TCP => wire::tcp::parse_tcp(&packet, sums.tcp).map(Self::Tcp),
            // No flow of another protocol leads here.
            _ => Err(Malformed::NotUdp),
        }
    }

    #[inline]
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Udp(_) => Protocol::Udp,
            Self::Tcp(_) => Protocol::Tcp,
        }
    }

    #[inline]
    pub fn endpoints(&self) -> &Endpoints {
        match self {
            Self::Udp(datagram) => &datagram.endpoints,
            Self::Tcp(segment) => &segment.endpoints,
        }
    }

    #[inline]
    pub fn source(&self) -> SocketAddr {
        match self {
            Self::Udp(datagram) => datagram.endpoints.source(),
            Self::Tcp(segment) => segment.endpoints.source(),
        }
    }

    #[inline]
    pub fn destination(&self) -> SocketAddr {
        match self {
            Self::Udp(datagram) => datagram.endpoints.destination(),
            Self::Tcp(segment) => segment.endpoints.destination(),
        }
    }
}
