//! Raw sockets: segments in the name of dead processes, and what peers answer.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use wire::ethernet;

use crate::connection::Connection;
use crate::packet;
use crate::resets::{Answer, Segment};

/// Sends whole packets. Open as long as the daemon runs, so that a right that is missing shows at
/// once.
#[derive(Debug)]
pub(crate) struct Transmitter {
    v4: Socket,
    /// `None`: the kernel has no IPv6.
    v6: Option<Socket>,
}

impl Transmitter {
    /// # Errors
    ///
    /// EPERM without CAP_NET_RAW.
    pub(crate) fn open() -> io::Result<Self> {
        let open = |domain| {
            let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(IPPROTO_RAW)))?;
            socket.set_nonblocking(true)?;
            io::Result::Ok(socket)
        };
        Ok(Self {
            v4: open(Domain::IPV4)?,
            v6: open(Domain::IPV6).ok(),
        })
    }

    pub(crate) fn send(&self, connection: &Connection, segment: Segment) -> io::Result<()> {
        let mut bytes = [0; packet::MAX_SENT];
        let length = packet::write(&mut bytes, connection, segment);
        self.send_packet(bytes.get(..length).unwrap_or_default(), connection.peer)
    }

    /// Sends a packet that is whole to an address; the port does not count.
    pub(crate) fn send_packet(&self, packet: &[u8], mut to: SocketAddr) -> io::Result<()> {
        to.set_port(0);
        let socket = match (to, &self.v6) {
            (SocketAddr::V4(_), _) => &self.v4,
            (SocketAddr::V6(_), Some(v6)) => v6,
            (SocketAddr::V6(_), None) => return Err(Errno::AFNOSUPPORT.into()),
        };
        socket.send_to(packet, &to.into()).map(drop)
    }
}

/// Sees the acknowledgements and resets without data that arrive at this host. Open only while
/// answers are waited for: every such segment of the host is copied to it.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// For IPv4, and for IPv6.
    sockets: Vec<Socket>,
    buffer: Vec<u8>,
}

impl Receiver {
    /// # Errors
    ///
    /// EPERM without CAP_NET_RAW.
    pub(crate) fn open() -> io::Result<Self> {
        let open = |domain, kind, protocol, filter: &[SockFilter]| {
            let socket = Socket::new(domain, kind, Some(protocol))?;
            socket.set_nonblocking(true)?;
            socket.attach_filter(filter)?;
            // As much as the host allows; what is lost is asked for again.
            let _ = socket.set_recv_buffer_size(4 << 20);
            io::Result::Ok(socket)
        };
        let v4 = open(Domain::IPV4, Type::RAW, Protocol::TCP, &ANSWERS)?;
        // A raw socket of IPv6 does not show to whom a segment came.
        let protocol = Protocol::from(i32::from(ethernet::TYPE_IPV6.to_be()));
        // Where it is not allowed, the kernel answers what those peers answer.
        let v6 = open(Domain::PACKET, Type::DGRAM, protocol, &V6_ANSWERS);
        Ok(Self {
            sockets: [v4].into_iter().chain(v6.ok()).collect(),
            buffer: vec![0; 2048],
        })
    }

    /// They become readable when answers have come.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// The next answer, if there is one.
    pub(crate) fn receive(&mut self) -> io::Result<Option<(Connection, Answer)>> {
        let Self { sockets, buffer } = self;
        for socket in sockets {
            loop {
                let room = buffer.get_mut(packet::PACKET_OFFSET..).unwrap_or_default();
                let length = match rustix::net::recv(&*socket, room, RecvFlags::DONTWAIT) {
                    Ok((_, length)) => length,
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                };
                let end = (packet::PACKET_OFFSET + length).min(buffer.len());
                let packet = buffer.get_mut(..end).unwrap_or_default();
                if let Some(answer) = packet::read(packet) {
                    return Ok(Some(answer));
                }
            }
        }
        Ok(None)
    }
}

const IPPROTO_RAW: i32 = 255;

/// Classic BPF (`linux/filter.h`) over the IPv4 packet: no data, and ACK or RST among the flags.
const ANSWERS: [SockFilter; 14] = [
    SockFilter::new(LOAD_X_HEADER_LEN, 0, 0, 0),
    SockFilter::new(LOAD_HALF, 0, 0, 2), // total length
    SockFilter::new(SUBTRACT_X, 0, 0, 0),
    SockFilter::new(STORE, 0, 0, 0), // length of the segment
    SockFilter::new(LOAD_BYTE_X, 0, 0, 12),
    SockFilter::new(SHIFT_RIGHT, 0, 0, 4),
    SockFilter::new(SHIFT_LEFT, 0, 0, 2), // length of its header
    SockFilter::new(LOAD_X_STORED, 0, 0, 0),
    SockFilter::new(JUMP_EQUAL_X, 0, 3, 0), // data: to the end
    SockFilter::new(LOAD_X_HEADER_LEN, 0, 0, 0),
    SockFilter::new(LOAD_BYTE_X, 0, 0, 13),
    SockFilter::new(JUMP_ANY_SET, 1, 0, FLAG_ACK | FLAG_RST),
    SockFilter::new(RETURN, 0, 0, 0),
    SockFilter::new(RETURN, 0, 0, u32::MAX),
];
/// The same over the IPv6 packet without extension headers.
const V6_ANSWERS: [SockFilter; 12] = [
    SockFilter::new(LOAD_BYTE, 0, 0, 6), // next header
    SockFilter::new(JUMP_EQUAL, 0, 8, 6),
    SockFilter::new(LOAD_BYTE, 0, 0, 40 + 12),
    SockFilter::new(SHIFT_RIGHT, 0, 0, 4),
    SockFilter::new(SHIFT_LEFT, 0, 0, 2), // length of the segment's header
    SockFilter::new(MOVE_TO_X, 0, 0, 0),
    SockFilter::new(LOAD_HALF, 0, 0, 4), // length of the segment
    SockFilter::new(JUMP_EQUAL_X, 0, 2, 0), // data: to the end
    SockFilter::new(LOAD_BYTE, 0, 0, 40 + 13),
    SockFilter::new(JUMP_ANY_SET, 1, 0, FLAG_ACK | FLAG_RST),
    SockFilter::new(RETURN, 0, 0, 0),
    SockFilter::new(RETURN, 0, 0, u32::MAX),
];
const FLAG_RST: u32 = 0x04;
const FLAG_ACK: u32 = 0x10;
const LOAD_X_HEADER_LEN: u16 = 0xb1;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_BYTE_X: u16 = 0x50;
const MOVE_TO_X: u16 = 0x07;
const SUBTRACT_X: u16 = 0x1c;
const STORE: u16 = 0x02;
const SHIFT_RIGHT: u16 = 0x74;
const SHIFT_LEFT: u16 = 0x64;
const LOAD_X_STORED: u16 = 0x61;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_EQUAL_X: u16 = 0x1d;
const JUMP_ANY_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
