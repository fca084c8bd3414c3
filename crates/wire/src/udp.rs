use core::net::{Ipv4Addr, SocketAddrV4};

use crate::{Malformed, checksum, ethernet, ipv4};

/// Length of a UDP header, in bytes.
pub(crate) const UDP_HEADER_LEN: u16 = 8;

/// Length of the headers before a UDP payload: Ethernet, IPv4 without options and UDP, in bytes.
pub(crate) const HEADERS_LEN: u16 = ethernet::HEADER_LEN + ipv4::HEADER_LEN + UDP_HEADER_LEN;

/// How far the sender's UDP checksum can be relied on.
///
/// Under both policies a field of zero means that the sender computed none (RFC 768), and the
/// datagram is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumPolicy {
    /// The checksum must be right: frames that came over a wire.
    Verify,
    /// Also accept a field that holds the folded sum of the pseudo header alone. That is what Linux
    /// leaves in a packet whose checksum it expects the device to complete (`CHECKSUM_PARTIAL`);
    /// over veth and similar devices such packets arrive as they are.
    AcceptPartial,
}

/// A received datagram: its addresses, and where in the frame its payload is.
///
/// `payload_offset + payload_len` does not exceed the length of the parsed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpDatagram {
    pub source: SocketAddrV4,
    pub destination: SocketAddrV4,
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
    let header = frame
        .first_chunk::<{ HEADERS_LEN as usize }>()
        .ok_or(Malformed::Truncated)?;

    if u16::from_be_bytes([header[12], header[13]]) != ethernet::TYPE_IPV4 {
        return Err(Malformed::NotIpv4);
    }
    if header[14] != ipv4::VERSION_AND_IHL {
        let is_version_4 = header[14] >> 4 == ipv4::VERSION_AND_IHL >> 4;
        return Err(if is_version_4 {
            Malformed::HeaderLength
        } else {
            Malformed::NotIpv4
        });
    }
    if checksum::fold(checksum::sum(&header[14..34], 0)) != 0xffff {
        return Err(Malformed::IpChecksum);
    }
    if u16::from_be_bytes([header[20], header[21]]) & ipv4::FRAGMENT_MASK != 0 {
        return Err(Malformed::Fragment);
    }
    if header[23] != ipv4::PROTOCOL_UDP {
        return Err(Malformed::NotUdp);
    }

    let total_length = u16::from_be_bytes([header[16], header[17]]);
    let udp_length = u16::from_be_bytes([header[38], header[39]]);
    let Some(payload_len) = total_length.checked_sub(IP_AND_UDP_HEADERS_LEN) else {
        return Err(Malformed::LengthMismatch);
    };
    if udp_length != payload_len.wrapping_add(UDP_HEADER_LEN) {
        return Err(Malformed::LengthMismatch);
    }
    let (_, packet) = frame
        .split_first_chunk::<UDP_OFFSET>()
        .ok_or(Malformed::Truncated)?;
    let udp = packet
        .get(..usize::from(udp_length))
        .ok_or(Malformed::Truncated)?;

    let source = Ipv4Addr::new(header[26], header[27], header[28], header[29]);
    let destination = Ipv4Addr::new(header[30], header[31], header[32], header[33]);
    let udp_checksum = u16::from_be_bytes([header[40], header[41]]);
    if udp_checksum != 0 {
        let pseudo_header =
            checksum::pseudo_header_v4(source, destination, ipv4::PROTOCOL_UDP, udp_length);
        let is_partial = matches!(policy, ChecksumPolicy::AcceptPartial)
            && udp_checksum == checksum::fold(pseudo_header);
        if !is_partial && checksum::fold(checksum::sum(udp, pseudo_header)) != 0xffff {
            return Err(Malformed::UdpChecksum);
        }
    }

    Ok(UdpDatagram {
        source: SocketAddrV4::new(source, u16::from_be_bytes([header[34], header[35]])),
        destination: SocketAddrV4::new(destination, u16::from_be_bytes([header[36], header[37]])),
        payload_offset: HEADERS_LEN,
        payload_len,
        tos: header[15],
        ttl: header[22],
    })
}

const UDP_OFFSET: usize = (ethernet::HEADER_LEN + ipv4::HEADER_LEN) as usize;
const IP_AND_UDP_HEADERS_LEN: u16 = ipv4::HEADER_LEN + UDP_HEADER_LEN;
