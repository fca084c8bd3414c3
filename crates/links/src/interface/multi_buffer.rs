//! Packets that are longer than a frame: TCP segments that were merged before they came here arrive
//! in several frames.

use std::sync::Arc;

use dev_core::ThreadMode;

use crate::interface::large_packet::{LargePacket, Spares};

/// The pieces so far of a packet that comes in several frames.
#[derive(Debug)]
pub(super) struct MultiBuffer {
    /// As long as some are missing.
    packet: Option<LargePacket>,
    spares: Arc<Spares>,
}

impl MultiBuffer {
    pub(super) fn new(mode: ThreadMode) -> Self {
        Self {
            packet: None,
            spares: Arc::new(Spares::new(mode)),
        }
    }

    /// Whether the next frame holds more of a packet.
    #[inline]
    pub(super) fn are_missing(&self) -> bool {
        self.packet.is_some()
    }

    /// Takes one more. The packet, if it was the last. An empty one could not be put together.
    pub(super) fn take(&mut self, piece: &[u8], continues: bool) -> Option<LargePacket> {
        let mut packet = self.packet.take().unwrap_or_else(|| {
            let len = wire::ip::frame_len(piece).unwrap_or(0);
            LargePacket::with_room(len.max(piece.len()), &self.spares)
        });
        // Of a packet that is longer than it says nothing more is needed.
        packet.append(piece);
        if continues {
            self.packet = Some(packet);
            return None;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece of this many octets, whose packet has `packet_len` of them. With IPv6 it has the
    /// shortest flow label but none.
    fn first(version: u8, packet_len: u16, bytes: usize) -> Vec<u8> {
        let mut piece = vec![1; bytes];
        let (ether_type, offset, len) = match version {
            4 => ([0x08, 0x00], 16, packet_len),
            _ => ([0x86, 0xdd], 18, packet_len - 40),
        };
        piece[12..14].copy_from_slice(&ether_type);
        piece[14..18].copy_from_slice(&[version << 4, 0, 0, 1]);
        piece[offset..offset + 2].copy_from_slice(&len.to_be_bytes());
        piece
    }

    #[test]
    fn pieces_are_put_together() {
        let mut multi_buffer = MultiBuffer::new(ThreadMode::SpinLock);
        for version in [4, 6, 4] {
            let first = first(version, 100 + 3 - 14, 100);
            assert!(multi_buffer.take(&first, true).is_none());
            assert!(multi_buffer.are_missing());
            assert!(multi_buffer.take(b"cd", true).is_none());
            let whole = multi_buffer.take(b"e", false).unwrap();
            assert_eq!(whole.as_ref(), [&first[..], b"cde"].concat());
            assert!(!multi_buffer.are_missing());
        }
    }

    #[test]
    fn a_packet_without_an_end_takes_no_more_memory() {
        let mut multi_buffer = MultiBuffer::new(ThreadMode::SpinLock);
        assert!(multi_buffer.take(&first(4, 3000, 2000), true).is_none());
        for _ in 0..1000 {
            assert!(multi_buffer.take(&[0; 2000], true).is_none());
        }
        assert!(multi_buffer.take(&[0; 2000], false).unwrap().as_ref().len() <= 4000);
    }
}
