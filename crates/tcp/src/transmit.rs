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

/// What [`Connection::poll_transmit`](crate::Connection::poll_transmit) fills in; made once and used again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transmit {
    pub header: Header,
    pub ecn: Ecn,
    /// Where the payload starts in the stream; its octets are
    /// [`Connection::payload`](crate::Connection::payload)'s.
    pub(crate) start: SeqNumber,
    /// Octets of payload.
    pub payload_len: u32,
    /// If the payload is longer than this, the device cuts it into segments of this length, each with this header but
    /// for the sequence number, and FIN and PSH on the last only, CWR on the first only (as TSO does).
    pub segment_len: u16,
}

/// Whose answer a segment without a connection gets (RFC 9293 §3.10.7.1): fills in a reset, or returns `false` if there
/// is none.
pub fn reset_for(header: &Header, payload_len: u32, reset: &mut Transmit) -> bool {
    use wire::tcp::Flags;
    // "An incoming segment containing a RST is discarded."
    if header.flags.contains(Flags::RST) {
        return false;
    }
    // "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>. If the ACK bit is
    // on, <SEQ=SEG.ACK><CTL=RST>"
    let (seq, ack, flags) = if header.flags.contains(Flags::ACK) {
        (header.ack, 0, Flags::RST)
    } else {
        let control = u32::from(header.flags.contains(Flags::SYN))
            .wrapping_add(u32::from(header.flags.contains(Flags::FIN)));
        let end = header.seq.wrapping_add(payload_len).wrapping_add(control);
        (0, end, Flags::RST | Flags::ACK)
    };
    *reset = Transmit {
        header: Header {
            seq,
            ack,
            flags,
            ..Header::default()
        },
        ..Transmit::default()
    };
    true
}
