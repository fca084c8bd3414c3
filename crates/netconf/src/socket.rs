//! A netlink socket inside a foreign process.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use descriptors::OwnDescriptor;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::Error;

/// Room for the largest datagram: the kernel fills at most 32 KiB when it lists a table.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// What a receive call found.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    /// A datagram of the kernel.
    Datagram(&'a [u8]),
    /// Nothing there (yet).
    Nothing,
    /// Datagrams were lost for want of room.
    Overrun,
}

/// A netlink socket: close-on-exec, with a high descriptor number.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: Arc<OwnDescriptor>,
}

impl Socket {
    /// Opens a socket of a netlink protocol that receives the notifications of `groups` (a mask).
    /// No protocol means number 0, which is rtnetlink.
    pub(crate) fn open(protocol: Option<Protocol>, groups: u32) -> Result<Self, Error> {
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )
        .map_err(Error::socket("open a socket"))?;
        let fd = Arc::new(OwnDescriptor::new(fd));
        rustix::net::bind(&*fd, &SocketAddrNetlink::new(0, groups))
            .map_err(Error::socket("bind a socket"))?;
        Ok(Self { fd })
    }

    /// Bounds the wait of [`Socket::receive`].
    pub(crate) fn set_receive_timeout(&self, timeout: Duration) -> Result<(), Error> {
        sockopt::set_socket_timeout(&*self.fd, Timeout::Recv, Some(timeout))
            .map_err(Error::socket("bound the wait for replies"))
    }

    /// For others to wait for.
    pub(crate) fn descriptor(&self) -> &Arc<OwnDescriptor> {
        &self.fd
    }

    /// Sends a datagram to the kernel.
    pub(crate) fn send(&self, datagram: &[u8]) -> Result<(), Error> {
        let result = rustix::io::retry_on_intr(|| {
            rustix::net::send(&*self.fd, datagram, SendFlags::empty())
        });
        result.map(drop).map_err(Error::socket("send"))
    }

    /// The next datagram, waiting as long as the receive timeout says.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut [u8]) -> Result<Received<'a>, Error> {
        self.receive_with(buffer, RecvFlags::empty())
    }

    /// The next datagram if there is one.
    pub(crate) fn receive_now<'a>(&self, buffer: &'a mut [u8]) -> Result<Received<'a>, Error> {
        self.receive_with(buffer, RecvFlags::DONTWAIT)
    }

    fn receive_with<'a>(
        &self,
        buffer: &'a mut [u8],
        flags: RecvFlags,
    ) -> Result<Received<'a>, Error> {
        // TRUNC makes the returned length the datagram's, though the buffer may be shorter.
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvfrom(&*self.fd, &mut *buffer, flags | RecvFlags::TRUNC)
        });
        let (length, from) = match received {
            Ok((_, length, from)) => (length, from),
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(Errno::NOBUFS) => return Ok(Received::Overrun),
            Err(errno) => return Err(Error::socket("receive")(errno)),
        };
        // Privileged processes may send to any netlink socket; only port 0 is the kernel.
        let port = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
        if port.is_none_or(|port| port.pid() != 0) {
            return Ok(Received::Datagram(&[]));
        }
        Ok(buffer
            .get(..length)
            .map_or(Received::Overrun, Received::Datagram))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
impl Socket {
    /// A descriptor that is not a socket: every use fails.
    pub(crate) fn broken() -> Self {
        let file = std::fs::File::open("/dev/null").expect("there is /dev/null");
        Self {
            fd: Arc::new(OwnDescriptor::new(file.into())),
        }
    }
}
