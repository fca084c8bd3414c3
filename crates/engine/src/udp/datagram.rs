//! Received datagrams, in a frame of the pool or outside of it.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use crate::sockets::payload;
use dev_core::{Frame, FramePool};
use links::delivery::Arrival;
use links::family::scoped;

use wire::ip::{self, Addresses, Endpoints};
use wire::{UdpDatagram, checksum};

/// IPv4 and UDP headers before a payload: there are no options.
const IPV4_UDP_HEADERS: usize = 28;
/// The same for IPv6: there are no extension headers.
const IPV6_UDP_HEADERS: usize = 48;
const UDP_HEADER: usize = 8;
/// Where the checksum lies in a UDP header.
const UDP_CHECKSUM: usize = 6;

/// Who has sent a datagram. An address of IPv6 stays in the packet, so that a queue of IPv4 needs
/// no room for it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sender {
    V4(SocketAddrV4),
    /// Index of the interface that it came in on, which is part of a link-local address.
    V6(u32),
}

impl Sender {
    #[inline]
    fn of(datagram: &UdpDatagram, arrival: Arrival) -> Self {
        match datagram.endpoints {
            Endpoints::V4 { source, .. } => Self::V4(source),
            Endpoints::V6 { .. } => Self::V6(arrival.interface),
        }
    }

    /// IP and UDP headers before the payload, in bytes.
    #[inline]
    fn headers_len(self) -> usize {
        match self {
            Self::V4(_) => IPV4_UDP_HEADERS,
            Self::V6(_) => IPV6_UDP_HEADERS,
        }
    }
}

/// A datagram in a frame of the pool.
#[derive(Debug)]
pub(crate) struct Received {
    frame: Frame,
    sender: Sender,
    payload_offset: u16,
    payload_len: u16,
    /// When it was taken from the ring, if it is one of those that are measured; else 0.
    pub(super) arrived_nsec: u64,
}

impl Received {
    #[inline]
    pub(crate) fn new(frame: Frame, datagram: &UdpDatagram, arrival: Arrival) -> Self {
        Self {
            frame,
            sender: Sender::of(datagram, arrival),
            payload_offset: datagram.payload_offset,
            payload_len: datagram.payload_len,
            arrived_nsec: arrival.nsec,
        }
    }

    pub(super) fn frame(&self) -> &Frame {
        &self.frame
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
        Some(payload.checked_sub(self.sender.headers_len())?..payload + self.len())
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
        sender: Sender,
        /// The IP packet.
        packet: Vec<u8>,
    },
}

impl Waiting {
    /// Keeps a datagram without its frame, which goes back to the pool. `Err`: there is no memory
    /// for it.
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
        let sender = received.sender;
        pool.give(received.into_frame());
        Ok(Self::OutOfPool { sender, packet })
    }

    /// Its payload, for who holds it, where it is.
    pub(super) fn into_payload(self, pool: &'static FramePool) -> payload::Received {
        match self {
            Self::InFrame(received) => {
                let (start, len) = (received.payload_offset, received.payload_len);
                payload::Received::in_frame(pool, received.into_frame(), start, len)
            }
            Self::OutOfPool { sender, packet } => payload::Received::Copy {
                start: sender.headers_len(),
                bytes: packet,
            },
        }
    }

    #[inline]
    fn sender(&self) -> Sender {
        match self {
            Self::InFrame(received) => received.sender,
            Self::OutOfPool { sender, .. } => *sender,
        }
    }

    #[inline]
    pub(super) fn source(&self, pool: &FramePool) -> SocketAddr {
        match self.sender() {
            Sender::V4(source) => source.into(),
            Sender::V6(link_index) => scoped(self.source_v6(pool), link_index),
        }
    }

    fn source_v6(&self, pool: &FramePool) -> SocketAddr {
        let header = self.header(pool).first_chunk::<IPV6_UDP_HEADERS>();
        // There is one: the parser has seen it.
        let header = header.unwrap_or(&[0; IPV6_UDP_HEADERS]);
        let port = u16::from_be_bytes([header[40], header[41]]);
        SocketAddr::new(address_v6(header, 8), port)
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
            Self::OutOfPool { sender, packet } => packet.len().saturating_sub(sender.headers_len()),
        }
    }

    #[inline]
    pub(super) fn payload<'a>(&'a self, pool: &'a FramePool) -> &'a [u8] {
        match self {
            Self::InFrame(received) => received.payload(pool),
            Self::OutOfPool { sender, packet } => {
                packet.get(sender.headers_len()..).unwrap_or_default()
            }
        }
    }

    /// The IP packet, from its header on.
    pub(super) fn header<'a>(&'a self, pool: &'a FramePool) -> &'a [u8] {
        let packet = match self {
            Self::InFrame(received) => {
                let range = received.packet_range();
                range.and_then(|range| pool.data(&received.frame).get(range))
            }
            Self::OutOfPool { packet, .. } => Some(packet.as_slice()),
        };
        packet.unwrap_or_default()
    }

    /// The IP packet with a checksum that is right: it may have held a partial sum. IPv4 has none
    /// then, IPv6 must have one.
    pub(super) fn packet<'a>(&'a mut self, pool: &'a FramePool) -> Option<&'a mut [u8]> {
        let sender = self.sender();
        let packet = match self {
            Self::InFrame(received) => {
                let range = received.packet_range()?;
                pool.data_mut(&mut received.frame).get_mut(range)?
            }
            Self::OutOfPool { packet, .. } => packet,
        };
        let (header, udp) = packet.split_at_mut_checked(sender.headers_len() - UDP_HEADER)?;
        let place = udp.get_mut(UDP_CHECKSUM..)?.first_chunk_mut()?;
        *place = [0; 2];
        if matches!(sender, Sender::V6(_)) {
            let sum = checksum_v6(header.first_chunk()?, udp)?;
            *udp.get_mut(UDP_CHECKSUM..)?.first_chunk_mut()? = sum;
        }
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

/// An address in an IPv6 header.
pub(super) fn address_v6(header: &[u8; IPV6_UDP_HEADERS], offset: usize) -> IpAddr {
    let octets = header.get(offset..).and_then(<[u8]>::first_chunk::<16>);
    IpAddr::from(octets.copied().unwrap_or_default())
}

/// The checksum of a UDP datagram whose field for it is zero.
fn checksum_v6(header: &[u8; 40], udp: &[u8]) -> Option<[u8; 2]> {
    let address = |at: usize| -> Option<[u8; 16]> { header.get(at..at + 16)?.try_into().ok() };
    let addresses = Addresses::V6 {
        source: address(8)?.into(),
        destination: address(24)?.into(),
    };
    let len = u16::try_from(udp.len()).ok()?;
    let sum = checksum::sum(udp, addresses.pseudo_header(ip::PROTOCOL_UDP, len));
    // Zero would say that there is none.
    Some(match !checksum::fold(sum) {
        0 => [0xff; 2],
        sum => sum.to_be_bytes(),
    })
}
