//! IPv6 headers (RFC 8200 §3).

use core::net::Ipv6Addr;

use crate::checksum::{add, word};
use crate::ip::{Addresses, Addressing, IpHeaders, Packet};
use crate::{Malformed, checksum, ethernet};

/// Length of an IPv6 header, in bytes.
pub const HEADER_LEN: u16 = 40;

/// The version in the upper half of the first byte.
pub const VERSION: u8 = 6;

/// Every link carries packets of this size (RFC 8200 §5), in bytes.
pub const MIN_MTU: u16 = 1280;

/// Length of the Ethernet and IPv6 headers, in bytes.
pub(crate) const HEADERS_LEN: usize = (ethernet::HEADER_LEN + HEADER_LEN) as usize;

/// The next header of fragments (RFC 8200 §4.5).
const FRAGMENT: u8 = 44;

/// The other extension headers: hop-by-hop options, routing, authentication, destination options,
/// mobility, HIP, Shim6 (IANA, "IPv6 Extension Header Types").
const EXTENSION_HEADERS: [u8; 7] = [0, 43, 51, 60, 135, 139, 140];

/// The Ethernet and IPv6 headers of one destination.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    /// The payload length is zero.
    bytes: [u8; HEADERS_LEN],
}

impl Headers {
    pub(crate) fn new(addressing: &Addressing, source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        let mut bytes = [0; HEADERS_LEN];
        bytes[0..6].copy_from_slice(&addressing.eth.destination);
        bytes[6..12].copy_from_slice(&addressing.eth.source);
        bytes[12..14].copy_from_slice(&ethernet::TYPE_IPV6.to_be_bytes());
        bytes[14] = VERSION << 4 | addressing.tos >> 4;
        bytes[15] = addressing.tos << 4;
        bytes[20] = addressing.protocol;
        bytes[21] = addressing.ttl;
        bytes[22..38].copy_from_slice(&source.octets());
        bytes[38..54].copy_from_slice(&destination.octets());
        Self { bytes }
    }

    /// Has the packets carry this flow label, the lower 20 bits (RFC 6437). Without a call it is
    /// zero: "not labeled".
    pub(crate) fn set_flow_label(&mut self, label: u32) {
        let [_, high, middle, low] = label.to_be_bytes();
        self.bytes[15] = self.bytes[15] & 0xf0 | high & 0x0f;
        (self.bytes[16], self.bytes[17]) = (middle, low);
    }
}

impl IpHeaders for Headers {
    const LEN: usize = HEADERS_LEN;
    const MAX_PAYLOAD_LEN: u16 = u16::MAX;

    #[inline]
    fn write(
        &self,
        headers: &mut [u8],
        _identification: u16,
        ecn: u8,
        payload_len: u16,
    ) -> Option<usize> {
        let headers = headers.first_chunk_mut::<HEADERS_LEN>()?;
        *headers = self.bytes;
        headers[15] |= ecn << 4;
        [headers[18], headers[19]] = payload_len.to_be_bytes();
        Some(HEADERS_LEN.wrapping_add(usize::from(payload_len)))
    }

    fn pseudo_header(&self) -> u32 {
        let addresses = checksum::sum(&self.bytes[22..54], 0);
        add(addresses, word(u16::from(self.bytes[20])))
    }
}

/// Parses the whole packet that an untagged Ethernet frame carries, whatever it is the payload of.
/// Who goes on with the payload looks at its protocol.
///
/// Checks the header and that the frame holds what its length says. Packets with extension headers
/// are not looked into: no flow leads here, they are the kernel's. A jumbogram (RFC 2675) is one of
/// them.
///
/// # Errors
/// What is wrong with the packet, or that it is a fragment, has other extension headers or is no
/// IPv6.
#[inline(never)]
pub fn parse(frame: &[u8]) -> Result<Packet<'_>, Malformed> {
    let (header, behind) = frame
        .split_first_chunk::<HEADERS_LEN>()
        .ok_or(Malformed::Truncated)?;
    let ether_type = u16::from_be_bytes([header[12], header[13]]);
    if ether_type != ethernet::TYPE_IPV6 || header[14] >> 4 != VERSION {
        return Err(Malformed::NotIpv6);
    }
    let protocol = header[20];
    if protocol == FRAGMENT {
        return Err(Malformed::Fragment);
    }
    if EXTENSION_HEADERS.contains(&protocol) {
        return Err(Malformed::ExtensionHeader);
    }
    let payload_len = u16::from_be_bytes([header[18], header[19]]);
    Ok(Packet {
        addresses: Addresses::V6 {
            source: address(header, 22)?,
            destination: address(header, 38)?,
        },
        protocol,
        tos: header[14] << 4 | header[15] >> 4,
        ttl: header[21],
        payload: behind
            .get(..usize::from(payload_len))
            .ok_or(Malformed::Truncated)?,
        payload_len,
        payload_offset: ethernet::HEADER_LEN.wrapping_add(HEADER_LEN),
    })
}

fn address(header: &[u8; HEADERS_LEN], offset: usize) -> Result<Ipv6Addr, Malformed> {
    let octets = header.get(offset..).and_then(<[u8]>::first_chunk::<16>);
    octets
        .map(|octets| Ipv6Addr::from(*octets))
        .ok_or(Malformed::Truncated)
}
