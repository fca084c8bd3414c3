//! Received data: where the device has put it, or copied.

use std::mem::ManuallyDrop;

use links::interface::large_packet::LargePacket;

use ::tcp::Payload;
use dev_core::{Frame, FramePool};

/// `struct sk_buff` and what lies behind its data, as the kernel charges it (`skb->truesize`).
const OVERHEAD_BYTES: usize = 576;

/// Data of one segment.
#[derive(Debug)]
pub(crate) enum Received {
    /// In a frame of the pool.
    Frame(InFrame),
    /// The frame was needed, or there was none.
    Copy {
        bytes: Vec<u8>,
        /// Bytes before it that are read already, headers included.
        start: usize,
    },
    /// A packet that was put together of several frames.
    Long {
        packet: LargePacket,
        /// Where what is not read yet begins and ends.
        start: usize,
        end: usize,
    },
}

/// Data in a frame of the pool, which gets it back in the end.
#[derive(Debug)]
pub(crate) struct InFrame {
    pool: &'static FramePool,
    frame: ManuallyDrop<Frame>,
    start: u16,
    len: u16,
}

impl Drop for InFrame {
    fn drop(&mut self) {
        // SAFETY: nothing uses the frame after this.
        let frame = unsafe { ManuallyDrop::take(&mut self.frame) };
        self.pool.give(frame);
    }
}

impl Received {
    /// `len` bytes from `start` of a frame, which were seen to lie in it. Copied where frames are
    /// scarce; without memory for that, the frame stays.
    #[inline]
    pub(crate) fn of_frame(pool: &'static FramePool, frame: Frame, start: u16, len: u16) -> Self {
        match Self::in_frame(pool, frame, start, len) {
            Self::Frame(in_frame) if pool.is_scarce() => Self::copied(in_frame),
            received => received,
        }
    }

    /// The same, and it stays where it is in any case.
    #[inline]
    pub(crate) fn in_frame(pool: &'static FramePool, frame: Frame, start: u16, len: u16) -> Self {
        Self::Frame(InFrame {
            pool,
            frame: ManuallyDrop::new(frame),
            start,
            len,
        })
    }

    #[cold]
    fn copied(in_frame: InFrame) -> Self {
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(usize::from(in_frame.len)).is_err() {
            return Self::Frame(in_frame);
        }
        bytes.extend_from_slice(in_frame.data());
        Self::Copy { bytes, start: 0 }
    }

    /// Its frame, if it has one of the pool.
    pub(crate) fn frame(&self) -> Option<&Frame> {
        match self {
            Self::Frame(in_frame) => Some(&in_frame.frame),
            _ => None,
        }
    }

    /// Whether it has a frame of the pool.
    pub(crate) fn has_frame(&self) -> bool {
        matches!(self, Self::Frame(_))
    }

    /// The same data without a frame, if there is memory for that.
    #[cold]
    pub(crate) fn out_of_pool(self) -> Self {
        match self {
            Self::Frame(frame) => Self::copied(frame),
            other => other,
        }
    }

    /// A copy, for who reads it while somebody else looks at it.
    #[cold]
    pub(crate) fn copy(&self) -> Self {
        Self::Copy {
            bytes: self.as_ref().to_vec(),
            start: 0,
        }
    }

    /// `len` bytes from `start` of a packet that was put together.
    pub(crate) fn of_large(packet: LargePacket, start: u16, len: u16) -> Self {
        let start = usize::from(start);
        let end = start + usize::from(len);
        Self::Long { packet, start, end }
    }
}

impl InFrame {
    #[inline]
    fn data(&self) -> &[u8] {
        let start = usize::from(self.start);
        // The parser has checked that it lies in the frame.
        self.pool
            .data(&self.frame)
            .get(start..start + usize::from(self.len))
            .unwrap_or_default()
    }
}

impl AsRef<[u8]> for Received {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Frame(frame) => frame.data(),
            Self::Copy { bytes, start } => bytes.get(*start..).unwrap_or_default(),
            Self::Long { packet, start, end } => {
                packet.as_ref().get(*start..*end).unwrap_or_default()
            }
        }
    }
}

impl Payload for Received {
    fn trim_front(&mut self, count: usize) {
        match self {
            Self::Frame(frame) => {
                let count = u16::try_from(count).unwrap_or(u16::MAX).min(frame.len);
                frame.start += count;
                frame.len -= count;
            }
            Self::Copy { bytes, start } => *start = start.saturating_add(count).min(bytes.len()),
            Self::Long { start, end, .. } => *start = start.saturating_add(count).min(*end),
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Self::Frame(frame) => {
                frame.len = frame.len.min(u16::try_from(len).unwrap_or(u16::MAX));
            }
            Self::Copy { bytes, start } => bytes.truncate(start.saturating_add(len)),
            Self::Long { start, end, .. } => *end = start.saturating_add(len).min(*end),
        }
    }

    fn footprint(&self) -> usize {
        OVERHEAD_BYTES
            + match self {
                Self::Frame(frame) => usize::from(frame.pool.frame_bytes()),
                Self::Copy { bytes, .. } => bytes.capacity(),
                Self::Long { packet, .. } => packet.capacity(),
            }
    }

    /// A frame's rest is the device's, and that of a long packet's memory is not charged to
    /// anybody; a copy has as much as it needs.
    fn try_append(&mut self, octets: &[u8]) -> bool {
        match self {
            Self::Frame(_) | Self::Long { .. } => false,
            Self::Copy { bytes, .. } => {
                let has_room = bytes.capacity() - bytes.len() >= octets.len();
                if has_room {
                    bytes.extend_from_slice(octets);
                }
                has_room
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dev_core::ThreadMode;

    use super::*;

    fn pool(frames: u32) -> &'static FramePool {
        Box::leak(Box::new(
            FramePool::new(frames, 2048, ThreadMode::SpinLock).unwrap(),
        ))
    }

    fn frame(pool: &FramePool, data: &[u8]) -> Frame {
        let mut frame = pool.take().unwrap();
        pool.chunk_mut(&mut frame)[..data.len()].copy_from_slice(data);
        pool.set_len(&mut frame, data.len());
        frame
    }

    #[test]
    fn data_is_cut_from_both_ends_and_its_frame_comes_back() {
        let pool = pool(64);
        for mut received in [
            Received::of_frame(pool, frame(pool, b"headerpayload padding"), 6, 7),
            Received::of_large(LargePacket::of(b"headerpayload padding"), 6, 7),
        ] {
            assert_eq!(received.as_ref(), b"payload");
            received.trim_front(3);
            assert_eq!(received.as_ref(), b"load");
            received.truncate(2);
            assert_eq!(received.as_ref(), b"lo");
            received.truncate(9);
            received.trim_front(9);
            assert_eq!(received.as_ref(), b"");
        }
        assert_eq!(pool.free_count(), 64);
    }

    #[test]
    fn where_frames_are_scarce_data_is_copied() {
        let pool = pool(8);
        let mut held = Vec::new();
        pool.take_many(7, |frame| held.push(frame));
        let received = Received::of_frame(pool, frame(pool, b"headerpayload"), 6, 7);
        assert!(matches!(received, Received::Copy { .. }));
        assert_eq!(received.as_ref(), b"payload");
        assert_eq!(pool.free_count(), 1);
        held.into_iter().for_each(|frame| pool.give(frame));
    }
}
