//! A received segment, as the checks see it.

use wire::tcp::{Flags, Header};

use crate::{Ecn, SeqNumber};

/// Header fields with what follows from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) header: &'a Header,
    pub(super) seq: SeqNumber,
    pub(super) ack: SeqNumber,
    /// Octets of payload.
    pub(super) len: u32,
    pub(super) ecn: Ecn,
}

impl<'a> Incoming<'a> {
    #[inline]
    pub(super) fn new(header: &'a Header, len: u32, ecn: Ecn) -> Self {
        Self {
            header,
            seq: SeqNumber(header.seq),
            ack: SeqNumber(header.ack),
            len,
            ecn,
        }
    }

    #[inline]
    pub(super) fn has(&self, flags: Flags) -> bool {
        self.header.flags.intersects(flags)
    }

    /// `SEG.SEQ + SEG.LEN`, with SYN and FIN counted (RFC 9293 §3.4).
    #[inline]
    pub(super) fn end(&self) -> SeqNumber {
        self.seq + self.len + u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN))
    }

    /// Neither data nor SYN nor FIN.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0 && !self.has(Flags::SYN | Flags::FIN)
    }
}

/// Whether processing goes on after one of the checks of RFC 9293 §3.10.7.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Continue,
    Drop,
}
