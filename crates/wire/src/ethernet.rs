//! Ethernet II framing: destination, source, type; no preamble and no frame check sequence.

/// Length of an untagged Ethernet header, in bytes.
pub const HEADER_LEN: u16 = 14;

/// EtherType of IPv4 (RFC 894).
pub const TYPE_IPV4: u16 = 0x0800;

/// EtherType of IPv6 (RFC 2464).
pub const TYPE_IPV6: u16 = 0x86dd;

/// Where the EtherType is in an untagged frame.
pub const TYPE_OFFSET: usize = 12;

/// The two addresses of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetAddresses {
    pub source: [u8; 6],
    pub destination: [u8; 6],
}
