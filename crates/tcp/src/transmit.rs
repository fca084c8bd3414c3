//! A segment to send.

use wire::tcp::Header;

use crate::SeqNumber;

/// ECN codepoint of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    #[default]
    NotEct = 0,
    Ect1 = 1,
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The codepoint in the lower two bits of a TOS byte.
    #[must_use]
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// What [`Connection::poll_transmit`](crate::Connection::poll_transmit) fills in; made once and
/// used again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transmit {
    pub header: Header,
    pub ecn: Ecn,
    /// Where the payload starts in the stream; its octets are
    /// [`Connection::payload`](crate::Connection::payload)'s.
    pub(crate) start: SeqNumber,
    /// Octets of payload.
    pub payload_len: u32,
    /// If the payload is longer than this, the device cuts it into segments of this length, each
    /// with this header but for the sequence number, and FIN and PSH on the last only, CWR on the
    /// first only (as TSO does).
    pub segment_len: u16,
}
