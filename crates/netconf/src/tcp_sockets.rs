//! The TCP sockets of a network namespace, one at a time.

use std::net::SocketAddrV4;
use std::ops::ControlFlow;

use rustix::io::Errno;
use rustix::net::netlink;

use crate::connection::Connection;
use crate::error::Error;
use crate::inet_diag::{self, SOCK_DIAG_BY_FAMILY};

/// A TCP socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpSocketInfo {
    /// It listens; otherwise it has the very connection that was asked for.
    pub listening: bool,
    /// The user that made it.
    pub user: u32,
}

/// Asks which socket of the kernel a TCP segment would go to.
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
        local: SocketAddrV4,
        peer: SocketAddrV4,
    ) -> Result<Option<TcpSocketInfo>, Error> {
        let request = inet_diag::exact_request(local, peer);
        let mut found = None;
        let asked = self.connection.ask_raw(
            "find a TCP socket",
            (SOCK_DIAG_BY_FAMILY, 0),
            &request,
            |message| {
                found = inet_diag::parse(message.payload);
                ControlFlow::Break(())
            },
        );
        match asked {
            Err(error) if error.errno() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
            asked => asked.map(|()| {
                found.map(|entry| TcpSocketInfo {
                    listening: entry.state == TCP_LISTEN,
                    user: entry.user,
                })
            }),
        }
    }
}

const TCP_LISTEN: u8 = 10;
