//! IPv4 headers (RFC 791 §3.1).

use core::net::Ipv4Addr;

use crate::checksum::{add, word};
use crate::ip::{Addresses, Addressing, IpHeaders, PROTOCOL_TCP, Packet};
use crate::{Malformed, checksum, ethernet};

/// Length of an IPv4 header without options, in bytes.
pub const HEADER_LEN: u16 = 20;

/// First byte of a header without options: version 4, five 32-bit words.
pub const VERSION_AND_IHL: u8 = 0x45;

/// "Don't fragment" in the flags and fragment offset field.
pub const DONT_FRAGMENT: u16 = 0x4000;

/// "More fragments" and the 13-bit offset: any of these bits set means that the packet is a
/// fragment.
pub const FRAGMENT_MASK: u16 = 0x3fff;

/// Length of the Ethernet and IPv4 headers, in bytes.
pub(crate) const HEADERS_LEN: usize = (ethernet::HEADER_LEN + HEADER_LEN) as usize;

/// The Ethernet and IPv4 headers of one destination.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    /// Total length, identification and checksum are zero.
    bytes: [u8; HEADERS_LEN],
    /// Partial sum of the IPv4 header in `bytes`.
    sum: u32,
}

impl Headers {
    pub(crate) fn new(addressing: &Addressing, source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        let mut bytes = [0; HEADERS_LEN];
        bytes[0..6].copy_from_slice(&addressing.eth.destination);
        bytes[6..12].copy_from_slice(&addressing.eth.source);
        bytes[12..14].copy_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
        bytes[14] = VERSION_AND_IHL;
        bytes[15] = addressing.tos;
        if addressing.dont_fragment {
            bytes[20..22].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        }
        bytes[22] = addressing.ttl;
        bytes[23] = addressing.protocol;
        bytes[26..30].copy_from_slice(&source.octets());
        bytes[30..34].copy_from_slice(&destination.octets());
        Self {
            sum: checksum::sum(&bytes[14..34], 0),
            bytes,
        }
    }

    /// Takes the bit "don't fragment" away.
    pub(crate) fn allow_fragments(&mut self) {
        let [high, _] = DONT_FRAGMENT.to_be_bytes();
        self.bytes[20] &= !high;
        self.sum = checksum::sum(&self.bytes[14..34], 0);
    }
}

impl IpHeaders for Headers {
    const LEN: usize = HEADERS_LEN;
    const MAX_PAYLOAD_LEN: u16 = u16::MAX - HEADER_LEN;

    #[inline(always)]
    fn write(
        &self,
        headers: &mut [u8],
        identification: u16,
        ecn: u8,
        payload_len: u16,
    ) -> Option<usize> {
        let headers = headers.first_chunk_mut::<HEADERS_LEN>()?;
        let total_len = payload_len.wrapping_add(HEADER_LEN);
        let varying = add(
            add(word(total_len), word(identification)),
            word(u16::from(ecn)),
        );
        let sum = add(self.sum, varying);
        *headers = self.bytes;
        headers[15] |= ecn;
        [headers[16], headers[17]] = total_len.to_be_bytes();
        [headers[18], headers[19]] = identification.to_be_bytes();
        [headers[24], headers[25]] = (!checksum::fold(sum)).to_be_bytes();
        Some(HEADERS_LEN.wrapping_add(usize::from(payload_len)))
    }

    fn pseudo_header(&self) -> u32 {
        let addresses = checksum::sum(&self.bytes[26..34], 0);
        add(addresses, word(u16::from(self.bytes[23])))
    }
}

/// Parses the whole packet that an untagged Ethernet frame carries, whatever it is the payload of.
/// Who goes on with the payload looks at its protocol.
///
/// Checks the header and that the frame holds what its length says. A TCP segment may have options
/// of the header before it, which are skipped (RFC 9293 MUST-50), but for a source route, which no
/// host accepts that was not told to (RFC 7126 §4.3); for others that is
/// [`Malformed::HeaderLength`].
///
/// # Errors
/// What is wrong with the packet, or that it is a fragment or no IPv4.
#[inline(always)]
pub fn parse(frame: &[u8]) -> Result<Packet<'_>, Malformed> {
    let (header, behind) = frame
        .split_first_chunk::<HEADERS_LEN>()
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
        addresses: Addresses::V4 {
            source: Ipv4Addr::new(header[26], header[27], header[28], header[29]),
            destination: Ipv4Addr::new(header[30], header[31], header[32], header[33]),
        },
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
    let (options, rest) = behind
        .split_at_checked(usize::from(options_words).wrapping_mul(4))
        .ok_or(Malformed::Truncated)?;
    if !are_followed(options) {
        return Err(Malformed::IpOptions);
    }
    Ok((options, rest))
}

/// Whether a host goes on with a packet that has such options: each ends within the list, and none
/// asks for a route.
fn are_followed(mut list: &[u8]) -> bool {
    // RFC 791 §3.1
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const LOOSE_ROUTE: u8 = 131;
    const STRICT_ROUTE: u8 = 137;
    loop {
        list = match *list {
            [] | [END, ..] => return true,
            [LOOSE_ROUTE | STRICT_ROUTE, ..] => return false,
            [NOTHING, ref rest @ ..] => rest,
            [_, len, ..] if len >= 2 => match list.get(usize::from(len)..) {
                Some(rest) => rest,
                None => return false,
            },
            _ => return false,
        };
    }
}
