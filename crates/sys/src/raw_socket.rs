//! The way back into the kernel for packets that came past it.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use libc::c_int;

use super::process::{FileId, file_id};
use super::{Errno, Sockaddr, check, owned};

/// Raw sockets of both families whose packets bring their own headers. A forked child closes them.
#[derive(Debug)]
pub struct RawSocket {
    v4: OfFamily,
    /// `None`: the kernel has no IPv6.
    v6: Option<OfFamily>,
}

#[derive(Debug)]
struct OfFamily {
    fd: OwnDescriptor,
    /// What the number must stand for: the program may have closed it in a way that no hook sees.
    file: FileId,
}

impl RawSocket {
    /// Opens them with high numbers. Needs `CAP_NET_RAW`.
    pub fn open() -> Result<Self, Errno> {
        Ok(Self {
            v4: OfFamily::open(libc::AF_INET)?,
            v6: OfFamily::open(libc::AF_INET6).ok(),
        })
    }

    /// The same with sockets that somebody else has opened: of IPv4, and perhaps of IPv6.
    pub fn of(sockets: Vec<OwnDescriptor>) -> Option<Self> {
        let mut sockets = sockets.into_iter().map(|fd| {
            let file = file_id(fd.as_raw_fd())?;
            Some(OfFamily { fd, file })
        });
        Some(Self {
            v4: sockets.next()??,
            v6: sockets.next().flatten(),
        })
    }

    /// Whether the descriptors are still these sockets.
    pub fn is_open(&self) -> bool {
        self.v4.is_open() && self.v6.as_ref().is_none_or(OfFamily::is_open)
    }

    /// Sends an IP packet to its own destination, mostly an address of this host. If that is
    /// link-local, `link_index` is the interface that it is on.
    pub fn send(&self, packet: &[u8], link_index: u32) -> bool {
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => destination::<4>(packet, 16).is_some_and(|to| self.v4.send(packet, to)),
            Some(6) => destination::<16>(packet, 24).is_some_and(|to| {
                let v6 = self.v6.as_ref();
                v6.is_some_and(|v6| v6.send(packet, with_scope(to, link_index)))
            }),
            _ => false,
        }
    }
}

fn destination<const LEN: usize>(packet: &[u8], offset: usize) -> Option<SocketAddr>
where
    IpAddr: From<[u8; LEN]>,
{
    let bytes = packet.get(offset..)?.first_chunk::<LEN>()?;
    Some(SocketAddr::new(IpAddr::from(*bytes), 0))
}

/// The kernel takes no notice of the scope of other addresses.
fn with_scope(address: SocketAddr, link_index: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(six) => SocketAddrV6::new(*six.ip(), 0, 0, link_index).into(),
        SocketAddr::V4(_) => address,
    }
}

impl OfFamily {
    fn open(domain: c_int) -> Result<Self, Errno> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: socket(2) takes integers.
        let fd =
            check(unsafe { libc::syscall(libc::SYS_socket, domain, kind, libc::IPPROTO_RAW) })?;
        // SAFETY: the kernel has just made it.
        let fd = OwnDescriptor::new(unsafe { owned(fd) });
        let file = file_id(fd.as_raw_fd()).ok_or(Errno(libc::EBADF))?;
        Ok(Self { fd, file })
    }

    fn is_open(&self) -> bool {
        file_id(self.fd.as_raw_fd()) == Some(self.file)
    }

    fn send(&self, packet: &[u8], to: SocketAddr) -> bool {
        let to = Sockaddr::from(to);
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
    use crate::message_pair;

    #[test]
    fn a_number_that_is_another_file_now_is_not_taken_for_it() {
        let (fd, other) = message_pair().unwrap();
        let (fd_file, other_file) = (
            file_id(fd.as_raw_fd()).unwrap(),
            file_id(other.as_raw_fd()).unwrap(),
        );
        let mut raw = OfFamily { fd, file: fd_file };
        assert!(raw.is_open());
        raw.file = other_file;
        assert!(!raw.is_open());
    }
}
