//! Sizes of segments that the standards and Linux set, in octets of payload.

/// What a peer takes that announces no MSS (RFC 9293 §3.7.1): the packet that every host takes,
/// less its headers.
pub(crate) const DEFAULT_IPV4: u16 = 536;
pub(crate) const DEFAULT_IPV6: u16 = 1220;

/// The least MSS that is announced, and that an application can choose (`TCP_MIN_MSS`). Smaller
/// segments would be mostly headers.
pub(crate) const MIN_ANNOUNCED: u16 = 88;

/// The least that is sent in a full segment, options included, whatever the peer announces
/// (`TCP_MIN_SND_MSS`). A peer that announces less wants to receive nothing but headers.
pub(crate) const MIN_SENT: u16 = 48;

/// What of it is left for payload beside all options: a header has room for 40 octets of them.
pub(crate) const MIN_PAYLOAD: u16 = MIN_SENT - 40;
