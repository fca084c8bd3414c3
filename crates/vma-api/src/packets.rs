//! Receiving without copies.

use std::io;
use std::mem::{self, size_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::slice;

use libc::{c_int, c_void, iovec, sockaddr_in6, socklen_t};

use crate::abi::{MSG_VMA_ZCOPY, Packet, Packets};
use crate::callback::address;
use crate::{Api, check};

/// What a call has received. What it holds of the library's memory goes back when it is dropped.
#[derive(Debug)]
pub struct Received<'a> {
    api: Api,
    socket: BorrowedFd<'a>,
    buffer: &'a mut [u8],
    len: usize,
    is_held: bool,
}

impl Api {
    /// `recv(2)` that leaves packets where they are if it can, and else copies into `buffer`, as
    /// for a socket that is not accelerated. `flags` are those of `recv(2)`.
    ///
    /// # Errors
    /// Those of `recv(2)`; `ENOBUFS`: the buffer has no room for one packet's description, 40
    /// octets.
    pub fn receive<'a>(
        self,
        socket: BorrowedFd<'a>,
        buffer: &'a mut [u8],
        flags: c_int,
    ) -> io::Result<Received<'a>> {
        self.receive_into(socket, buffer, flags, None)
    }

    /// The same with the address of who has sent it, which streams do not tell.
    ///
    /// # Errors
    /// Those of [`receive`](Self::receive).
    pub fn receive_from<'a>(
        self,
        socket: BorrowedFd<'a>,
        buffer: &'a mut [u8],
        flags: c_int,
    ) -> io::Result<(Received<'a>, Option<SocketAddr>)> {
        // SAFETY: all-zero is a value of this struct of integers.
        let mut from: sockaddr_in6 = unsafe { mem::zeroed() };
        let received = self.receive_into(socket, buffer, flags, Some(&mut from))?;
        Ok((received, address((&raw const from).cast())))
    }

    fn receive_into<'a>(
        self,
        socket: BorrowedFd<'a>,
        buffer: &'a mut [u8],
        flags: c_int,
        from: Option<&mut sockaddr_in6>,
    ) -> io::Result<Received<'a>> {
        let mut flags = flags;
        let (at, room) = (buffer.as_mut_ptr().cast::<c_void>(), buffer.len());
        const ADDRESS_LEN: socklen_t = 28;
        const _: () = assert!(ADDRESS_LEN as usize == size_of::<sockaddr_in6>());
        let mut from_len = ADDRESS_LEN;
        let (from, from_len) = match from {
            Some(from) => (ptr::from_mut(from).cast(), &raw mut from_len),
            None => (ptr::null_mut(), ptr::null_mut()),
        };
        let receive = self.table.recvfrom_zcopy;
        // SAFETY: the buffer is writable for its length, and there is room for an address, or none.
        let received = unsafe {
            let flags = &raw mut flags;
            receive(socket.as_raw_fd(), at, room, flags, from, from_len)
        };
        let len = check(received)?.unsigned_abs() as usize;
        Ok(Received {
            api: self,
            socket,
            buffer,
            len,
            is_held: flags & MSG_VMA_ZCOPY != 0,
        })
    }
}

impl Received<'_> {
    /// Octets in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none: the stream has ended, or a datagram was empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether they are in the library's memory.
    pub fn is_zero_copy(&self) -> bool {
        self.is_held
    }

    /// Shows the octets, a part after the other: a datagram is one.
    pub fn for_each(&self, mut show: impl FnMut(&[u8])) {
        if !self.is_held {
            return show(&self.buffer[..self.len.min(self.buffer.len())]);
        }
        // SAFETY: the library's memory, which is this packet's until it is given back.
        self.for_each_part(|part| show(unsafe { slice::from_raw_parts(part.0, part.1) }));
    }

    /// The same of octets that may be changed, an answer be made of them, say.
    pub fn for_each_mut(&mut self, mut show: impl FnMut(&mut [u8])) {
        if !self.is_held {
            let len = self.len.min(self.buffer.len());
            return show(&mut self.buffer[..len]);
        }
        // SAFETY: as in `for_each`; nobody else reads it.
        self.for_each_part(|part| show(unsafe { slice::from_raw_parts_mut(part.0, part.1) }));
    }

    fn for_each_part(&self, mut show: impl FnMut((*mut u8, usize))) {
        let mut rest = &self.buffer[size_of::<Packets>()..];
        for _ in 0..self.count() {
            let Some((packet, behind)) = rest.split_at_checked(size_of::<Packet>()) else {
                return;
            };
            // SAFETY: the library has written one there.
            let packet = unsafe { packet.as_ptr().cast::<Packet>().read_unaligned() };
            rest = behind;
            for _ in 0..packet.sz_iov {
                let Some((part, behind)) = rest.split_at_checked(size_of::<iovec>()) else {
                    return;
                };
                // SAFETY: as above.
                let part = unsafe { part.as_ptr().cast::<iovec>().read_unaligned() };
                rest = behind;
                show((part.iov_base.cast(), part.iov_len));
            }
        }
    }

    fn count(&self) -> usize {
        let head = self.buffer.as_ptr().cast::<Packets>();
        // SAFETY: the library has written it.
        unsafe { head.read_unaligned() }.n_packet_num
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        if self.is_held {
            let first = self.buffer[size_of::<Packets>()..].as_mut_ptr().cast();
            let free = self.api.table.free_packets;
            // SAFETY: packets of this socket, as the library has written them.
            unsafe { free(self.socket.as_raw_fd(), first, self.count()) };
        }
    }
}
