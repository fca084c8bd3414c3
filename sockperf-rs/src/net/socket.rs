//! Sockets of all four kinds, and how messages are received and sent with them.
//!
//! All data goes through the C library's `sendto`, `recvfrom`, `send` and `recv`, so that a
//! preloaded library sees it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

use nix::libc::{ENOBUFS, MSG_DONTWAIT, MSG_NOSIGNAL};
use socket2::{SockAddr, SockRef};

use crate::error::Error;
use crate::net::address::Peer;
use crate::sys::stop::Stop;
use crate::tls::TlsStream;

/// A socket of any kind.
#[derive(Debug)]
pub enum Socket {
    /// UDP
    Udp(UdpSocket),
    /// TCP
    Tcp(TcpStream),
    /// TCP with TLS
    Tls(Box<TlsStream>),
    /// Datagrams in the Unix domain.
    UnixDatagram(UnixDatagram),
    /// A stream in the Unix domain.
    UnixStream(UnixStream),
}

/// What became of a message that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It left.
    Yes,
    /// It would have had to wait, which was not wanted.
    Skipped,
    /// A stop was requested while it waited.
    Stopped,
}

/// How a message is sent.
#[derive(Debug)]
pub struct SendPolicy<'a> {
    /// Skip the message instead of waiting.
    pub skip: bool,
    /// Ends the wait.
    pub stop: &'a Stop,
    /// Counts the calls that had to be repeated because the system's buffers were full.
    pub retries: u64,
    /// Longest wait for a message; `None` is without limit.
    patience: Option<Duration>,
}

impl<'a> SendPolicy<'a> {
    /// Waits until the message has left or a stop is requested; or, with `skip`, does not wait.
    pub fn new(skip: bool, stop: &'a Stop) -> Self {
        Self {
            skip,
            stop,
            retries: 0,
            patience: None,
        }
    }

    /// Waits no longer than this for a message to leave.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }
}

/// Of libvma's extra API.
const VMA_SND_FLAGS_DUMMY: i32 = 0x400;
/// Bytes of such a message.
const DUMMY_LEN: usize = 14;

impl Socket {
    /// Whether message boundaries are lost.
    pub fn is_stream(&self) -> bool {
        match self {
            Self::Udp(_) | Self::UnixDatagram(_) => false,
            Self::Tcp(_) | Self::Tls(_) | Self::UnixStream(_) => true,
        }
    }

    /// Receives once. On a stream, no bytes mean that the peer has closed.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Peer)> {
        match self {
            Self::Udp(socket) => socket
                .recv_from(buffer)
                .map(|(len, address)| (len, Peer::Inet(address))),
            Self::Tcp(socket) => (&mut &*socket)
                .read(buffer)
                .map(|len| (len, Peer::Connected)),
            Self::Tls(stream) => stream.receive(buffer).map(|len| (len, Peer::Connected)),
            Self::UnixDatagram(socket) => socket
                .recv_from(buffer)
                .map(|(len, address)| (len, Peer::Unix(address))),
            Self::UnixStream(socket) => (&mut &*socket)
                .read(buffer)
                .map(|len| (len, Peer::Connected)),
        }
    }

    /// Sends a whole message.
    #[inline]
    pub fn send(
        &self,
        message: &[u8],
        peer: &Peer,
        policy: &mut SendPolicy<'_>,
    ) -> Result<Sent, Error> {
        let mut rest = message;
        let mut since = None;
        loop {
            match self.send_once(rest, peer, policy.skip) {
                Ok(len) if self.is_stream() && len < rest.len() => {
                    rest = rest.get(len..).unwrap_or_default();
                }
                Ok(_) => return Ok(Sent::Yes),
                Err(error) if is_transient(&error) => {
                    policy.retries += 1;
                    // A message of which a part has left must be completed.
                    if policy.skip
                        && rest.len() == message.len()
                        && error.kind() != io::ErrorKind::Interrupted
                    {
                        return Ok(Sent::Skipped);
                    }
                    if policy.stop.is_requested() {
                        return Ok(Sent::Stopped);
                    }
                    if let Some(patience) = policy.patience
                        && since.get_or_insert_with(Instant::now).elapsed() > patience
                    {
                        return Err(send_error(error, message.len(), peer));
                    }
                }
                Err(error) => return Err(send_error(error, message.len(), peer)),
            }
        }
    }

    #[inline]
    fn send_once(&self, bytes: &[u8], peer: &Peer, skip: bool) -> io::Result<usize> {
        match (self, peer) {
            (Self::Tls(stream), _) => stream.send(bytes, skip),
            _ if skip => self.send_without_waiting(bytes, peer),
            (Self::Udp(socket), Peer::Inet(address)) => socket.send_to(bytes, address),
            (Self::Tcp(socket), _) => (&mut &*socket).write(bytes),
            (Self::UnixDatagram(socket), Peer::Unix(address)) => {
                socket.send_to_addr(bytes, address)
            }
            (Self::UnixStream(socket), _) => (&mut &*socket).write(bytes),
            (Self::Udp(socket), _) => socket.send(bytes),
            (Self::UnixDatagram(socket), _) => socket.send(bytes),
        }
    }

    /// Has the library go through the motions of a send, and send nothing. What it cannot do so it
    /// refuses.
    pub fn send_dummy(&self, peer: &Peer) {
        let socket = SockRef::from(self);
        let flags = MSG_DONTWAIT | MSG_NOSIGNAL | VMA_SND_FLAGS_DUMMY;
        let bytes = [0; DUMMY_LEN];
        let _ = match (self, peer) {
            (Self::Udp(_), Peer::Inet(address)) => {
                socket.send_to_with_flags(&bytes, &SockAddr::from(*address), flags)
            }
            (Self::Tcp(_), _) => socket.send_with_flags(&bytes, flags),
            _ => Ok(0),
        };
    }

    fn send_without_waiting(&self, bytes: &[u8], peer: &Peer) -> io::Result<usize> {
        let socket = SockRef::from(self);
        let flags = MSG_DONTWAIT | MSG_NOSIGNAL;
        match peer {
            Peer::Connected => socket.send_with_flags(bytes, flags),
            Peer::Inet(address) => {
                socket.send_to_with_flags(bytes, &SockAddr::from(*address), flags)
            }
            Peer::Unix(address) => match address.as_pathname() {
                Some(path) => socket.send_to_with_flags(bytes, &SockAddr::unix(path)?, flags),
                None => Err(io::ErrorKind::AddrNotAvailable.into()),
            },
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
            Self::Tls(stream) => stream.as_fd(),
            Self::UnixDatagram(socket) => socket.as_fd(),
            Self::UnixStream(socket) => socket.as_fd(),
        }
    }
}

/// Whether a receive call ended without a message but the socket is fine: the wake-up time passed,
/// a signal arrived, or an earlier datagram was refused by its destination.
pub fn is_idle(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused
    )
}

/// The error of a connection that the peer has ended.
pub fn closed_by(peer: impl std::fmt::Display) -> Error {
    Error::Transfer {
        what: format!("{peer} # TCP: a connection was forcibly closed by a peer"),
        source: io::ErrorKind::ConnectionReset.into(),
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    ) || error.raw_os_error() == Some(ENOBUFS)
}

fn send_error(error: io::Error, len: usize, peer: &Peer) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => closed_by(peer),
        _ => Error::Transfer {
            what: format!("sendto() failed sending {len} bytes to {peer}"),
            source: error,
        },
    }
}
