//! Receiving without copies.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::slice;

use libc::{c_int, c_void, iovec};

use crate::abi::{MSG_VMA_ZCOPY, Packet, Packets};
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
        let mut flags = flags;
        let (at, room) = (buffer.as_mut_ptr().cast::<c_void>(), buffer.len());
        let (fd, nobody) = (socket.as_raw_fd(), ptr::null_mut());
        let receive = self.table.recvfrom_zcopy;
        // SAFETY: the buffer is writable for its length; there is no room for an address.
        let received = unsafe { receive(fd, at, room, &raw mut flags, nobody, ptr::null_mut()) };
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
                // SAFETY: the library's memory, which is this packet's until it is given back.
                show(unsafe { slice::from_raw_parts(part.iov_base.cast(), part.iov_len) });
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
