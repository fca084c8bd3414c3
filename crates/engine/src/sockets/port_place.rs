//! Which of several sockets at one port the kernel prefers.

use std::net::{Ipv4Addr, SocketAddr};

use links::family::{Addresses, Family, Versions, canonical};
use links::network::PortUser;

/// Where a socket of ours is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    family: Family,
    pub(crate) local: SocketAddr,
    peer: Option<SocketAddr>,
    versions: Versions,
}

impl Place {
    pub(crate) fn new(family: Family, addresses: &Addresses) -> Self {
        Self {
            family,
            local: addresses.local,
            peer: addresses.peer,
            versions: addresses.versions,
        }
    }
}

/// Whether the kernel would, or might, prefer the other socket for some of the datagrams that this
/// one would have.
pub(crate) fn takes_from(place: &Place, other: &PortUser) -> bool {
    let v4 = |address: SocketAddr, has_both| match canonical(address) {
        SocketAddr::V4(address) => Some(address.into()),
        SocketAddr::V6(address) => (has_both && address.ip().is_unspecified())
            .then(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port())),
    };
    // With any address of IPv6 it gets IPv4, too, if no socket over IPv4 is as good; or not
    // (IPV6_V6ONLY).
    let is_inet6 = place.family == Family::Inet6;
    let v6 = |address: SocketAddr| Some(canonical(address)).filter(SocketAddr::is_ipv6);
    place.versions.v4 && takes(place, |it| v4(it, true), |it| v4(it, is_inet6), other)
        || place.versions.v6 && takes(place, v6, v6, other)
}

/// The same for the datagrams of one version. `ours` and `theirs` say which of an address's are of
/// this version.
fn takes(
    place: &Place,
    ours: impl Fn(SocketAddr) -> Option<SocketAddr>,
    theirs: impl Fn(SocketAddr) -> Option<SocketAddr>,
    other: &PortUser,
) -> bool {
    let (Some(local), Some(other_local)) = (ours(place.local), theirs(other.local)) else {
        return false;
    };
    if other_local.port() != local.port() {
        return false;
    }
    let (peer, other_peer) = (place.peer.and_then(ours), other.peer.and_then(theirs));
    let (ours, theirs) = (local.ip(), other_local.ip());
    if theirs.is_multicast() && ours != theirs {
        // For groups only, of which each receiver gets every datagram.
        return false;
    }
    match (peer, other_peer) {
        (Some(ours), Some(theirs)) if ours != theirs => false,
        // Ours is the more exact one.
        (Some(_), None) => false,
        (_, Some(_)) => ours == theirs || ours.is_unspecified() || theirs.is_unspecified(),
        (None, None) => ours == theirs || ours.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Versions = Versions::BOTH;
    const V4: Versions = Versions {
        v4: true,
        v6: false,
    };
    const V6: Versions = Versions {
        v4: false,
        v6: true,
    };

    #[test]
    fn the_more_exact_socket_gets_the_datagram() {
        const PEER: &str = "10.0.0.9:9";
        for (local, peer, other, other_peer, expected) in [
            // Unconnected: the latest of the same address, or the one of a single address.
            ("0.0.0.0:5", None, "0.0.0.0:5", None, true),
            ("0.0.0.0:5", None, "10.0.0.1:5", None, true),
            ("10.0.0.1:5", None, "0.0.0.0:5", None, false),
            ("10.0.0.1:5", None, "10.0.0.1:5", None, true),
            ("10.0.0.1:5", None, "10.0.0.2:5", None, false),
            ("0.0.0.0:5", None, "0.0.0.0:6", None, false),
            // Connected before unconnected.
            ("0.0.0.0:5", None, "10.0.0.1:5", Some(PEER), true),
            ("10.0.0.1:5", None, "10.0.0.1:5", Some(PEER), true),
            ("10.0.0.1:5", None, "10.0.0.2:5", Some(PEER), false),
            ("10.0.0.1:5", Some(PEER), "10.0.0.1:5", None, false),
            ("10.0.0.1:5", Some(PEER), "0.0.0.0:5", None, false),
            ("10.0.0.1:5", Some(PEER), "10.0.0.1:5", Some(PEER), true),
            (
                "10.0.0.1:5",
                Some(PEER),
                "10.0.0.1:5",
                Some("10.0.0.9:8"),
                false,
            ),
            // Over IPv6.
            ("0.0.0.0:5", None, "[::]:5", None, false),
            ("0.0.0.0:5", None, "[2001:db8::1]:5", None, false),
            // For groups.
            ("0.0.0.0:5", None, "239.1.1.1:5", None, false),
            ("239.1.1.1:5", None, "239.1.1.2:5", None, false),
            ("239.1.1.1:5", None, "239.1.1.1:5", None, true),
            ("0.0.0.0:5", None, "[::ffff:10.0.0.1]:5", None, true),
        ] {
            let user = PortUser {
                local: other.parse().unwrap(),
                peer: other_peer.map(|peer: &str| peer.parse().unwrap()),
                inode: 1,
            };
            let place = Place {
                family: Family::Inet,
                local: local.parse().unwrap(),
                peer: peer.map(|peer: &str| peer.parse().unwrap()),
                versions: V4,
            };
            let takes = takes_from(&place, &user);
            assert_eq!(takes, expected, "{local} {peer:?} {other} {other_peer:?}");
        }
    }

    #[test]
    fn a_socket_over_ipv6_shares_with_both_families() {
        for (local, versions, other, expected) in [
            ("[::]:5", BOTH, "[::]:5", true),
            ("[::]:5", BOTH, "0.0.0.0:5", true),
            ("[::]:5", BOTH, "10.0.0.1:5", true),
            ("[::]:5", BOTH, "[::ffff:10.0.0.1]:5", true),
            ("[::]:5", BOTH, "[2001:db8::1]:5", true),
            ("[::]:5", BOTH, "[::]:6", false),
            ("[::]:5", V6, "[::]:5", true),
            ("[::]:5", V6, "0.0.0.0:5", false),
            ("[2001:db8::1]:5", V6, "[::]:5", false),
            ("[2001:db8::1]:5", V6, "[2001:db8::1]:5", true),
            ("[2001:db8::1]:5", V6, "[2001:db8::2]:5", false),
            ("[2001:db8::1]:5", V6, "0.0.0.0:5", false),
            ("10.0.0.1:5", V4, "[::]:5", false),
            ("10.0.0.1:5", V4, "[2001:db8::1]:5", false),
        ] {
            let user = PortUser {
                local: other.parse().unwrap(),
                peer: None,
                inode: 1,
            };
            let place = Place {
                family: Family::Inet6,
                local: local.parse().unwrap(),
                peer: None,
                versions,
            };
            let takes = takes_from(&place, &user);
            assert_eq!(takes, expected, "{local} {other}");
        }
    }
}
