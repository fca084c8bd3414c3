//! Multicast past the kernel. The kernel's socket is the member of a group, and the kernel does IGMP. A group's datagrams to a port are
//! taken from the kernel while each socket that they are for, on the whole host, is an accelerated one of this process: who else
//! would have them only the kernel could serve.
//!
//! Every function here runs under the engine's control lock.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::ptr;
use std::sync::atomic::Ordering;

use crate::sockets::attachment::MayOpen;
use crate::sockets::groups::Receives;
use crate::sockets::host::Host;
use crate::sockets::network::{InterfaceFacts, PortUser};
use crate::sockets::offload;
use crate::sockets::stack::Stack;
use crate::sys;
use crate::udp::{UdpSocket, UdpStack};

/// The sockets that may have datagrams to a port's groups: ours, and those of others.
struct Port<S: Stack> {
    number: u16,
    own: Vec<&'static UdpSocket<S>>,
    /// `None`: the kernel does not say.
    others: Option<Vec<PortUser>>,
}

impl<S: UdpStack> Port<S> {
    /// `None`: no socket of ours on the port is a member of a group, or receives from one.
    fn look(host: &Host<S>, number: u16) -> Option<Self> {
        if number == 0 || !host.has_groups() {
            return None;
        }
        let mut own: Vec<&'static UdpSocket<S>> = Vec::new();
        for (_, socket) in host.sockets() {
            let Some(socket) = socket.as_udp() else {
                continue;
            };
            let may_receive = {
                let groups = &socket.attachment().groups;
                let ip = groups.local.ip();
                groups.local.port() == number && (ip.is_unspecified() || ip.is_multicast())
            };
            if may_receive && !own.iter().any(|other| ptr::eq(*other, socket)) {
                own.push(socket);
            }
        }
        let has_groups = |socket: &&UdpSocket<S>| {
            let groups = &socket.attachment().groups;
            !groups.memberships.is_empty() || !groups.flows.is_empty()
        };
        if !own.iter().any(has_groups) {
            return None;
        }
        let is_shareable = own
            .iter()
            .any(|socket| socket.attachment().reuses_address());
        let others = if is_shareable {
            others(host, number)
        } else {
            Some(Vec::new())
        };
        Some(Self {
            number,
            own,
            others,
        })
    }

    /// The groups, by interface, that one of ours on the port is a member of.
    fn joined(&self) -> HashSet<(u32, Ipv4Addr)> {
        let mut joined = HashSet::new();
        for socket in &self.own {
            let groups = &socket.attachment().groups;
            let memberships = groups.memberships.keys();
            joined.extend(memberships.filter(|(_, group)| groups.is_bound_for(*group)));
        }
        joined
    }

    fn address(&self, group: Ipv4Addr) -> SocketAddrV4 {
        SocketAddrV4::new(group, self.number)
    }

    /// Whether all that would have a group's datagrams are sockets of ours, and nothing stands in the way of any.
    fn is_ours(&self, link_index: u32, group: Ipv4Addr) -> bool {
        let is_able = |socket: &&UdpSocket<S>| {
            let committed = socket.is_committed();
            let attachment = socket.attachment();
            if committed && attachment.groups.is_bound_for(group) {
                // What it is a member of is not followed any more.
                return false;
            }
            match attachment.groups.receives(link_index, group) {
                Receives::No => true,
                Receives::Some => false,
                Receives::Yes => {
                    let address = self.address(group);
                    let is_ruled_out = attachment
                        .rules
                        .is_some_and(|rules| offload::receiver_rule(rules, address).is_some());
                    attachment.groups.is_able && !is_ruled_out
                }
            }
        };
        let is_shared = self
            .others
            .as_ref()
            .is_none_or(|others| others.iter().any(|other| may_have(other, group)));
        !is_shared && self.own.iter().all(is_able)
    }

    /// Whether every socket of ours that is to have a group's datagrams from an interface is among its receivers there.
    fn is_complete(&self, link_index: u32, group: Ipv4Addr) -> bool {
        let is_there = |socket: &&UdpSocket<S>| {
            let is_offloaded = socket.is_offloaded();
            let groups = &socket.attachment().groups;
            let place = (link_index, self.address(group));
            groups.receives(link_index, group) != Receives::Yes
                || is_offloaded && groups.flows.contains_key(&place)
        };
        self.own.iter().all(is_there)
    }
}

/// The sockets on a port that are not in the table.
fn others<S: UdpStack>(host: &Host<S>, port: u16) -> Option<Vec<PortUser>> {
    let own = own_inodes(host);
    let mut users = host.port_users(Some(port))?;
    users.retain(|user| !own.contains(&user.inode));
    Some(users)
}

fn own_inodes<S: Stack>(host: &Host<S>) -> HashSet<u64> {
    let inode = |socket: S| socket.core().shadow.inode.load(Ordering::Relaxed);
    host.sockets().map(|(_, socket)| inode(socket)).collect()
}

/// Whether a socket's address lets it have datagrams to a group. What it is a member of is not to be seen.
fn may_have(user: &PortUser, group: Ipv4Addr) -> bool {
    match user.local.ip() {
        IpAddr::V4(ip) => ip.is_unspecified() || ip == group,
        IpAddr::V6(ip) => ip.is_unspecified() || ip.to_ipv4_mapped() == Some(group),
    }
}

/// The groups, by interface, whose datagrams a socket is to have past the kernel.
pub(super) fn wanted<S: UdpStack>(
    host: &Host<S>,
    socket: &UdpSocket<S>,
    interfaces: &[InterfaceFacts],
) -> Vec<(u32, SocketAddrV4)> {
    let (is_able, local) = {
        let groups = &socket.attachment().groups;
        (groups.is_able, groups.local)
    };
    let Some(port) = is_able.then(|| Port::look(host, local.port())).flatten() else {
        return Vec::new();
    };
    let is_eligible = |link_index: u32| {
        let is_it = |it: &&InterfaceFacts| it.spec.index == link_index;
        let link = interfaces.iter().find(is_it);
        link.is_some_and(|link| link.eligible && !link.loopback)
    };
    port.joined()
        .into_iter()
        .filter(|(link_index, group)| {
            let receives = socket.attachment().groups.receives(*link_index, *group);
            receives == Receives::Yes
                && is_eligible(*link_index)
                && port.is_ours(*link_index, *group)
        })
        .map(|(link_index, group)| (link_index, port.address(group)))
        .collect()
}

/// Whether another socket of ours would have the same datagrams that are for one socket only, and both are for groups: such
/// datagrams are the kernel's, which knows whom to give them.
pub(super) fn has_twin<S: UdpStack>(host: &Host<S>, socket: &UdpSocket<S>) -> bool {
    let (local, peer) = {
        let groups = &socket.attachment().groups;
        (groups.local, groups.peer)
    };
    if peer.is_some() || !local.ip().is_unspecified() {
        return false;
    }
    let port = Port::look(host, local.port());
    port.is_some_and(|port| {
        port.own.iter().any(|other| {
            let groups = &other.attachment().groups;
            !ptr::eq(*other, socket) && groups.peer.is_none() && groups.local == local
        })
    })
}

/// Something has changed that decides who receives from a port's groups: brings the other sockets on the port in line, and then takes
/// the groups from the kernel, or leaves them to it. `changed` is in line already.
pub(crate) fn follow_port<S: UdpStack>(
    host: &Host<S>,
    number: u16,
    changed: Option<&UdpSocket<S>>,
) {
    let Some(port) = Port::look(host, number) else {
        return;
    };
    // The kernel serves all receivers before the first of them goes.
    let joined = port.joined();
    for socket in &port.own {
        let flows = socket.attachment().groups.flows.clone();
        for ((link_index, address), interface) in flows {
            let group = *address.ip();
            if !joined.contains(&(link_index, group))
                || !port.is_ours(link_index, group)
                || !port.is_complete(link_index, group)
            {
                interface.leave_group_to_kernel(address);
            }
        }
    }
    let others = port.own.iter().filter(|socket| {
        let is_changed = changed.is_some_and(|changed| ptr::eq(changed, **socket));
        !is_changed && (port.own.len() > 1 || changed.is_none())
    });
    for socket in others {
        // Interfaces that are closed wait for a call that may open them.
        socket.follow_alone(host, MayOpen::No);
    }
    for (link_index, group) in joined {
        if let Ok(interface) = host.links.get_for_flows(link_index)
            && port.is_ours(link_index, group)
            && port.is_complete(link_index, group)
            && interface.take_group(port.address(group))
        {
            port.own.iter().for_each(|socket| read_first(socket));
        }
    }
}

/// What came before a group was taken from the kernel is in the queue of the kernel's socket, and is to be read first.
fn read_first<S: Stack>(socket: &UdpSocket<S>) {
    let mut fds = [libc::pollfd {
        fd: socket.fd(),
        events: libc::POLLIN,
        revents: 0,
    }];
    if sys::poll_now(&mut fds).is_ok_and(|count| count > 0) {
        socket.shadow.readable_hint.store(true, Ordering::Relaxed);
    }
}

/// Leaves to the kernel the groups that another process has come to receive from, too.
pub(super) fn look_after<S: UdpStack>(host: &Host<S>, users: Option<&[PortUser]>) {
    if !host.has_groups() {
        return;
    }
    let own = own_inodes(host);
    let is_shared = |address: &SocketAddrV4| {
        users.is_none_or(|users| {
            users.iter().any(|user| {
                user.local.port() == address.port()
                    && !own.contains(&user.inode)
                    && may_have(user, *address.ip())
            })
        })
    };
    let mut ports = HashSet::new();
    for (_, socket) in host.sockets() {
        let attachment = socket.core().attachment();
        if attachment.reuses_address() {
            let addresses = attachment.groups.flows.keys().map(|(_, address)| address);
            let shared = addresses.filter(|address| is_shared(address));
            ports.extend(shared.map(|address| address.port()));
        }
    }
    for port in ports {
        follow_port(host, port, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_may_have_what_its_address_lets_it() {
        let group = Ipv4Addr::new(239, 1, 1, 1);
        for (local, expected) in [
            ("0.0.0.0:5", true),
            ("239.1.1.1:5", true),
            ("239.1.1.2:5", false),
            ("10.0.0.1:5", false),
            ("[::]:5", true),
            ("[::ffff:239.1.1.1]:5", true),
            ("[2001:db8::1]:5", false),
        ] {
            let user = PortUser {
                local: local.parse().unwrap(),
                peer: None,
                inode: 1,
            };
            assert_eq!(may_have(&user, group), expected, "{local}");
        }
    }
}
