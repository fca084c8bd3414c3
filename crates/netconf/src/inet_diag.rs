//! Questions about the kernel's sockets (sock_diag(7), `linux/inet_diag.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;
pub(crate) const SOCK_DESTROY: u16 = 21;
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;
pub(crate) const TCP_FIN_WAIT2: u8 = 5;
pub(crate) const TCP_SYN_RECV: u8 = 3;
pub(crate) const TCP_TIME_WAIT: u8 = 6;
pub(crate) const TCP_LISTEN: u8 = 10;
pub(crate) const IPPROTO_TCP: u8 = 6;
pub(crate) const IPPROTO_UDP: u8 = 17;

/// Length of `struct inet_diag_req_v2`.
const REQUEST_LEN: usize = 56;

/// `struct inet_diag_req_v2` for all sockets, in any state, that are bound to `port`; 0 for every
/// port.
pub(crate) fn request(family: u8, protocol: u8, port: u16) -> [u8; REQUEST_LEN] {
    let mut request = [0; REQUEST_LEN];
    request[0] = family;
    request[1] = protocol;
    request[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    request[8..10].copy_from_slice(&port.to_be_bytes());
    request
}

/// The same for TCP sockets that listen.
pub(crate) fn listeners_request(family: u8, port: u16) -> [u8; REQUEST_LEN] {
    let mut request = request(family, IPPROTO_TCP, port);
    request[4..8].copy_from_slice(&(1_u32 << TCP_LISTEN).to_ne_bytes());
    request
}

/// Whichever socket it is.
pub(crate) const NO_COOKIE: [u8; 8] = [0xff; 8];

/// The same for the one socket that segments from `peer` to `local` go to, if it has this cookie. A
/// scope, or else `link`, is the number of the link on which they come: sockets that are bound to
/// another are not found, and without one none that is bound.
pub(crate) fn exact_request(
    local: SocketAddr,
    peer: SocketAddr,
    link: u32,
    cookie: [u8; 8],
) -> [u8; REQUEST_LEN] {
    let family = if local.is_ipv4() && peer.is_ipv4() {
        AF_INET
    } else {
        AF_INET6
    };
    let mut request = request(family, IPPROTO_TCP, local.port());
    request[10..12].copy_from_slice(&peer.port().to_be_bytes());
    for (offset, end) in [(12, local), (28, peer)] {
        let octets: &[u8] = match end.ip() {
            IpAddr::V4(ip) if family == AF_INET => &ip.octets(),
            IpAddr::V4(ip) => &ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => &ip.octets(),
        };
        for (to, from) in request.iter_mut().skip(offset).zip(octets) {
            *to = *from;
        }
    }
    let scope = |end| match end {
        SocketAddr::V6(end) => end.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let scopes = [scope(local), scope(peer), link];
    let link = scopes.into_iter().find(|link| *link != 0).unwrap_or(0);
    request[44..48].copy_from_slice(&link.to_ne_bytes());
    request[48..56].copy_from_slice(&cookie);
    request
}

/// `struct inet_diag_msg`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) state: u8,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    /// Tells the socket from later ones with its addresses.
    pub(crate) cookie: [u8; 8],
    /// When the timer of the socket expires.
    pub(crate) expires_msec: u32,
    pub(crate) user: u32,
    pub(crate) inode: u32,
}

/// A cookie as `SO_COOKIE` has it: `sock_diag_save_cookie` writes the lower half first.
pub(crate) fn cookie_number(cookie: [u8; 8]) -> u64 {
    let [a, b, c, d, e, f, g, h] = cookie;
    let (low, high) = (
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    );
    u64::from(high) << 32 | u64::from(low)
}

pub(crate) fn parse(message: &[u8]) -> Option<Entry> {
    let port = |offset| Some(u16::from_be_bytes(*message.get(offset..)?.first_chunk()?));
    let number = |offset| Some(u32::from_ne_bytes(*message.get(offset..)?.first_chunk()?));
    let address = |offset| {
        let bytes: [u8; 16] = *message.get(offset..)?.first_chunk()?;
        let [a, b, c, d, ..] = bytes;
        match *message.first()? {
            AF_INET => Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d))),
            AF_INET6 => Some(IpAddr::V6(Ipv6Addr::from(bytes))),
            _ => None,
        }
    };
    Some(Entry {
        state: *message.get(1)?,
        local: SocketAddr::new(address(8)?, port(4)?),
        peer: SocketAddr::new(address(24)?, port(6)?),
        cookie: *message.get(44..)?.first_chunk()?,
        expires_msec: number(52)?,
        user: number(64)?,
        inode: number(68)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_asked_for_on_the_interface_of_either_end() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (local, peer, expected) in [
            ("[fe80::1%3]:80", "[fe80::2%3]:9", 3),
            ("[fd00::1]:80", "[fe80::2%4]:9", 4),
            ("[fe80::1%5]:80", "[fd00::2]:9", 5),
            ("[fd00::1]:80", "[fd00::2]:9", 0),
            ("10.0.0.1:80", "10.0.0.2:9", 0),
        ] {
            let request = |link| exact_request(address(local), address(peer), link, NO_COOKIE);
            assert_eq!(request(0)[44..48], u32::to_ne_bytes(expected), "{local}");
            let on_another = if expected == 0 { 9 } else { expected };
            assert_eq!(request(9)[44..48], u32::to_ne_bytes(on_another), "{local}");
        }
    }

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
