//! The TCP sockets of a network namespace, one at a time.

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::time::Duration;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use rustix::io::Errno;
use rustix::net::netlink;

use crate::connection::Connection;
use crate::error::Error;
use crate::inet_diag::{
    self, AF_INET, AF_INET6, Entry, IPPROTO_TCP, NO_COOKIE, SOCK_DESTROY, SOCK_DIAG_BY_FAMILY,
    TCP_FIN_WAIT2, TCP_LISTEN, TCP_SYN_RECV, TCP_TIME_WAIT,
};

/// A TCP socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpSocketInfo {
    /// It listens; otherwise it has the very connection that was asked for.
    pub listening: bool,
    /// The user that made it.
    pub user: u32,
}

/// A TCP connection of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpConnectionInfo {
    /// This host's end. What is carried by IPv4 has addresses of IPv4, whatever the socket's
    /// family.
    pub local: SocketAddr,
    /// The peer's end, likewise.
    pub peer: SocketAddr,
    /// Tells the socket from all others of the host, earlier and later (`SO_COOKIE`).
    pub cookie: u64,
    /// It is in TIME-WAIT, or in FIN-WAIT-2 with nobody who has it, for so long; then the kernel
    /// forgets it.
    pub waits: Option<Duration>,
}

/// A TCP socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpListenerInfo {
    /// Its address, unspecified for all.
    pub local: SocketAddr,
    /// Inode number, as fstat(2) shows it.
    pub inode: u32,
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

    /// The socket that segments from `peer` to `local` go to, whatever process has it: the one with
    /// this connection, else one that listens there. `None` if the kernel would answer with a
    /// reset.
    ///
    /// # Errors
    ///
    /// The kernel cannot tell (CONFIG_INET_TCP_DIAG), or netlink fails.
    pub fn find(
        &mut self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
    ) -> Result<Option<TcpSocketInfo>, Error> {
        let found = self.entry(local.into(), peer.into(), 0)?;
        Ok(found.map(|entry| TcpSocketInfo {
            listening: entry.state == TCP_LISTEN,
            user: entry.user,
        }))
    }

    /// The connection between these ends, if the kernel has it, in whatever state. `link`: by which
    /// its segments come, or 0, which finds none that is bound to a link.
    ///
    /// # Errors
    ///
    /// As for [`TcpSockets::find`].
    pub fn connection(
        &mut self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
        link: u32,
    ) -> Result<Option<TcpConnectionInfo>, Error> {
        let found = self.entry(local.into(), peer.into(), link)?;
        Ok(found.and_then(|entry| described(&entry)))
    }

    /// All connections whose local end has this port and whose handshake is over. The kernel walks
    /// its whole table.
    ///
    /// # Errors
    ///
    /// As for [`TcpSockets::find`].
    pub fn connections_at(&mut self, port: u16) -> Result<Vec<TcpConnectionInfo>, Error> {
        let mut found = Vec::new();
        for family in [AF_INET, AF_INET6] {
            let listed = self.connection.ask_raw(
                "list TCP sockets",
                (SOCK_DIAG_BY_FAMILY, NLM_F_DUMP),
                &inet_diag::request(family, IPPROTO_TCP, port),
                |message| {
                    let entry = inet_diag::parse(message.payload);
                    let is_made = |entry: &Entry| entry.state != TCP_SYN_RECV;
                    let entry = entry.filter(is_made);
                    found.extend(entry.and_then(|entry| described(&entry)));
                    ControlFlow::Continue(())
                },
            );
            match listed {
                // The kernel has no IPv6.
                Err(Error::Refused { .. }) if family == AF_INET6 => {}
                listed => listed?,
            }
        }
        Ok(found)
    }

    /// The sockets that listen, at this port or at any, whatever process has them.
    ///
    /// # Errors
    ///
    /// As for [`TcpSockets::find`].
    pub fn listeners(&mut self, port: Option<u16>) -> Result<Vec<TcpListenerInfo>, Error> {
        let mut found = Vec::new();
        for family in [AF_INET, AF_INET6] {
            let listed = self.connection.ask_raw(
                "list TCP listeners",
                (SOCK_DIAG_BY_FAMILY, NLM_F_DUMP),
                &inet_diag::listeners_request(family, port.unwrap_or(0)),
                |message| {
                    let entry = inet_diag::parse(message.payload);
                    found.extend(entry.map(|entry| TcpListenerInfo {
                        local: entry.local,
                        inode: entry.inode,
                    }));
                    ControlFlow::Continue(())
                },
            );
            match listed {
                // The kernel has no IPv6.
                Err(Error::Refused { .. }) if family == AF_INET6 => {}
                listed => listed?,
            }
        }
        Ok(found)
    }

    /// Ends the connection, also one in TIME-WAIT: its owner's calls fail with ECONNABORTED, and
    /// the addresses are free. Returns whether there was one. What listens is left alone.
    ///
    /// # Errors
    ///
    /// The kernel cannot (CONFIG_INET_DIAG_DESTROY), the process may not (CAP_NET_ADMIN), or
    /// netlink fails.
    pub fn end(
        &mut self,
        local: impl Into<SocketAddr>,
        peer: impl Into<SocketAddr>,
        link: u32,
    ) -> Result<bool, Error> {
        let (local, peer) = (local.into(), peer.into());
        // Without the cookie the kernel would end the listener if the connection has ended
        // meanwhile.
        let Some(Entry { cookie, .. }) = self
            .entry(local, peer, link)?
            .filter(|entry| entry.state != TCP_LISTEN)
        else {
            return Ok(false);
        };
        let ended = self.connection.ask_raw(
            "end a TCP connection",
            (SOCK_DESTROY, NLM_F_ACK),
            &inet_diag::exact_request(local, peer, link, cookie),
            |_| ControlFlow::Continue(()),
        );
        match ended {
            Err(error) if is_gone(&error) => Ok(false),
            ended => ended.map(|()| true),
        }
    }

    fn entry(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
        link: u32,
    ) -> Result<Option<Entry>, Error> {
        let mut found = None;
        let asked = self.connection.ask_raw(
            "find a TCP socket",
            (SOCK_DIAG_BY_FAMILY, 0),
            &inet_diag::exact_request(local, peer, link, NO_COOKIE),
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

/// `None`: it is no connection.
fn described(entry: &Entry) -> Option<TcpConnectionInfo> {
    if entry.state == TCP_LISTEN || entry.peer.port() == 0 {
        return None;
    }
    // Of one that a process has, or that still sends, more than this comes to be known.
    let waits = match entry.state {
        TCP_TIME_WAIT => true,
        TCP_FIN_WAIT2 => entry.inode == 0,
        _ => false,
    };
    Some(TcpConnectionInfo {
        local: unmapped(entry.local),
        peer: unmapped(entry.peer),
        cookie: inet_diag::cookie_number(entry.cookie),
        waits: waits.then(|| Duration::from_millis(entry.expires_msec.into())),
    })
}

/// As packets have it (RFC 4291 §2.5.5.2).
fn unmapped(end: SocketAddr) -> SocketAddr {
    match end.ip() {
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(ip.into(), end.port()),
            None => end,
        },
        IpAddr::V4(_) => end,
    }
}
