//! TCP segments on their way out as one packet, which the device cuts.

use std::sync::atomic::{AtomicBool, Ordering};

/// The longest payload of one packet, in octets: an IPv4 packet is 65,535 long, and headers at most 120.
pub const GSO_MAX: u32 = 65_535 - 120;

/// The way of an interface that can do that.
#[derive(Debug)]
pub(super) struct Gso<G> {
    segmenter: Option<G>,
    /// It has refused a packet.
    is_over: AtomicBool,
}

impl<G> Gso<G> {
    pub(super) fn new(segmenter: Option<G>) -> Self {
        Self {
            segmenter,
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn segmenter(&self) -> Option<&G> {
        self.segmenter.as_ref()
    }

    #[inline]
    pub(super) fn is_usable(&self) -> bool {
        self.segmenter.is_some() && !self.is_over.load(Ordering::Relaxed)
    }

    /// It is used no more. Returns whether it was until now.
    pub(super) fn end(&self) -> bool {
        !self.is_over.swap(true, Ordering::Relaxed)
    }
}

/// Packets on the wire.
pub fn segments(payload_len: u32, segment_len: u16) -> u64 {
    u64::from(payload_len.div_ceil(segment_len.max(1).into()).max(1))
}
