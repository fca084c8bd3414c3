//! `SO_REUSEADDR` and `SO_REUSEPORT`: sockets of other processes may have our port, too. Which of them a datagram is for only the kernel knows
//! (`compute_score` in `net/ipv4/udp.c`), so a socket is accelerated only while no other can take anything from it.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use crate::sockets::family::{Addresses, Family, canonical};
use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::network::PortUser;
use crate::sockets::offload::PortSharing;
use crate::sockets::reason::Reason;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sys;
use crate::udp::{UdpStack, groups};

/// Whether the kernel would, or might, prefer the other socket for some of the datagrams that this one would have.
fn takes_from(
    family: Family,
    local: SocketAddrV4,
    peer: Option<SocketAddrV4>,
    other: &PortUser,
) -> bool {
    let ipv4 = |address: SocketAddr| match canonical(address) {
        SocketAddr::V4(address) => Some(address),
        // With any address of IPv6 it gets IPv4, too, if no socket over IPv4 is as good; or not (IPV6_V6ONLY).
        SocketAddr::V6(address) => (family == Family::Inet6 && address.ip().is_unspecified())
            .then(|| SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, address.port())),
    };
    let Some(other_local) = ipv4(other.local) else {
        return false;
    };
    if other_local.port() != local.port() {
        return false;
    }
    let (ours, theirs) = (*local.ip(), *other_local.ip());
    if theirs.is_multicast() && ours != theirs {
        // For groups only, of which each receiver gets every datagram.
        return false;
    }
    match (peer, other.peer.and_then(ipv4)) {
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
    local: SocketAddrV4,
    peer: Option<SocketAddrV4>,
) -> PortSharing {
    let Some(mut users) = host.port_users(Some(local.port())) else {
        return PortSharing::Unknown;
    };
    let inode = sys::inode(socket.fd());
    let family = socket.family();
    users.retain(|other| other.inode != inode && takes_from(family, local, peer, other));
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
    groups::look_after(host, users.as_deref().map(Vec::as_slice));
    for (fd, socket) in sharing {
        // It may have been closed meanwhile, or bound to another port.
        if !host.is_behind(fd, socket.core()) || !socket.core().is_offloaded() {
            continue;
        }
        let Ok(Some(addresses)) = Addresses::of(fd) else {
            continue;
        };
        let Some(local) = addresses.local_ipv4() else {
            continue;
        };
        let (family, peer) = (socket.core().family(), addresses.peer_ipv4());
        if local.ip().is_multicast() {
            // Looked after above.
            continue;
        }
        let is_shared = users.as_ref().is_none_or(|users| {
            let takes = |other: &PortUser| takes_from(family, local, peer, other);
            users
                .iter()
                .any(|other| !own.contains(&other.inode) && takes(other))
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
        .map(|(fd, _)| sys::inode(fd))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let ours = peer.map(|peer: &str| peer.parse().unwrap());
            let takes = takes_from(Family::Inet, local.parse().unwrap(), ours, &user);
            assert_eq!(takes, expected, "{local} {peer:?} {other} {other_peer:?}");
        }
    }

    #[test]
    fn a_socket_over_ipv6_shares_with_both_families() {
        for (local, other, expected) in [
            ("0.0.0.0:5", "[::]:5", true),
            ("0.0.0.0:5", "0.0.0.0:5", true),
            ("0.0.0.0:5", "10.0.0.1:5", true),
            ("0.0.0.0:5", "[::ffff:10.0.0.1]:5", true),
            ("0.0.0.0:5", "[2001:db8::1]:5", false),
            ("0.0.0.0:5", "[::]:6", false),
            ("10.0.0.1:5", "[::]:5", false),
        ] {
            let user = PortUser {
                local: other.parse().unwrap(),
                peer: None,
                inode: 1,
            };
            let takes = takes_from(Family::Inet6, local.parse().unwrap(), None, &user);
            assert_eq!(takes, expected, "{local} {other}");
        }
    }
}
