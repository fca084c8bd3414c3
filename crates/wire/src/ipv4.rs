//! IPv4 headers (RFC 791 §3.1).

use core::net::Ipv4Addr;

use crate::{EthernetAddresses, Malformed, checksum, ethernet};

/// Length of an IPv4 header without options, in bytes.
pub const HEADER_LEN: u16 = 20;

/// First byte of a header without options: version 4, five 32-bit words.
pub const VERSION_AND_IHL: u8 = 0x45;

/// "Don't fragment" in the flags and fragment offset field.
pub const DONT_FRAGMENT: u16 = 0x4000;

/// "More fragments" and the 13-bit offset: any of these bits set means that the packet is a fragment.
pub const FRAGMENT_MASK: u16 = 0x3fff;

/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;

/// Length of the Ethernet and IPv4 headers, in bytes.
pub(crate) const HEADERS_LEN: usize = (ethernet::HEADER_LEN + HEADER_LEN) as usize;

/// What the headers of all packets to one destination have in common.
#[derive(Clone, Copy)]
pub(crate) struct Addressing {
    pub(crate) eth: EthernetAddresses,
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) protocol: u8,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    pub(crate) dont_fragment: bool,
}

impl Addressing {
    /// The Ethernet and IPv4 headers; total length, identification and checksum are zero.
    pub(crate) fn headers(&self) -> [u8; HEADERS_LEN] {
        let mut bytes = [0; HEADERS_LEN];
        bytes[0..6].copy_from_slice(&self.eth.destination);
        bytes[6..12].copy_from_slice(&self.eth.source);
        bytes[12..14].copy_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
        bytes[14] = VERSION_AND_IHL;
        bytes[15] = self.tos;
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        bytes[20..22].copy_from_slice(&flags.to_be_bytes());
        bytes[22] = self.ttl;
        bytes[23] = self.protocol;
        bytes[26..30].copy_from_slice(&self.source.octets());
        bytes[30..34].copy_from_slice(&self.destination.octets());
        bytes
    }
}

/// A whole IPv4 packet within a frame.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    /// What the payload is: [`PROTOCOL_UDP`] and so on.
    pub protocol: u8,
    pub tos: u8,
    pub ttl: u8,
    /// Without the Ethernet padding that may follow in the frame.
    pub payload: &'a [u8],
    pub payload_len: u16,
    /// Where the payload is in the frame.
    pub payload_offset: u16,
}

/// Parses the whole packet that an untagged Ethernet frame carries, whatever it is the payload of. Who goes on with the payload
/// looks at its protocol.
///
/// Checks the header and that the frame holds what its length says. A TCP segment may have options of the header before it, which
/// are skipped (RFC 9293 MUST-50); for others that is [`Malformed::HeaderLength`].
///
/// # Errors
/// What is wrong with the packet, or that it is a fragment or no IPv4.
#[inline(always)]
pub fn parse(frame: &[u8]) -> Result<Packet<'_>, Malformed> {
    let (header, behind) = frame
        .split_first_chunk::<FRAME_HEADERS_LEN>()
        .ok_or(Malformed::Truncated)?;
    if u16::from_be_bytes([header[12], header[13]]) != ethernet::TYPE_IPV4 {
        return Err(Malformed::NotIpv4);
    }
    let mut sum = checksum::sum(&header[14..], 0);
    let mut options_len = 0;
    let mut behind = behind;
    if header[14] != VERSION_AND_IHL {
        let (options, rest) = split_options(header[14], behind, header[23] == PROTOCOL_TCP)?;
        sum = checksum::sum(options, sum);
        options_len = u16::try_from(options.len()).unwrap_or(u16::MAX);
        behind = rest;
    }
    if checksum::fold(sum) != 0xffff {
        return Err(Malformed::IpChecksum);
    }
    if u16::from_be_bytes([header[20], header[21]]) & FRAGMENT_MASK != 0 {
        return Err(Malformed::Fragment);
    }
    let payload_len = u16::from_be_bytes([header[16], header[17]])
        .checked_sub(HEADER_LEN.wrapping_add(options_len))
        .ok_or(Malformed::LengthMismatch)?;
    Ok(Packet {
        source: Ipv4Addr::new(header[26], header[27], header[28], header[29]),
        destination: Ipv4Addr::new(header[30], header[31], header[32], header[33]),
        protocol: header[23],
        tos: header[15],
        ttl: header[22],
        payload: behind
            .get(..usize::from(payload_len))
            .ok_or(Malformed::Truncated)?,
        payload_len,
        payload_offset: ethernet::HEADER_LEN
            .wrapping_add(HEADER_LEN)
            .wrapping_add(options_len),
    })
}

/// The options of a header whose first byte is not that of one without, and what is behind them.
#[cold]
fn split_options(
    version_and_ihl: u8,
    behind: &[u8],
    may_have_options: bool,
) -> Result<(&[u8], &[u8]), Malformed> {
    if version_and_ihl >> 4 != VERSION_AND_IHL >> 4 {
        return Err(Malformed::NotIpv4);
    }
    let options_words = (version_and_ihl & 0xf)
        .checked_sub(VERSION_AND_IHL & 0xf)
        .filter(|_| may_have_options)
        .ok_or(Malformed::HeaderLength)?;
    behind
        .split_at_checked(usize::from(options_words).wrapping_mul(4))
        .ok_or(Malformed::Truncated)
}

const FRAME_HEADERS_LEN: usize = (ethernet::HEADER_LEN + HEADER_LEN) as usize;
