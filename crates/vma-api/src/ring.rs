//! Taking packets and events by rings (SocketXtreme).

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::slice;

use crate::abi::{Completion, PacketDesc};
use crate::{Api, check};

const PACKET: u64 = 1 << 32;
const NEW_CONNECTION_ACCEPTED: u64 = 1 << 33;
/// Completions that one call takes.
const BATCH: u32 = 32;
/// Rings that a socket has at most.
const RINGS_MAX: i32 = 64;

/// A ring by which sockets receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    fd: RawFd,
}

/// What a ring has brought.
#[derive(Debug)]
pub struct Arrived {
    /// What it is.
    pub what: What,
    /// The socket's descriptor, or what `SO_VMA_USER_DATA` says.
    pub user_data: u64,
    /// The peer, if it has an address of IPv4.
    pub source: Option<SocketAddrV4>,
}

/// It.
#[derive(Debug)]
pub enum What {
    /// A datagram, or a segment of a stream.
    Packet(RingPacket),
    /// Events of epoll.
    Events(u64),
    /// A connection was accepted: its descriptor is the user data. The listener's.
    Accepted(RawFd),
}

/// A packet in the library's memory, until it is dropped.
#[derive(Debug)]
pub struct RingPacket {
    api: Api,
    packet: PacketDesc,
}

// SAFETY: memory that nobody changes; any thread may give it back.
unsafe impl Send for RingPacket {}

impl Deref for RingPacket {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the library's, which has one buffer for a packet, and lasts until it is given
        // back.
        let buffer = unsafe { &*self.packet.buff_lst };
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(buffer.payload.cast(), buffer.len.into()) }
    }
}

impl DerefMut for RingPacket {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nobody else reads it.
        let buffer = unsafe { &mut *self.packet.buff_lst };
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(buffer.payload.cast(), buffer.len.into()) }
    }
}

impl Drop for RingPacket {
    fn drop(&mut self) {
        let free = self.api.table.socketxtreme_free_vma_packets;
        // SAFETY: one packet of the library's, given back once.
        unsafe { free(&raw mut self.packet, 1) };
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl Api {
    /// The rings by which a socket receives, once it has an address.
    ///
    /// # Errors
    /// `EOPNOTSUPP` without `VMA_SOCKETXTREME=1`; `EINVAL`: the socket is the kernel's.
    pub fn rings(self, socket: BorrowedFd<'_>) -> io::Result<Vec<Ring>> {
        let mut rings = [-1; RINGS_MAX as usize];
        let find = self.table.get_socket_rings_fds;
        // SAFETY: there is room for so many.
        let found = unsafe { find(socket.as_raw_fd(), rings.as_mut_ptr(), RINGS_MAX) };
        let count = check(found)?.unsigned_abs() as usize;
        let given = rings.into_iter().take(count);
        Ok(given.map(|fd| Ring { fd }).collect())
    }

    /// Shows what a ring has brought, without waiting; returns how much.
    ///
    /// ```
    /// # use std::os::fd::AsFd;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// use vma_api::{Api, What};
    ///
    /// if let Some(api) = Api::get() {
    ///     for ring in api.rings(socket.as_fd()).unwrap_or_default() {
    ///         api.take(ring, |arrived| match arrived.what {
    ///             What::Packet(packet) => println!("{} octets", packet.len()),
    ///             What::Events(events) => println!("events {events:#x}"),
    ///             What::Accepted(_) => println!("a connection: {}", arrived.user_data),
    ///         })?;
    ///     }
    /// }
    /// # Ok::<_, std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `EBADFD`: it is no ring any more.
    pub fn take(self, ring: Ring, mut show: impl FnMut(Arrived)) -> io::Result<usize> {
        // SAFETY: all-zero is a value of this struct of integers and pointers.
        let mut all: [Completion; BATCH as usize] = unsafe { std::mem::zeroed() };
        let poll = self.table.socketxtreme_poll;
        // SAFETY: there is room for so many.
        let found = unsafe { poll(ring.fd, all.as_mut_ptr(), BATCH, 0) };
        let count = check(found)?.unsigned_abs() as usize;
        for completion in all.into_iter().take(count) {
            let what = if completion.events & PACKET != 0 {
                What::Packet(RingPacket {
                    api: self,
                    packet: completion.packet,
                })
            } else if completion.events & NEW_CONNECTION_ACCEPTED != 0 {
                What::Accepted(completion.listen_fd)
            } else {
                What::Events(completion.events)
            };
            let src = completion.src;
            let ip = Ipv4Addr::from(u32::from_be(src.sin_addr.s_addr));
            let is_ipv4 = i32::from(src.sin_family) == libc::AF_INET;
            show(Arrived {
                what,
                user_data: completion.user_data,
                source: is_ipv4.then(|| SocketAddrV4::new(ip, u16::from_be(src.sin_port))),
            });
        }
        Ok(count)
    }
}
