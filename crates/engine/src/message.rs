//! The application's buffers in a receive or send call. They are the application's claim until used: lengths are bounded
//! and null pointers are refused here, in one place.

use std::net::SocketAddrV4;
use std::slice;

use crate::sys::{self, Errno};

/// Most buffers that `recvmsg(2)` and `sendmsg(2)` take (`UIO_MAXIOV`).
const IOV_MAX: usize = 1024;

/// A `struct msghdr` of the application, or one made of the arguments of a simpler call.
#[derive(Debug)]
pub struct Message<'a> {
    header: &'a mut libc::msghdr,
}

impl<'a> Message<'a> {
    /// # Safety
    /// What the header points at must be valid for `recvmsg(2)` or `sendmsg(2)`, whichever it is used for: buffers
    /// readable or writable for their lengths, as the application promised the system call.
    pub unsafe fn new(header: &'a mut libc::msghdr) -> Self {
        Self { header }
    }

    /// For a system call with the same message.
    pub(crate) fn header(&mut self) -> *mut libc::msghdr {
        self.header
    }

    /// Whether the call asks for or carries control data.
    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        self.header.msg_controllen != 0
    }

    /// The destination of a send call: `Ok(None)` for none given, `Err` for one that only the kernel can judge.
    #[inline]
    pub(crate) fn destination(&self) -> Result<Option<SocketAddrV4>, ()> {
        if self.header.msg_name.is_null() || self.header.msg_namelen == 0 {
            return Ok(None);
        }
        // SAFETY: the name is readable for its length (contract of `new`).
        let address = unsafe { sys::read_sockaddr(self.header.msg_name, self.header.msg_namelen) };
        address.map(Some).ok_or(())
    }

    /// The bytes to send, and how many they are. `Err`: a claim that the kernel has to judge.
    #[inline]
    pub(crate) fn payload(&self) -> Result<(usize, impl Iterator<Item = &[u8]>), ()> {
        let parts = self.parts()?;
        let mut len = 0usize;
        for part in parts {
            if part.iov_base.is_null() && part.iov_len > 0 {
                return Err(());
            }
            len = len.checked_add(part.iov_len).ok_or(())?;
        }
        let slices = parts.iter().filter(|part| part.iov_len > 0).map(|part| {
            // SAFETY: not null (checked above) and readable for its length (contract of `new`).
            unsafe { slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) }
        });
        Ok((len, slices))
    }

    /// Whether the kernel would refuse the list of buffers, before it looks at the socket.
    #[inline]
    pub(crate) fn is_malformed(&self) -> bool {
        self.parts().is_err()
    }

    /// Copies a received datagram into the buffers and fills in address and flags. Returns how many bytes fitted.
    #[inline]
    pub(crate) fn receive(&mut self, data: &[u8], source: SocketAddrV4) -> Result<usize, Errno> {
        let mut rest = data;
        for part in self.parts().map_err(|()| Errno(libc::EMSGSIZE))? {
            let len = part.iov_len.min(rest.len());
            if len == 0 {
                continue;
            }
            if part.iov_base.is_null() {
                return Err(Errno(libc::EFAULT));
            }
            let (now, later) = rest.split_at(len);
            // SAFETY: the buffer is writable for `iov_len >= len` bytes (contract of `new`), and frames are
            // the library's own memory, so the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), part.iov_base.cast::<u8>(), len) };
            rest = later;
        }
        self.header.msg_flags = if rest.is_empty() { 0 } else { libc::MSG_TRUNC };
        self.header.msg_controllen = 0;
        self.set_name(source);
        Ok(data.len() - rest.len())
    }

    #[inline]
    fn set_name(&mut self, source: SocketAddrV4) {
        if self.header.msg_name.is_null() {
            return;
        }
        let address = sys::sockaddr(source);
        let size = size_of_val(&address);
        let room = (self.header.msg_namelen as usize).min(size);
        // SAFETY: the name buffer is writable for `msg_namelen >= room` bytes (contract of `new`).
        unsafe {
            std::ptr::copy_nonoverlapping(
                (&raw const address).cast::<u8>(),
                self.header.msg_name.cast::<u8>(),
                room,
            );
        }
        self.header.msg_namelen = size as libc::socklen_t;
    }

    #[inline]
    fn parts(&self) -> Result<&[libc::iovec], ()> {
        // The field's type differs between C libraries.
        #[allow(
            clippy::useless_conversion,
            reason = "the field is a socklen_t on other C libraries"
        )]
        let count = usize::try_from(self.header.msg_iovlen).map_err(|_| ())?;
        if count == 0 {
            return Ok(&[]);
        }
        if count > IOV_MAX || self.header.msg_iov.is_null() {
            return Err(());
        }
        // SAFETY: not null, and readable for `msg_iovlen` entries (contract of `new`).
        Ok(unsafe { slice::from_raw_parts(self.header.msg_iov, count) })
    }
}
