//! Packets that are longer than a frame: TCP segments that were merged before they came here arrive in several frames.

use dev_core::{FlowTable, Frame};

use crate::sockets::delivery::Parsed;
use crate::sockets::interface::Interface;
use crate::sockets::interface::sources::RefusedSources;
use crate::sockets::stack::Stack;

/// How long an IPv4 packet and its frame are, by its header.
fn packet_bytes(first_piece: &[u8]) -> usize {
    let total_len = first_piece
        .get(16..18)
        .map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    ETHERNET_HEADER_BYTES + usize::from(total_len)
}

const ETHERNET_HEADER_BYTES: usize = 14;

/// The pieces so far of a packet that comes in several frames.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    are_missing: bool,
}

impl Pieces {
    /// Whether the next frame holds more of a packet.
    #[inline]
    pub(super) fn are_missing(&self) -> bool {
        self.are_missing
    }

    /// Takes one more. The packet, if it was the last. An empty one could not be put together.
    fn take(&mut self, piece: &[u8], continues: bool) -> Option<Vec<u8>> {
        if !self.are_missing {
            let _ = self
                .bytes
                .try_reserve_exact(packet_bytes(piece).max(piece.len()));
        }
        // Of a packet that is longer than it says nothing more is needed.
        if self.bytes.capacity() - self.bytes.len() >= piece.len() {
            self.bytes.extend_from_slice(piece);
        }
        self.are_missing = continues;
        (!continues).then(|| std::mem::take(&mut self.bytes))
    }
}

impl<S: Stack> Interface<S> {
    /// Takes a piece, and delivers the packet if it is the last. Under the ring's lock.
    #[cold]
    pub(super) fn take_piece(
        &self,
        flows: &FlowTable<S>,
        refused: &RefusedSources,
        frame: Frame,
        pieces: &mut Pieces,
    ) {
        let continues = frame.continues();
        let packet = pieces.take(self.pool.data(&frame), continues);
        self.pool.give(frame);
        let Some(bytes) = packet else {
            return;
        };
        let packet = match Parsed::of(&bytes, self.checksums) {
            Ok(packet) => packet,
            Err(malformed) => return self.count_malformed(malformed),
        };
        if refused.contains(*packet.source().ip()) {
            return self.stats.rx_dropped_malformed.add(1);
        }
        match flows.look_up(packet.protocol(), packet.source(), packet.destination()) {
            Some(socket) => socket.deliver_long(&packet, bytes),
            None => self.stats.rx_dropped_no_socket.add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece with this length in the header.
    fn first(packet_len: u16, bytes: usize) -> Vec<u8> {
        let mut piece = vec![1; bytes];
        piece[16..18].copy_from_slice(&packet_len.to_be_bytes());
        piece
    }

    #[test]
    fn pieces_are_put_together() {
        let mut pieces = Pieces::default();
        for _ in 0..2 {
            let first = first(100 + 3 - 14, 100);
            assert_eq!(pieces.take(&first, true), None);
            assert!(pieces.are_missing());
            assert_eq!(pieces.take(b"cd", true), None);
            let whole = pieces.take(b"e", false).unwrap();
            assert_eq!(whole, [&first[..], b"cde"].concat());
            assert!(!pieces.are_missing());
        }
    }

    #[test]
    fn a_packet_without_an_end_takes_no_more_memory() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(&first(3000, 2000), true), None);
        for _ in 0..1000 {
            assert_eq!(pieces.take(&[0; 2000], true), None);
        }
        assert!(pieces.take(&[0; 2000], false).unwrap().len() <= 4000);
    }
}
