//! Connections that a listening socket of the kernel's gets although the kernel has not seen their
//! handshake.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// What the two ends of a connection have agreed upon in its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The MSS that the peer announced.
    pub peer_mss: u16,
    /// The shifts of the windows that are received and sent, if they are scaled.
    pub window_scales: Option<WindowShifts>,
    /// Both sides understand SACK.
    pub has_sack: bool,
    /// Both sides understand ECN.
    pub has_ecn: bool,
    /// The clocks of the timestamps option, if it is used.
    pub timestamps: Option<Clocks>,
}

/// By how many bits the windows in segments are shifted (RFC 7323).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowShifts {
    /// In segments of the peer's.
    pub send: u8,
    /// In our own.
    pub receive: u8,
}

/// Values of the timestamps option (RFC 7323).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Ours, now, in milliseconds.
    pub ours: u32,
    /// The peer's, as seen last.
    pub peers: u32,
}

/// The kernel of this host.
pub trait ReceivingHost {
    /// Has it receive a packet.
    fn receive(&self, packet: &[u8]) -> bool;

    /// Whether it has the connection. `None`: it can be seen where the packet passes, as the
    /// connection is of no interface.
    fn has_connection(&self) -> Option<bool>;
}

/// The way of connections into the queue of a listening socket of the kernel's, where `accept(2)`
/// finds them.
pub trait Admission: fmt::Debug + Send + Sync {
    /// Puts a connection into the queue of the kernel's socket that listens at `local`. `packets`
    /// are IP packets from the peer without options or extension headers: the first acknowledges
    /// the handshake, the others follow it.
    ///
    /// An error: the kernel does not have the connection, and has reset the peer's, or has not all
    /// of what the peer has sent.
    fn admit(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        agreed: &Agreed,
        packets: &[Vec<u8>],
        kernel: &dyn ReceivingHost,
    ) -> io::Result<()>;
}
