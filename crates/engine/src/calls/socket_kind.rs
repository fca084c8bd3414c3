//! Which sockets are of a kind of ours.

use libc::c_int;
use links::family::Family;

/// What a `socket(2)` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// Datagrams over IPv4 or IPv6.
    Udp(Family),
    /// A stream over IPv4 or IPv6.
    Tcp(Family),
    /// Another socket of one of these families.
    OtherInternet,
    /// One that is never ours.
    Other,
}

impl SocketKind {
    #[inline]
    pub fn of(domain: c_int, kind: c_int, protocol: c_int) -> Self {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let Some(family) = Family::of_domain(domain) else {
            return Self::Other;
        };
        match (kind & !flags, protocol) {
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Self::Udp(family),
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Self::Tcp(family),
            _ => Self::OtherInternet,
        }
    }
}

#[cfg(test)]
mod tests {
    use libc::{
        AF_INET, AF_INET6, AF_UNIX, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, SOCK_CLOEXEC,
        SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW, SOCK_STREAM,
    };

    use super::*;

    #[test]
    fn sockets_are_told_by_their_arguments() {
        let flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
        for (domain, kind, protocol, expected) in [
            (AF_INET, SOCK_DGRAM, 0, SocketKind::Udp(Family::Inet)),
            (
                AF_INET6,
                SOCK_DGRAM | flags,
                IPPROTO_UDP,
                SocketKind::Udp(Family::Inet6),
            ),
            (AF_INET, SOCK_STREAM, 0, SocketKind::Tcp(Family::Inet)),
            (
                AF_INET6,
                SOCK_STREAM | flags,
                IPPROTO_TCP,
                SocketKind::Tcp(Family::Inet6),
            ),
            (AF_INET, SOCK_DGRAM, IPPROTO_ICMP, SocketKind::OtherInternet),
            (AF_INET, SOCK_DGRAM, IPPROTO_TCP, SocketKind::OtherInternet),
            (AF_INET, SOCK_RAW, IPPROTO_UDP, SocketKind::OtherInternet),
            (AF_UNIX, SOCK_DGRAM, 0, SocketKind::Other),
            (AF_UNIX, SOCK_STREAM, 0, SocketKind::Other),
        ] {
            let seen = SocketKind::of(domain, kind, protocol);
            assert_eq!(seen, expected, "{domain} {kind} {protocol}");
        }
    }
}
