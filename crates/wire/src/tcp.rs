//! TCP segments (RFC 9293 §3.1): parsed from frames, and their header as a value.

use core::ops::{BitOr, BitOrAssign};

use crate::ip::{self, Endpoints};
use crate::{ChecksumPolicy, Malformed, checksum, ipv4};

mod fast_open;
mod options;
mod template;

pub use fast_open::FastOpen;
pub use options::{MAX_OPTIONS_LEN, MAX_WINDOW_SCALE, Options, SackBlock, SackBlocks, Timestamps};
pub use template::Template;

/// Length of a TCP header without options, in bytes.
pub const MIN_HEADER_LEN: u16 = 20;

/// The control bits of a header (RFC 9293 §3.1, RFC 3168 §6.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    pub const NONE: Self = Self(0);
    pub const FIN: Self = Self(0x01);
    pub const SYN: Self = Self(0x02);
    pub const RST: Self = Self(0x04);
    pub const PSH: Self = Self(0x08);
    pub const ACK: Self = Self(0x10);
    pub const URG: Self = Self(0x20);
    pub const ECE: Self = Self(0x40);
    pub const CWR: Self = Self(0x80);

    /// The flags of byte 13 of a header.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Byte 13 of a header.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// The flags of either.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.union(other);
    }
}

impl core::fmt::Debug for Flags {
    /// The letters of tcpdump: `S.` is SYN and ACK.
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        use core::fmt::Write as _;
        for (flag, letter) in [
            (Self::FIN, 'F'),
            (Self::SYN, 'S'),
            (Self::RST, 'R'),
            (Self::PSH, 'P'),
            (Self::URG, 'U'),
            (Self::ECE, 'E'),
            (Self::CWR, 'W'),
            (Self::ACK, '.'),
        ] {
            if self.contains(flag) {
                formatter.write_char(letter)?;
            }
        }
        Ok(())
    }
}

/// A TCP header without ports and checksum, which belong to the flow and the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub seq: u32,
    /// Meaningful with [`Flags::ACK`] only.
    pub ack: u32,
    pub flags: Flags,
    /// The window field as it is on the wire, not scaled.
    pub window: u16,
    /// The urgent pointer; meaningful with [`Flags::URG`] only.
    pub urgent: u16,
    pub options: Options,
}

/// A received segment: its addresses and header, and where in the frame its payload is.
///
/// `payload_offset + payload_len` does not exceed the length of the parsed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub endpoints: Endpoints,
    pub header: Header,
    pub payload_offset: u16,
    pub payload_len: u16,
    pub tos: u8,
    pub ttl: u8,
}

/// Parses an untagged Ethernet frame that carries one whole TCP segment in IPv4. Options of the IP
/// header are skipped (RFC 9293 MUST-50).
///
/// Checks everything that makes the segment one of a connection, except that the addresses are
/// ours. Bytes behind the IPv4 packet are Ethernet padding and ignored.
#[inline]
pub fn parse_tcp4(frame: &[u8], policy: ChecksumPolicy) -> Result<Segment, Malformed> {
    let packet = ipv4::parse(frame)?;
    if packet.protocol != ip::PROTOCOL_TCP {
        return Err(Malformed::NotTcp);
    }
    parse_tcp(&packet, policy)
}

/// Parses the payload of an IP packet as a TCP segment.
///
/// # Errors
/// A length or the checksum is wrong.
#[inline(never)]
pub fn parse_tcp(packet: &ip::Packet<'_>, policy: ChecksumPolicy) -> Result<Segment, Malformed> {
    let header = packet
        .payload
        .first_chunk::<{ MIN_HEADER_LEN as usize }>()
        .ok_or(Malformed::LengthMismatch)?;

    let header_len = u16::from(header[12] >> 4).wrapping_mul(4);
    if header_len < MIN_HEADER_LEN {
        return Err(Malformed::LengthMismatch);
    }
    let segment_len = packet.payload_len;
    let payload_len = segment_len
        .checked_sub(header_len)
        .ok_or(Malformed::LengthMismatch)?;
    let list = packet
        .payload
        .get(usize::from(MIN_HEADER_LEN)..usize::from(header_len))
        .ok_or(Malformed::LengthMismatch)?;

    let pseudo_header = packet
        .addresses
        .pseudo_header(ip::PROTOCOL_TCP, segment_len);
    let field = u16::from_be_bytes([header[16], header[17]]);
    let sum = || checksum::sum(packet.payload, pseudo_header);
    if !policy.accepts(field, pseudo_header, sum) {
        return Err(Malformed::TcpChecksum);
    }

    let flags = Flags::from_bits(header[13]);
    let endpoints = packet.addresses.with_ports(
        u16::from_be_bytes([header[0], header[1]]),
        u16::from_be_bytes([header[2], header[3]]),
    );
    Ok(Segment {
        endpoints,
        header: Header {
            seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            flags,
            window: u16::from_be_bytes([header[14], header[15]]),
            urgent: u16::from_be_bytes([header[18], header[19]]),
            options: Options::parse(list, flags.contains(Flags::SYN)),
        },
        payload_offset: packet.payload_offset.wrapping_add(header_len),
        payload_len,
        tos: packet.tos,
        ttl: packet.ttl,
    })
}
