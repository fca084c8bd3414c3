//! The way back into the kernel for packets that came past it.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;

use super::process::{FileId, file_id};
use super::{Errno, Sockaddr, check, owned};

/// A raw IPv4 socket whose packets bring their own headers. A forked child closes it.
#[derive(Debug)]
pub(crate) struct RawSocket {
    fd: OwnDescriptor,
    /// What the number must stand for: the program may have closed it in a way that no hook sees.
    file: FileId,
}

impl RawSocket {
    /// Opens it with a high number. Needs `CAP_NET_RAW`.
    pub(crate) fn open() -> Result<Self, Errno> {
        let (domain, kind) = (libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC);
        // SAFETY: socket(2) takes integers.
        let fd =
            check(unsafe { libc::syscall(libc::SYS_socket, domain, kind, libc::IPPROTO_RAW) })?;
        // SAFETY: the kernel has just made it.
        let fd = OwnDescriptor::new(unsafe { owned(fd) });
        let file = file_id(fd.as_raw_fd()).ok_or(Errno(libc::EBADF))?;
        Ok(Self { fd, file })
    }

    /// Whether the descriptor is still this socket.
    pub(crate) fn is_open(&self) -> bool {
        file_id(self.fd.as_raw_fd()) == Some(self.file)
    }

    /// Sends an IPv4 packet to its own destination, mostly an address of this host.
    pub(crate) fn send(&self, packet: &[u8]) -> bool {
        let Some(destination) = packet
            .get(16..20)
            .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
        else {
            return false;
        };
        let to = Sockaddr::from(SocketAddr::from((destination, 0)));
        let (to, to_len) = (to.as_bytes().as_ptr(), to.as_bytes().len());
        let (data, len) = (packet.as_ptr(), packet.len());
        // SAFETY: the packet and the address are readable for their lengths.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendto,
                self.fd.as_raw_fd(),
                data,
                len,
                libc::MSG_DONTWAIT,
                to,
                to_len,
            )
        };
        usize::try_from(sent) == Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::message_pair;

    #[test]
    fn a_number_that_is_another_file_now_is_not_taken_for_it() {
        let (fd, other) = message_pair().unwrap();
        let (fd_file, other_file) = (
            file_id(fd.as_raw_fd()).unwrap(),
            file_id(other.as_raw_fd()).unwrap(),
        );
        let mut raw = RawSocket { fd, file: fd_file };
        assert!(raw.is_open());
        raw.file = other_file;
        assert!(!raw.is_open());
    }
}
