//! The UDP sockets of a network namespace (sock_diag(7), `linux/inet_diag.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;

use netlink_packet_core::NLM_F_DUMP;
use rustix::net::netlink;

use crate::connection::Connection;
use crate::error::Error;

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

/// Lists the UDP sockets of the calling thread's network namespace that are bound to `port`, or all, whatever process has them.
///
/// # Errors
///
/// The kernel cannot tell (CONFIG_INET_UDP_DIAG), or netlink fails.
pub fn udp_sockets(port: Option<u16>) -> Result<Vec<UdpSocketInfo>, Error> {
    let mut connection = Connection::open_protocol(Some(netlink::SOCK_DIAG))?;
    let mut sockets = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let request = request(family, port.unwrap_or(0));
        let kind = (SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
        let listed = connection.ask_raw("list UDP sockets", kind, &request, |message| {
            sockets.extend(parse(message.payload));
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

/// `struct inet_diag_req_v2`
fn request(family: u8, port: u16) -> [u8; 56] {
    let mut request = [0; 56];
    request[0] = family;
    request[1] = IPPROTO_UDP;
    request[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    request[8..10].copy_from_slice(&port.to_be_bytes());
    request
}

/// `struct inet_diag_msg`
fn parse(message: &[u8]) -> Option<UdpSocketInfo> {
    let port = |offset| Some(u16::from_be_bytes(*message.get(offset..)?.first_chunk()?));
    let address = |offset| {
        let bytes: [u8; 16] = *message.get(offset..)?.first_chunk()?;
        let [a, b, c, d, ..] = bytes;
        match *message.first()? {
            AF_INET => Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d))),
            AF_INET6 => Some(IpAddr::V6(Ipv6Addr::from(bytes))),
            _ => None,
        }
    };
    let peer = SocketAddr::new(address(24)?, port(6)?);
    Some(UdpSocketInfo {
        local: SocketAddr::new(address(8)?, port(4)?),
        peer: (peer.port() != 0).then_some(peer),
        inode: u32::from_ne_bytes(*message.get(68..)?.first_chunk()?),
    })
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_are_no_sockets() {
        let mut message = [0; 72];
        message[0] = AF_INET;
        for length in 0..message.len() {
            assert_eq!(parse(&message[..length]), None);
        }
        assert!(parse(&message).is_some());
        message[0] = 1;
        assert_eq!(parse(&message), None);
    }
}
