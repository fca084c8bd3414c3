//! Received datagrams, in a frame of the pool or outside of it.

use std::net::SocketAddrV4;

use dev_core::{Frame, FramePool};
use wire::UdpDatagram;

use crate::sockets::delivery;

/// IPv4 and UDP headers before a payload.
const IP_UDP_HEADERS: usize = 28;
/// Where a UDP checksum lies behind an IPv4 header without options.
const UDP_CHECKSUM: std::ops::Range<usize> = 26..28;

/// A datagram in a frame of the pool.
#[derive(Debug)]
pub(crate) struct Received {
    frame: Frame,
    pub(super) source: SocketAddrV4,
    payload_offset: u16,
    payload_len: u16,
    /// When it was taken from the ring, if it is one of those that are measured; else 0.
    pub(super) arrived_nsec: u64,
}

impl Received {
    #[inline]
    pub(crate) fn new(frame: Frame, datagram: &UdpDatagram, arrived_nsec: u64) -> Self {
        Self {
            frame,
            source: delivery::v4(datagram.endpoints.source()),
            payload_offset: datagram.payload_offset,
            payload_len: datagram.payload_len,
            arrived_nsec,
        }
    }

    pub(crate) fn into_frame(self) -> Frame {
        self.frame
    }

    /// Bytes of payload.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.payload_len)
    }

    #[inline]
    pub(super) fn payload<'a>(&'a self, pool: &'a FramePool) -> &'a [u8] {
        range(pool, &self.frame, self.payload_offset, self.payload_len)
    }

    fn packet_range(&self) -> Option<std::ops::Range<usize>> {
        let payload = usize::from(self.payload_offset);
        Some(payload.checked_sub(IP_UDP_HEADERS)?..payload + self.len())
    }
}

/// The payload of a datagram that has just come and is in no queue.
#[inline]
pub(super) fn payload<'a>(
    pool: &'a FramePool,
    frame: &'a Frame,
    datagram: &UdpDatagram,
) -> &'a [u8] {
    range(pool, frame, datagram.payload_offset, datagram.payload_len)
}

#[inline]
fn range<'a>(pool: &'a FramePool, frame: &'a Frame, offset: u16, len: u16) -> &'a [u8] {
    let start = usize::from(offset);
    // The parser has checked that the payload lies in the frame.
    pool.data(frame)
        .get(start..start + usize::from(len))
        .unwrap_or_default()
}

/// A datagram that waits to be read.
#[derive(Debug)]
pub(super) enum Waiting {
    InFrame(Received),
    /// Its frame was needed.
    OutOfPool {
        source: SocketAddrV4,
        /// The IPv4 packet.
        packet: Vec<u8>,
    },
}

impl Waiting {
    /// Keeps a datagram without its frame, which goes back to the pool. `Err`: there is no memory for it.
    #[cold]
    pub(super) fn out_of_pool(received: Received, pool: &FramePool) -> Result<Self, Received> {
        let range = received.packet_range();
        let Some(data) = range.and_then(|range| pool.data(&received.frame).get(range)) else {
            return Err(received);
        };
        let mut packet = Vec::new();
        if packet.try_reserve_exact(data.len()).is_err() {
            return Err(received);
        }
        packet.extend_from_slice(data);
        let source = received.source;
        pool.give(received.into_frame());
        Ok(Self::OutOfPool { source, packet })
    }

    #[inline]
    pub(super) fn source(&self) -> SocketAddrV4 {
        match self {
            Self::InFrame(received) => received.source,
            Self::OutOfPool { source, .. } => *source,
        }
    }

    /// When it arrived, if that is known.
    #[inline]
    pub(super) fn arrived_nsec(&self) -> u64 {
        match self {
            Self::InFrame(received) => received.arrived_nsec,
            Self::OutOfPool { .. } => 0,
        }
    }

    /// Bytes of payload.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::InFrame(received) => received.len(),
            Self::OutOfPool { packet, .. } => packet.len().saturating_sub(IP_UDP_HEADERS),
        }
    }

    #[inline]
    pub(super) fn payload<'a>(&'a self, pool: &'a FramePool) -> &'a [u8] {
        match self {
            Self::InFrame(received) => received.payload(pool),
            Self::OutOfPool { packet, .. } => packet.get(IP_UDP_HEADERS..).unwrap_or_default(),
        }
    }

    /// The IPv4 packet, without a UDP checksum: it may hold a partial sum.
    pub(super) fn packet<'a>(&'a mut self, pool: &'a FramePool) -> Option<&'a mut [u8]> {
        let packet = match self {
            Self::InFrame(received) => {
                let range = received.packet_range()?;
                pool.data_mut(&mut received.frame).get_mut(range)?
            }
            Self::OutOfPool { packet, .. } => packet,
        };
        packet.get_mut(UDP_CHECKSUM)?.fill(0);
        Some(packet)
    }

    /// Gives back what it holds of the pool.
    #[inline]
    pub(super) fn release(self, pool: &FramePool) {
        if let Self::InFrame(received) = self {
            pool.give(received.into_frame());
        }
    }
}
