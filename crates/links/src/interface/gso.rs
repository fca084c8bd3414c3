//! TCP segments on their way out as one packet, which the device cuts.

use std::sync::atomic::{AtomicBool, Ordering};

use dev_core::{Segmented, Segmenter};

use crate::interface::{Interface, Sender};
use crate::receiver::Receiver;

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
}

impl<S: Receiver> Interface<S> {
    /// Whether [`Sender::send_whole`] has a way.
    #[inline]
    pub fn sends_whole(&self) -> bool {
        self.gso.segmenter.is_some() && !self.gso.is_over.load(Ordering::Relaxed) && !self.is_lost()
    }

    /// What sockets have put into the sending ring while it was polled leaves before what is sent whole. No lock of a ring may be held.
    #[inline]
    pub fn send_replies_first(&self) {
        self.start_replies();
    }

    #[cold]
    fn whole_refused(&self, errno: i32) {
        self.stats.tx_whole_refused.add_contended(1);
        if !self.gso.is_over.swap(true, Ordering::Relaxed) {
            let error = std::io::Error::from_raw_os_error(errno);
            log::warn!(
                "{}: the device does not cut segments any more, so they are sent one by one: {error}",
                self.spec.name
            );
        }
    }
}

impl<S: Receiver> Sender<S> {
    /// Sends a packet as [`Segmenter::send`] does. A system call: no lock of a ring may be held. If it is refused it is lost, and there
    /// will be no other.
    pub fn send_whole<'a>(
        &self,
        headers: &[u8],
        parts: impl Iterator<Item = &'a [u8]>,
        payload_len: u32,
        segment_len: u16,
    ) -> Segmented {
        let Some(segmenter) = &self.interface.gso.segmenter else {
            return Segmented::Refused(0);
        };
        let sent = segmenter.send(headers, parts, segment_len);
        match sent {
            Segmented::Sent => {
                let segments = segments(payload_len, segment_len);
                let bytes = segments * headers.len() as u64 + u64::from(payload_len);
                // The counters are the ring's.
                let _tx = self.ring.tx.lock();
                self.ring.stats.tx_whole.add(1);
                self.ring.stats.tx_packets.add(segments);
                self.ring.stats.tx_bytes.add(bytes);
            }
            Segmented::Full => {
                let _tx = self.ring.tx.lock();
                self.ring.stats.tx_full.add(1);
            }
            Segmented::Refused(errno) => self.interface.whole_refused(errno),
        }
        sent
    }
}

/// Packets on the wire.
pub fn segments(payload_len: u32, segment_len: u16) -> u64 {
    u64::from(payload_len.div_ceil(segment_len.max(1).into()).max(1))
}
