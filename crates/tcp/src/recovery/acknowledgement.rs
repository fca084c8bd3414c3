//! An acknowledgement, and what came of it.

use core::time::Duration;

use wire::tcp::SackBlock;

use crate::{Instant, SeqNumber};

/// An acceptable acknowledgement, perhaps an old one with SACK blocks.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement<'a> {
    pub now: Instant,
    /// Not after `snd_nxt`.
    pub ack: SeqNumber,
    /// As they came; they need not be valid.
    pub sack: &'a [SackBlock],
    /// The segment carries no data, SYN or FIN, and the window is the same as before: if it
    /// acknowledges nothing new, it is a duplicate (RFC 5681 §2).
    pub is_plain: bool,
    /// `TSecr`, and the time since it was sent; for a segment with acceptable timestamps.
    pub echo: Option<(u32, Duration)>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Octets newly acknowledged.
    pub acked: u32,
    /// Octets newly known to have arrived.
    pub delivered: u32,
    /// Segments newly deemed lost.
    pub lost: u32,
    /// The round-trip time that was measured.
    pub rtt: Option<Duration>,
    /// The peer has got something twice (RFC 2883).
    pub has_dsack: bool,
    /// Retransmission had not been necessary, and its effects were undone.
    pub was_spurious: bool,
    /// All that was deemed lost is a probe of the path (RFC 4821); it was cut.
    pub has_lost_probe: bool,
}
