//! `SO_REUSEADDR` and `SO_REUSEPORT`: sockets of other processes may have our port, too. Which of
//! them a datagram is for only the kernel knows (`compute_score` in `net/ipv4/udp.c`), so a socket
//! is accelerated only while no other can take anything from it.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use links::family::Addresses;
use links::network::PortUser;
use links::reason::Reason;

use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::offload::PortSharing;
use crate::sockets::port_place::{Place, takes_from};
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::udp::groups;
use crate::udp::socket::UdpStack;

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
    } else if socket.attachment().has_equals() && host.links.has_broker() {
        PortSharing::Joint
    } else {
        PortSharing::Shared
    }
}

/// Leaves sockets to the kernel whose port another process has come to share. Returns whether any
/// other could.
pub(crate) fn look_after_shared_ports<S: UdpStack>(host: &Host<S>) -> bool {
    let sharing: Vec<_> = host
        .sockets()
        .filter(|(_, socket)| {
            let core = socket.core();
            let is_udp = socket.as_udp().is_some();
            is_udp && core.is_offloaded() && core.attachment().reuses_address()
        })
        .collect();
    if sharing.is_empty() {
        return false;
    }
    let users = host.current_port_users();
    let _control = host.control();
    let own = accelerated_inodes(host);
    groups::look_after(host, users.as_deref());
    if let Some(users) = &users {
        host.strangers.retain(|inode| users.has(inode));
    }
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
            let is_stranger = |other: &&PortUser| !is_own(other) && takes_from(&place, other);
            let strangers: Vec<_> = others.filter(is_stranger).map(|it| it.inode).collect();
            if strangers.is_empty() {
                return false;
            }
            let attachment = socket.core().attachment();
            let (has_equals, flows) = (attachment.has_equals(), attachment.flows.clone());
            drop(attachment);
            !has_equals || !host.strangers.may_have_part(&flows, &strangers)
        });
        if is_shared {
            let option = socket.core().attachment().sharing_option();
            hand_over::hand_over(host, socket, Reason::PortShared, option);
        }
    }
    true
}

/// Inode numbers of the sockets that have flows of their own.
fn accelerated_inodes<S: Stack>(host: &Host<S>) -> HashSet<u64> {
    host.sockets()
        .filter(|(_, socket)| socket.core().is_offloaded())
        .map(|(_, socket)| socket.core().kernel_socket.inode.load(Ordering::Relaxed))
        .collect()
}
