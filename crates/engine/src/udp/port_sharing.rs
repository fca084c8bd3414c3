//! `SO_REUSEADDR` and `SO_REUSEPORT`: sockets of other processes may have our port, too. Which of them a datagram is for only the kernel knows
//! (`compute_score` in `net/ipv4/udp.c`), so a socket is accelerated only while no other can take anything from it.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

use crate::sockets::family::{Addresses, Family, Versions, canonical};
use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::network::PortUser;
use crate::sockets::offload::PortSharing;
use crate::sockets::reason::Reason;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sys;
use crate::udp::{UdpStack, groups};

/// Where a socket of ours is.
#[derive(Clone, Copy, Debug)]
struct Place {
    family: Family,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    versions: Versions,
}

impl Place {
    fn new(family: Family, addresses: &Addresses) -> Self {
        Self {
            family,
            local: addresses.local,
            peer: addresses.peer,
            versions: addresses.versions,
        }
    }
}

/// Whether the kernel would, or might, prefer the other socket for some of the datagrams that this one would have.
fn takes_from(place: &Place, other: &PortUser) -> bool {
    let v4 = |address: SocketAddr, has_both| match canonical(address) {
        SocketAddr::V4(address) => Some(address.into()),
        SocketAddr::V6(address) => (has_both && address.ip().is_unspecified())
            .then(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port())),
    };
    // With any address of IPv6 it gets IPv4, too, if no socket over IPv4 is as good; or not (IPV6_V6ONLY).
    let is_inet6 = place.family == Family::Inet6;
    let v6 = |address: SocketAddr| Some(canonical(address)).filter(SocketAddr::is_ipv6);
    place.versions.v4 && takes(place, |it| v4(it, true), |it| v4(it, is_inet6), other)
        || place.versions.v6 && takes(place, v6, v6, other)
}

/// The same for the datagrams of one version. `ours` and `theirs` say which of an address's are of this version.
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

/// Who else has the port of a socket with `SO_REUSEADDR`, as of now.
pub(super) fn port_sharing<S: Stack>(
    host: &Host<S>,
    socket: &SocketCore<S>,
    addresses: &Addresses,
) -> PortSharing {
    let Some(mut users) = host.port_users(addresses.local.port()) else {
        return PortSharing::Unknown;
    };
    let inode = sys::inode(socket.fd());
    let place = Place::new(socket.family(), addresses);
    users.retain(|other| other.inode != inode && takes_from(&place, other));
    if users.is_empty() {
        return PortSharing::Alone;
    }
    // Among our own sockets the flows decide.
    let own = accelerated_inodes(host);
    if users.iter().all(|other| own.contains(&other.inode)) {
        PortSharing::Alone
    } else {
        PortSharing::Shared
    }
}

/// Leaves sockets to the kernel whose port another process has come to share. Returns whether any other could.
pub(crate) fn look_after_shared_ports<S: UdpStack>(host: &Host<S>) -> bool {
    let sharing: Vec<_> = host
        .sockets()
        .filter(|(_, socket)| {
            let core = socket.core();
            core.is_offloaded() && core.attachment().reuses_address()
        })
        .collect();
    if sharing.is_empty() {
        return false;
    }
    let users = host.current_port_users();
    let _control = host.control();
    let own = accelerated_inodes(host);
    groups::look_after(host, users.as_deref());
    for (fd, socket) in sharing {
        let port = socket.core().attachment().groups.local.port();
        let is_own = |other: &PortUser| own.contains(&other.inode);
        if let Some(users) = &users
            && users.of(port).iter().all(is_own)
        {
            continue;
        }
        // It may have been closed meanwhile, or bound to another port.
        if !host.is_behind(fd, socket.core()) || !socket.core().is_offloaded() {
            continue;
        }
        let Ok(Some(addresses)) = Addresses::of(fd) else {
            continue;
        };
        let place = Place::new(socket.core().family(), &addresses);
        if place.local.ip().is_multicast() {
            // Looked after above.
            continue;
        }
        let is_shared = users.as_ref().is_none_or(|users| {
            let others = users.of(place.local.port()).iter();
            others
                .filter(|other| !is_own(other))
                .any(|other| takes_from(&place, other))
        });
        if is_shared {
            hand_over::leave(host, socket, Reason::PortShared, "");
        }
    }
    true
}

/// Inode numbers of the sockets that have flows of their own.
fn accelerated_inodes<S: Stack>(host: &Host<S>) -> HashSet<u64> {
    host.sockets()
        .filter(|(_, socket)| socket.core().is_offloaded())
        .map(|(_, socket)| socket.core().shadow.inode.load(Ordering::Relaxed))
        .collect()
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
