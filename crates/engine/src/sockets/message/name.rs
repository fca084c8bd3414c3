//! The address of a message: where it goes, and who has sent it.

use std::net::{SocketAddr, SocketAddrV4};

use links::family::{Family, canonical};
use links::reason::Reason;
use sys::Errno;

use crate::sockets::user_memory::{is_readable, is_writable};

use super::*;

impl Message<'_> {
    /// The destination of a send call: `Ok(None)` for none given, `Err` for one that only the
    /// kernel can judge, or reach.
    #[inline(always)]
    pub(crate) fn destination(&self, family: Family) -> Result<Option<SocketAddr>, Reason> {
        if self.header.msg_name.is_null() || self.header.msg_namelen == 0 {
            return Ok(None);
        }
        let len = self.header.msg_namelen as usize;
        if len > NAME_BYTES_MAX || !is_readable(self.header.msg_name, len) {
            return Err(Reason::Answered);
        }
        // SAFETY: readable for `msg_namelen` bytes (checked above).
        let address = unsafe { sys::read_sockaddr(self.header.msg_name, self.header.msg_namelen) };
        match address {
            Some(SocketAddr::V4(_)) => Ok(address),
            // A socket over IPv4 takes no other; one over IPv6 takes either.
            Some(address) if family == Family::Inet6 => Ok(Some(canonical(address))),
            _ => Err(Reason::Answered),
        }
    }

    /// The destination of a send call if it is an address of IPv4, which every socket takes;
    /// [`destination`](Self::destination) says of everything what it is.
    #[inline(always)]
    pub(crate) fn v4_destination(&self) -> Option<SocketAddrV4> {
        let (name, len) = (self.header.msg_name, self.header.msg_namelen as usize);
        let is_good = (sys::SOCKADDR_IN_LEN..=NAME_BYTES_MAX).contains(&len);
        if !is_good || name.is_null() || !is_readable(name, len) {
            return None;
        }
        // SAFETY: readable for so many bytes (checked above).
        unsafe { sys::read_sockaddr_in(name) }
    }

    /// Whether a send call is for the socket's peer.
    #[inline(always)]
    pub(crate) fn has_no_name(&self) -> bool {
        self.header.msg_name.is_null()
    }

    #[inline(always)]
    pub(super) fn set_name(&mut self, source: SocketAddr, family: Family) -> Result<(), Errno> {
        if self.header.msg_name.is_null() {
            return Ok(());
        }
        match source {
            // Mostly, and then all lengths are known when this is compiled.
            SocketAddr::V4(source)
                if family == Family::Inet
                    && self.header.msg_namelen as usize >= sys::SOCKADDR_IN_LEN =>
            {
                if !is_writable(self.header.msg_name, sys::SOCKADDR_IN_LEN) {
                    return Err(Errno(libc::EFAULT));
                }
                let name = self.header.msg_name.cast::<[u8; sys::SOCKADDR_IN_LEN]>();
                // SAFETY: writable for so many bytes (checked above; contract of `new`).
                unsafe { name.write_unaligned(sys::sockaddr_in(source)) };
                self.header.msg_namelen = sys::SOCKADDR_IN_LEN as libc::socklen_t;
                Ok(())
            }
            _ => self.set_other_name(source, family),
        }
    }

    #[cold]
    fn set_other_name(&mut self, source: SocketAddr, family: Family) -> Result<(), Errno> {
        let address = sys::Sockaddr::from(family.form(source));
        let size = address.as_bytes().len();
        let room = (self.header.msg_namelen as usize).min(size);
        if !is_writable(self.header.msg_name, room) {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: the name buffer is writable for `msg_namelen >= room` bytes (contract of `new`).
        unsafe {
            std::ptr::copy_nonoverlapping(
                address.as_bytes().as_ptr(),
                self.header.msg_name.cast::<u8>(),
                room,
            );
        }
        self.header.msg_namelen = size as libc::socklen_t;
        Ok(())
    }
}
