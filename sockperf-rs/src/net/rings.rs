//! Polling libvma's rings (`-F socketxtreme`): packets where the library has them, of all sockets
//! of a ring at once.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::libc::{EOPNOTSUPP, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLRDHUP};
use vma_api::{Api, Ring, What};

use crate::error::Error;
use crate::net::address::Peer;

/// The rings of some sockets.
#[derive(Debug)]
pub struct Rings {
    api: Api,
    all: Vec<Ring>,
}

/// What has come to a socket, which is known by its descriptor.
#[derive(Debug)]
pub enum News<'a> {
    /// A datagram, or what comes next of a stream, and of whom.
    Message(RawFd, &'a mut [u8], Peer),
    /// The stream has ended.
    End(RawFd),
    /// A connection, which has this descriptor, of a listener behind another.
    Accepted(RawFd, RawFd),
}

impl Rings {
    /// None yet.
    ///
    /// # Errors
    /// There is no library.
    pub fn new() -> Result<Self, Error> {
        let api = Api::get().ok_or_else(|| {
            Error::Usage(
                "-F socketxtreme needs libvma: VMA_SOCKETXTREME=1 LD_PRELOAD=libvma.so sockperf-rs \
                 ..., or --load-vma"
                    .to_owned(),
            )
        })?;
        let all = Vec::new();
        Ok(Self { api, all })
    }

    /// Those by which a socket receives are polled, too.
    ///
    /// # Errors
    /// There are none: the socket is the kernel's, or has no address.
    pub fn add(&mut self, socket: impl AsFd) -> Result<(), Error> {
        let rings = self.api.rings(socket.as_fd()).unwrap_or_default();
        if rings.is_empty() {
            let fd = socket.as_fd().as_raw_fd();
            return Err(Error::Usage(format!(
                "fd {fd} has no ring: -F socketxtreme needs addresses at interfaces that libvma \
                 accelerates; a client's are chosen with --client_ip"
            )));
        }
        for ring in rings {
            if !self.all.contains(&ring) {
                self.all.push(ring);
            }
        }
        Ok(())
    }

    /// Shows what has come. Returns how much.
    ///
    /// # Errors
    /// The library was not told to have rings.
    #[inline]
    pub fn poll(&mut self, mut show: impl FnMut(News<'_>)) -> Result<usize, Error> {
        const END: u64 = (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR).unsigned_abs() as u64;
        let mut count = 0;
        for ring in &self.all {
            let taken = self.api.take(*ring, |arrived| {
                let Ok(fd) = RawFd::try_from(arrived.user_data) else {
                    return;
                };
                match arrived.what {
                    What::Packet(mut packet) => {
                        let from = arrived.source.map(SocketAddr::V4);
                        let from = from.map_or(Peer::Connected, Peer::Inet);
                        show(News::Message(fd, &mut packet, from));
                    }
                    What::Events(events) if events & END != 0 => show(News::End(fd)),
                    What::Events(_) => {}
                    What::Accepted(listener) => show(News::Accepted(fd, listener)),
                }
            });
            count += taken.map_err(poll_error)?;
        }
        Ok(count)
    }
}

fn poll_error(error: io::Error) -> Error {
    if error.raw_os_error() == Some(EOPNOTSUPP) {
        return Error::Usage("-F socketxtreme needs VMA_SOCKETXTREME=1".to_owned());
    }
    Error::Transfer {
        what: "socketxtreme_poll() failed".to_owned(),
        source: error,
    }
}
