//! Sending what the device cuts into segments.

use dev_core::{Segmented, Segmenter};
use stats::Direction;

use crate::interface::Interface;
use crate::interface::gso::segments;
use crate::interface::sending::Sender;
use crate::receiver::Receiver;

impl<S: Receiver> Interface<S> {
    /// Whether [`Sender::send_whole`] has a way.
    #[inline]
    pub fn sends_whole(&self) -> bool {
        self.gso.is_usable() && !self.is_lost()
    }

    /// What sockets have put into the sending ring while it was polled leaves before what is sent
    /// whole. No lock of a ring may be held.
    #[inline]
    pub fn send_replies_first(&self) {
        self.start_replies();
    }

    #[cold]
    fn whole_refused(&self, errno: i32) {
        self.stats.tx_whole_refused.add_contended(1);
        if self.gso.end() {
            let error = std::io::Error::from_raw_os_error(errno);
            log::warn!(
                "{}: the device does not cut segments any more, so they are sent one by one: {error}",
                self.spec.name
            );
        }
    }
}

impl<S: Receiver> Sender<S> {
    /// Sends a packet as [`Segmenter::send`] does. A system call: no lock of a ring may be held. If
    /// it is refused it is lost, and there will be no other.
    pub fn send_whole<'a>(
        &self,
        headers: &'a [u8],
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        payload_len: u32,
        segment_len: u16,
    ) -> Segmented {
        let Some(segmenter) = self.interface.gso.segmenter() else {
            return Segmented::Refused(0);
        };
        let sent = segmenter.send(headers, parts.clone(), segment_len);
        match sent {
            Segmented::Sent => {
                let len = headers.len() + payload_len as usize;
                let packet = std::iter::once(headers).chain(parts);
                self.interface.record_parts(Direction::Sent, len, packet);
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
