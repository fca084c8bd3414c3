//! The UDP sockets of a network namespace.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use netlink_packet_core::NLM_F_DUMP;
use rustix::net::netlink;

use crate::connection::Connection;
use crate::error::Error;
use crate::inet_diag::{self, AF_INET, AF_INET6, Entry, IPPROTO_UDP, SOCK_DIAG_BY_FAMILY};

/// A UDP socket that is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpSocketInfo {
    /// Its address, unspecified for all.
    pub local: SocketAddr,
    /// Its peer, if it is connected.
    pub peer: Option<SocketAddr>,
    /// Inode number, as fstat(2) shows it; 0 if no descriptor stands for the socket any more.
    pub inode: u32,
}

/// Lists the UDP sockets of the calling thread's network namespace that are bound to `port`, or
/// all, whatever process has them.
///
/// # Errors
///
/// The kernel cannot tell (CONFIG_INET_UDP_DIAG), or netlink fails.
pub fn udp_sockets(port: Option<u16>) -> Result<Vec<UdpSocketInfo>, Error> {
    let mut connection = Connection::open_protocol(Some(netlink::SOCK_DIAG))?;
    let mut sockets = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let request = inet_diag::request(family, IPPROTO_UDP, port.unwrap_or(0));
        let kind = (SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
        let listed = connection.ask_raw("list UDP sockets", kind, &request, |message| {
            sockets.extend(inet_diag::parse(message.payload).map(described));
            ControlFlow::Continue(())
        });
        match listed {
            // The kernel has no IPv6.
            Err(Error::Refused { .. }) if family == AF_INET6 => {}
            listed => listed?,
        }
    }
    Ok(sockets)
}

fn described(entry: Entry) -> UdpSocketInfo {
    UdpSocketInfo {
        local: entry.local,
        peer: (entry.peer.port() != 0).then_some(entry.peer),
        inode: entry.inode,
    }
}
