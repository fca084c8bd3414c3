//! The segment that resets: RFC 9293 §3.5.2 and §3.10.7.1.

use wire::tcp::{Flags, Header};

use super::segment::Incoming;
use crate::{Ecn, SeqNumber, Transmit};

/// A reset to send, as RFC 9293 §3.10.7 spells it out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reset {
    pub(super) seq: SeqNumber,
    pub(super) ack: Option<SeqNumber>,
    /// It is one of this connection's segments, with its window and options; not the answer to one
    /// that no connection expects.
    pub(super) is_own: bool,
}

impl Reset {
    /// RFC 9293 §3.10.7.1: the answer to a segment that no connection expects, if it gets one.
    pub(super) fn answering(segment: &Incoming<'_>) -> Option<Self> {
        // "An incoming segment containing a RST is discarded."
        if segment.has(Flags::RST) {
            return None;
        }
        // "If the ACK bit is off, sequence number zero is used,
        // <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>. If the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>"
        Some(if segment.has(Flags::ACK) {
            Self {
                seq: segment.ack,
                ack: None,
                is_own: false,
            }
        } else {
            Self {
                seq: SeqNumber(0),
                ack: Some(segment.end()),
                is_own: false,
            }
        })
    }

    pub(super) fn fill(self, transmit: &mut Transmit) {
        let (flags, ack) = match self.ack {
            Some(ack) => (Flags::RST | Flags::ACK, ack),
            None => (Flags::RST, SeqNumber(0)),
        };
        *transmit = Transmit {
            header: Header {
                seq: self.seq.0,
                ack: ack.0,
                flags,
                ..Header::default()
            },
            ..Transmit::default()
        };
    }
}

/// The answer to a segment with `payload_len` octets of data for which there is no connection (RFC
/// 9293 §3.10.7.1): fills in a reset, or returns `false` if it gets none, being a reset itself.
pub fn reset_for(header: &Header, payload_len: u32, reset: &mut Transmit) -> bool {
    let answer = Reset::answering(&Incoming::new(header, payload_len, Ecn::NotEct));
    if let Some(answer) = answer {
        answer.fill(reset);
    }
    answer.is_some()
}
