//! IP packets of either version: what both have is the same view, and what they carry does not look
//! which it is.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::checksum::{add, word};
use crate::{EthernetAddresses, Malformed, checksum, ethernet, ipv4, ipv6};

/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;

/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Who sends a packet to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    V4 {
        source: Ipv4Addr,
        destination: Ipv4Addr,
    },
    V6 {
        source: Ipv6Addr,
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// Those of packets from one address to the other. Where the versions differ, the one of IPv4
    /// is mapped (RFC 4291 §2.5.5.2): no network carries such a packet.
    pub(crate) const fn new(source: IpAddr, destination: IpAddr) -> Self {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Self::V4 {
                source,
                destination,
            },
            (source, destination) => Self::V6 {
                source: mapped(source),
                destination: mapped(destination),
            },
        }
    }

    /// The partial sum of the pseudo header that a UDP or TCP checksum covers (RFC 768, RFC 8200
    /// §8.1).
    ///
    /// `length` is that of the UDP or TCP header and its payload together, in bytes.
    #[inline]
    pub fn pseudo_header(&self, protocol: u8, length: u16) -> u32 {
        let addresses = match self {
            Self::V4 {
                source,
                destination,
            } => add(
                u32::from_le_bytes(source.octets()),
                u32::from_le_bytes(destination.octets()),
            ),
            Self::V6 {
                source,
                destination,
            } => {
                let sum = checksum::sum(&source.octets(), 0);
                checksum::sum(&destination.octets(), sum)
            }
        };
        add(addresses, add(word(u16::from(protocol)), word(length)))
    }

    /// The same with ports.
    #[inline]
    pub(crate) const fn with_ports(self, source_port: u16, destination_port: u16) -> Endpoints {
        match self {
            Self::V4 {
                source,
                destination,
            } => Endpoints::V4 {
                source: SocketAddrV4::new(source, source_port),
                destination: SocketAddrV4::new(destination, destination_port),
            },
            Self::V6 {
                source,
                destination,
            } => Endpoints::V6 {
                source: (source, source_port),
                destination: (destination, destination_port),
            },
        }
    }
}

/// Which socket sends a datagram or segment to which. As [`SocketAddr`] each would be twice as
/// long, and be copied with what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoints {
    V4 {
        source: SocketAddrV4,
        destination: SocketAddrV4,
    },
    V6 {
        source: (Ipv6Addr, u16),
        destination: (Ipv6Addr, u16),
    },
}

impl Endpoints {
    /// Flow label and scope are zero.
    #[inline]
    pub const fn source(&self) -> SocketAddr {
        match *self {
            Self::V4 { source, .. } => SocketAddr::V4(source),
            Self::V6 { source, .. } => v6(source),
        }
    }

    /// Flow label and scope are zero.
    #[inline]
    pub const fn destination(&self) -> SocketAddr {
        match *self {
            Self::V4 { destination, .. } => SocketAddr::V4(destination),
            Self::V6 { destination, .. } => v6(destination),
        }
    }
}

#[inline]
const fn v6((address, port): (Ipv6Addr, u16)) -> SocketAddr {
    SocketAddr::V6(SocketAddrV6::new(address, port, 0, 0))
}

const fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// A whole IP packet within a frame.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub addresses: Addresses,
    /// What the payload is: [`PROTOCOL_UDP`] and so on.
    pub protocol: u8,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Without the Ethernet padding that may follow in the frame.
    pub payload: &'a [u8],
    pub payload_len: u16,
    /// Where the payload is in the frame.
    pub payload_offset: u16,
}

/// Whether the frame says that it carries IPv4.
#[inline]
pub fn is_v4(frame: &[u8]) -> bool {
    let behind = frame.get(ethernet::TYPE_OFFSET..);
    behind.and_then(<[u8]>::first_chunk) == Some(&ethernet::TYPE_IPV4.to_be_bytes())
}

/// How long an untagged frame is by the header of its packet, in bytes, if `start` shows as much of
/// it. Nothing is checked.
pub fn frame_len(start: &[u8]) -> Option<usize> {
    let length = |offset: usize| {
        let bytes = start.get(offset..)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    };
    let ip_offset = usize::from(ethernet::HEADER_LEN);
    let (len, behind) = match length(ethernet::TYPE_OFFSET)? {
        ethernet::TYPE_IPV4 => (length(ip_offset.wrapping_add(2))?, 0),
        ethernet::TYPE_IPV6 => (length(ip_offset.wrapping_add(4))?, ipv6::HEADER_LEN),
        _ => return None,
    };
    let headers_len = ip_offset.wrapping_add(usize::from(behind));
    Some(headers_len.wrapping_add(usize::from(len)))
}

/// Parses the whole packet that an untagged Ethernet frame carries, as [`ipv4::parse`] or
/// [`ipv6::parse`].
///
/// # Errors
/// What is wrong with the packet, or that it is a fragment or no IP.
#[inline(always)]
pub fn parse(frame: &[u8]) -> Result<Packet<'_>, Malformed> {
    let ether_type = frame
        .get(ethernet::TYPE_OFFSET..)
        .and_then(<[u8]>::first_chunk)
        .ok_or(Malformed::Truncated)?;
    match u16::from_be_bytes(*ether_type) {
        ethernet::TYPE_IPV4 => ipv4::parse(frame),
        ethernet::TYPE_IPV6 => ipv6::parse(frame),
        _ => Err(Malformed::NotIp),
    }
}

/// What the headers of all packets to one destination have in common.
#[derive(Clone, Copy)]
pub(crate) struct Addressing {
    pub(crate) eth: EthernetAddresses,
    pub(crate) addresses: Addresses,
    pub(crate) protocol: u8,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    /// Of IPv4. Nobody on the way fragments a packet of IPv6 (RFC 8200 §5).
    pub(crate) dont_fragment: bool,
}

/// The Ethernet and IP headers of one destination, with everything filled in but length,
/// identification and checksum.
#[derive(Clone, Debug)]
pub(crate) enum Headers {
    V4(ipv4::Headers),
    V6(ipv6::Headers),
}

/// The longest that they can be, in bytes.
pub(crate) const MAX_HEADERS_LEN: usize = ipv6::HEADERS_LEN;

impl Headers {
    pub(crate) fn new(addressing: &Addressing) -> Self {
        match addressing.addresses {
            Addresses::V4 {
                source,
                destination,
            } => Self::V4(ipv4::Headers::new(addressing, source, destination)),
            Addresses::V6 {
                source,
                destination,
            } => Self::V6(ipv6::Headers::new(addressing, source, destination)),
        }
    }

    /// Their length in bytes.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::V4(_) => ipv4::Headers::LEN,
            Self::V6(_) => ipv6::Headers::LEN,
        }
    }

    /// IPv4 has none.
    pub(crate) fn set_flow_label(&mut self, label: u32) {
        if let Self::V6(v6) = self {
            v6.set_flow_label(label);
        }
    }

    /// As [`IpHeaders::pseudo_header`].
    pub(crate) fn pseudo_header(&self) -> u32 {
        match self {
            Self::V4(v4) => v4.pseudo_header(),
            Self::V6(v6) => v6.pseudo_header(),
        }
    }
}

/// The Ethernet and IP headers of one version. What stamps them is compiled for each, so that all
/// lengths are constants.
pub(crate) trait IpHeaders {
    /// Their length in bytes.
    const LEN: usize;

    /// The longest payload of such a packet, in bytes.
    const MAX_PAYLOAD_LEN: u16;

    /// Writes them for a payload of `payload_len` bytes, not more than the longest. `ecn` is the
    /// codepoint, two bits; IPv6 has no identification. Returns the length of the frame.
    ///
    /// `None`, with nothing written, if `headers` is shorter.
    fn write(
        &self,
        headers: &mut [u8],
        identification: u16,
        ecn: u8,
        payload_len: u16,
    ) -> Option<usize>;

    /// The partial sum of the pseudo header with length zero.
    fn pseudo_header(&self) -> u32;
}

/// The ECN codepoint in the TOS byte or traffic class (RFC 3168 §5).
pub(crate) const ECN_MASK: u8 = 0x03;
