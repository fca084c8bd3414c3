use crate::ip::{self, Addresses, Endpoints};
use crate::{Malformed, checksum, ipv4};

/// Length of a UDP header, in bytes.
pub(crate) const UDP_HEADER_LEN: u16 = 8;

/// How far the sender's UDP checksum can be relied on.
///
/// Under each policy a UDP checksum of zero means that the sender computed none (RFC 768), and
/// the datagram is accepted, but not in IPv6 (RFC 8200 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumPolicy {
    /// The checksum must be right: frames that came over a wire.
    Verify,
    /// Also accept a field that holds the folded sum of the pseudo header alone. That is what Linux
    /// leaves in a packet whose checksum it expects the device to complete (`CHECKSUM_PARTIAL`);
    /// over veth and similar devices such packets arrive as they are.
    AcceptPartial,
    /// The device has looked at it, and found it right.
    Checked,
}

impl ChecksumPolicy {
    /// Whether a checksum whose field holds `field` is right; `sum` is that of all that it covers,
    /// and `pseudo_header` of a part of that.
    #[inline(always)]
    pub(crate) fn accepts(self, field: u16, pseudo_header: u32, sum: impl FnOnce() -> u32) -> bool {
        match self {
            Self::Checked => true,
            Self::AcceptPartial if field == checksum::fold(pseudo_header) => true,
            Self::Verify | Self::AcceptPartial => checksum::fold(sum()) == 0xffff,
        }
    }
}

/// A received datagram: its addresses, and where in the frame its payload is.
///
/// `payload_offset + payload_len` does not exceed the length of the parsed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpDatagram {
    pub endpoints: Endpoints,
    pub payload_offset: u16,
    pub payload_len: u16,
    pub tos: u8,
    pub ttl: u8,
}

/// Parses an untagged Ethernet frame that carries one whole UDP datagram in IPv4 without options.
///
/// Checks everything that makes the datagram deliverable, except that the addresses are ours. Bytes
/// behind the IPv4 packet are Ethernet padding and ignored.
#[inline]
pub fn parse_udp4(frame: &[u8], policy: ChecksumPolicy) -> Result<UdpDatagram, Malformed> {
    let packet = ipv4::parse(frame)?;
    if packet.protocol != ip::PROTOCOL_UDP {
        return Err(Malformed::NotUdp);
    }
    parse_udp(&packet, policy)
}

/// Parses the payload of an IP packet as a UDP datagram.
///
/// # Errors
/// A length or the checksum is wrong.
#[inline(always)]
pub fn parse_udp(
    packet: &ip::Packet<'_>,
    policy: ChecksumPolicy,
) -> Result<UdpDatagram, Malformed> {
    let header = packet
        .payload
        .first_chunk::<{ UDP_HEADER_LEN as usize }>()
        .ok_or(Malformed::LengthMismatch)?;
    let udp_length = u16::from_be_bytes([header[4], header[5]]);
    if udp_length != packet.payload_len {
        return Err(Malformed::LengthMismatch);
    }

    let udp_checksum = u16::from_be_bytes([header[6], header[7]]);
    if udp_checksum != 0 {
        let pseudo_header = packet.addresses.pseudo_header(ip::PROTOCOL_UDP, udp_length);
        let sum = || checksum::sum(packet.payload, pseudo_header);
        if !policy.accepts(udp_checksum, pseudo_header, sum) {
            return Err(Malformed::UdpChecksum);
        }
    } else if matches!(packet.addresses, Addresses::V6 { .. }) {
        return Err(Malformed::UdpChecksum);
    }

    let endpoints = packet.addresses.with_ports(
        u16::from_be_bytes([header[0], header[1]]),
        u16::from_be_bytes([header[2], header[3]]),
    );
    Ok(UdpDatagram {
        endpoints,
        payload_offset: packet.payload_offset.wrapping_add(UDP_HEADER_LEN),
        payload_len: udp_length.wrapping_sub(UDP_HEADER_LEN),
        tos: packet.tos,
        ttl: packet.ttl,
    })
}
