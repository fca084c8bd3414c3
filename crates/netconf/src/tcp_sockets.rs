//! The TCP sockets of a network namespace, one at a time.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use netlink_packet_core::NLM_F_ACK;
use rustix::io::Errno;
use rustix::net::netlink;

use crate::connection::Connection;
use crate::error::Error;
use crate::inet_diag::{self, Entry, NO_COOKIE, SOCK_DESTROY, SOCK_DIAG_BY_FAMILY};

/// A TCP socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpSocketInfo {
    /// It listens; otherwise it has the very connection that was asked for.
    pub listening: bool,
    /// The user that made it.
    pub user: u32,
}

/// Asks which socket of the kernel a TCP segment would go to, and ends connections.
#[derive(Debug)]
pub struct TcpSockets {
    connection: Connection,
}

impl TcpSockets {
    /// For the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// Netlink cannot be used.
    pub fn open() -> Result<Self, Error> {
        let connection = Connection::open_protocol(Some(netlink::SOCK_DIAG))?;
        Ok(Self { connection })
    }

    /// The socket that segments from `peer` to `local` go to, whatever process has it: the one with this connection,
    /// else one that listens there. `None` if the kernel would answer with a reset.
    ///
    /// # Errors
    ///
    /// The kernel cannot tell (CONFIG_INET_TCP_DIAG), or netlink fails.
    pub fn find(
        &mut self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
    ) -> Result<Option<TcpSocketInfo>, Error> {
        let found = self.entry(local.into(), peer.into())?;
        Ok(found.map(|entry| TcpSocketInfo {
            listening: entry.state == TCP_LISTEN,
            user: entry.user,
        }))
    }

    /// Ends the connection, also one in TIME-WAIT: its owner's calls fail with ECONNABORTED, and the addresses are free. Returns
    /// whether there was one. What listens is left alone.
    ///
    /// # Errors
    ///
    /// The kernel cannot (CONFIG_INET_DIAG_DESTROY), the process may not (CAP_NET_ADMIN), or netlink fails.
    pub fn end(
        &mut self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
    ) -> Result<bool, Error> {
        let (local, peer) = (local.into(), peer.into());
        // Without the cookie the kernel would end the listener if the connection has ended meanwhile.
        let Some(Entry { cookie, .. }) = self
            .entry(local, peer)?
            .filter(|entry| entry.state != TCP_LISTEN)
        else {
            return Ok(false);
        };
        let ended = self.connection.ask_raw(
            "end a TCP connection",
            (SOCK_DESTROY, NLM_F_ACK),
            &inet_diag::exact_request(local, peer, cookie),
            |_| ControlFlow::Continue(()),
        );
        match ended {
            Err(error) if is_gone(&error) => Ok(false),
            ended => ended.map(|()| true),
        }
    }

    fn entry(&mut self, local: SocketAddr, peer: SocketAddr) -> Result<Option<Entry>, Error> {
        let mut found = None;
        let asked = self.connection.ask_raw(
            "find a TCP socket",
            (SOCK_DIAG_BY_FAMILY, 0),
            &inet_diag::exact_request(local, peer, NO_COOKIE),
            |message| {
                found = inet_diag::parse(message.payload);
                ControlFlow::Break(())
            },
        );
        match asked {
            Err(error) if is_gone(&error) => Ok(None),
            asked => asked.map(|()| found),
        }
    }
}

/// There is no such socket, or another one by now.
fn is_gone(error: &Error) -> bool {
    [Errno::NOENT, Errno::STALE]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.errno())
}

const TCP_LISTEN: u8 = 10;
