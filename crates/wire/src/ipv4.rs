//! IPv4 header constants (RFC 791 §3.1), for headers without options.

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
