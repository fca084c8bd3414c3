//! One message that leaves as several datagrams (`UDP_SEGMENT`): one look at the sending ring, and
//! one kick.

use dev_core::TxRing;
use wire::UdpTemplate;

use crate::doorbell;
use crate::interface::sending::{Sender, Transmitted};
use crate::receiver::Receiver;

/// The parts of a message, of which so many bytes at a time are taken.
struct Cursor<'payload, I> {
    part: &'payload [u8],
    parts: I,
}

impl<'payload, I: Iterator<Item = &'payload [u8]>> Cursor<'payload, I> {
    /// The next `len` bytes, in pieces.
    fn take(&mut self, mut len: usize) -> impl Iterator<Item = &'payload [u8]> {
        std::iter::from_fn(move || {
            while self.part.is_empty() && len > 0 {
                self.part = self.parts.next()?;
            }
            let (piece, rest) = self.part.split_at(len.min(self.part.len()));
            self.part = rest;
            len -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// As how many datagrams so many bytes leave: an empty one is one, too.
pub fn datagrams(len: usize, segment_len: usize) -> usize {
    len.div_ceil(segment_len.max(1)).max(1)
}

/// The packets of the same message, in memory of their own. `None`: they cannot be built.
pub fn packets<'payload>(
    template: &UdpTemplate,
    identification: u16,
    len: usize,
    segment_len: usize,
    parts: impl Iterator<Item = &'payload [u8]>,
) -> Option<Vec<Vec<u8>>> {
    let mut cursor = Cursor { part: &[], parts };
    let count = datagrams(len, segment_len);
    let mut packets = Vec::with_capacity(count);
    for index in 0..count {
        let piece = segment_len.min(len - index * segment_len);
        let mut packet = vec![0; template.header_len() + piece];
        let identification = identification.wrapping_add(index as u16);
        template.emit(&mut packet, identification, piece, cursor.take(piece))?;
        packets.push(packet);
    }
    Some(packets)
}

impl<S: Receiver> Sender<S> {
    /// Puts `len` bytes into the sending ring as datagrams of `segment_len` bytes and the rest.
    /// What the ring has no room for, although the device was told of it, is lost, as in any full
    /// queue; if that is all of it, the answer is [`Transmitted::Full`].
    pub fn transmit_segments<'payload>(
        &self,
        template: &UdpTemplate,
        identification: u16,
        len: usize,
        segment_len: usize,
        parts: impl Iterator<Item = &'payload [u8]>,
    ) -> Transmitted {
        if self.interface.is_lost() {
            return Transmitted::Lost;
        }
        let mut cursor = Cursor { part: &[], parts };
        let count = datagrams(len, segment_len);
        let mut sent = 0;
        let pool = self.interface.pool;
        loop {
            let before = sent;
            let mut bytes = 0;
            let mut tx = self.ring.tx.lock();
            while sent < count {
                let Some(mut frame) = tx.frame(pool) else {
                    self.ring.stats.tx_full.add(1);
                    break;
                };
                let piece = segment_len.min(len - sent * segment_len);
                let chunk = pool.chunk_mut(&mut frame);
                let identification = identification.wrapping_add(sent as u16);
                let Some(written) = template.emit(chunk, identification, piece, cursor.take(piece))
                else {
                    tx.cancel(frame);
                    return Transmitted::LargerThanFrame;
                };
                pool.set_len(&mut frame, written);
                self.record(pool.data(&frame));
                tx.push(pool, frame);
                bytes += written;
                sent += 1;
            }
            let needs_kick = tx.needs_kick();
            self.ring.stats.tx_packets.add((sent - before) as u64);
            self.ring.stats.tx_bytes.add(bytes as u64);
            drop(tx);
            if sent == 0 {
                return Transmitted::Full;
            }
            if sent == count || sent == before {
                return Transmitted::Sent { needs_kick };
            }
            self.interface.run_kick(self.ring, doorbell::ticks());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_wherever_its_parts_end() {
        let parts = [&b"abc"[..], b"", b"defg", b"h"];
        let mut cursor = Cursor {
            part: &[],
            parts: parts.into_iter(),
        };
        for expected in ["ab", "cdef", "gh", ""] {
            let taken: Vec<u8> = cursor.take(expected.len()).flatten().copied().collect();
            assert_eq!(taken, expected.as_bytes());
        }
        assert_eq!(cursor.take(1).count(), 0);
    }
}
