//! Multicast past the kernel. The kernel's socket is the member of a group, and the kernel does IGMP and MLD. A group's datagrams to a port are
//! taken from the kernel while each socket that they are for, on the whole host, is an accelerated one of this process: who else
//! would have them only the kernel could serve.
//!
//! Every function here runs under the engine's control lock.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dev_core::SourceFilter;

use crate::sockets::attachment::MayOpen;
use crate::sockets::family::stays_in_host;
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
    /// The UDP sockets of all processes; `None`: the kernel does not say, or nobody else can have the port.
    users: Option<Arc<Vec<PortUser>>>,
    is_shareable: bool,
    /// Of a socket that does not count any more.
    closing_inode: u64,
}

impl<S: UdpStack> Port<S> {
    /// `only`: the group of interest, else all of them. `None`: no socket of ours on the port is a member of a group, or receives
    /// from one.
    fn look(host: &Host<S>, number: u16, only: Option<IpAddr>) -> Option<Self> {
        if number == 0 || !host.has_groups() {
            return None;
        }
        let mut own: Vec<&'static UdpSocket<S>> = Vec::new();
        let (mut has_groups, mut is_shareable) = (false, false);
        for (_, socket) in host.sockets() {
            let Some(socket) = socket.as_udp() else {
                continue;
            };
            let attachment = socket.attachment();
            let groups = &attachment.groups;
            let ip = groups.local.ip();
            let may_receive = groups.local.port() == number
                && match only {
                    Some(group) => groups.is_bound_for(group),
                    None => ip.is_unspecified() || ip.is_multicast(),
                };
            let is_new = || !own.iter().any(|other| ptr::eq(*other, socket));
            if may_receive && (attachment.descriptors < 2 || is_new()) {
                has_groups |= !groups.memberships.is_empty() || !groups.flows.is_empty();
                is_shareable |= attachment.reuses_address();
                own.push(socket);
            }
        }
        if !has_groups {
            return None;
        }
        Some(Self {
            number,
            own,
            users: is_shareable.then(|| host.recent_port_users()).flatten(),
            is_shareable,
            closing_inode: host.closing_inode(),
        })
    }

    /// The groups, by interface, that one of ours on the port is a member of.
    fn joined(&self) -> HashSet<(u32, IpAddr)> {
        let mut joined = HashSet::new();
        for socket in &self.own {
            let groups = &socket.attachment().groups;
            let memberships = groups.memberships.keys();
            joined.extend(memberships.filter(|(_, group)| groups.is_bound_for(*group)));
        }
        joined
    }

    /// The groups, by interface, that one of ours receives from past the kernel.
    fn taken(&self) -> HashSet<(u32, IpAddr)> {
        let mut taken = HashSet::new();
        for socket in &self.own {
            let groups = &socket.attachment().groups;
            taken.extend(groups.flows.keys().map(|(link, to)| (*link, to.ip())));
        }
        taken
    }

    fn address(&self, group: IpAddr) -> SocketAddr {
        SocketAddr::new(group, self.number)
    }

    /// Whether a socket that is not ours may have a group's datagrams.
    fn is_shared(&self, group: IpAddr) -> bool {
        let is_own = |user: &PortUser| {
            let is_it = |socket: &&'static UdpSocket<S>| {
                socket.shadow.inode.load(Ordering::Relaxed) == user.inode
            };
            self.own.iter().any(is_it)
        };
        let is_other = |user: &PortUser| {
            user.local.port() == self.number
                && user.inode != self.closing_inode
                && may_have(user, group)
                && !is_own(user)
        };
        self.is_shareable
            && self
                .users
                .as_ref()
                .is_none_or(|users| users.iter().any(is_other))
    }

    /// Whether all that would have a group's datagrams are sockets of ours, and nothing stands in the way of any.
    fn is_ours(&self, link_index: u32, group: IpAddr) -> bool {
        let is_open = |socket: &UdpSocket<S>| {
            let groups = &socket.attachment().groups;
            let filter = groups.memberships.get(&(link_index, group));
            filter.is_some_and(SourceFilter::is_none)
        };
        let is_able = |socket: &UdpSocket<S>| {
            let committed = socket.is_committed();
            let attachment = socket.attachment();
            if committed && attachment.groups.is_bound_for(group) {
                // What it is a member of is not followed any more.
                return false;
            }
            let receives = attachment.groups.receives(link_index, group);
            drop(attachment);
            match receives {
                Receives::No => true,
                Receives::AsMember => self.may_receive(socket, group),
                // Members in other processes, and of other ports, may let more pass than ours do.
                Receives::AsOther => {
                    self.may_receive(socket, group) && self.own.iter().any(|it| is_open(it))
                }
            }
        };
        !stays_in_host(group)
            && self.own.iter().all(|socket| is_able(socket))
            && !self.is_shared(group)
    }

    /// Whether nothing of the socket itself keeps a group with the kernel.
    fn may_receive(&self, socket: &UdpSocket<S>, group: IpAddr) -> bool {
        let attachment = socket.attachment();
        let address = self.address(group);
        let is_ruled_out = attachment
            .rules
            .is_some_and(|rules| offload::receiver_rule(rules, address).is_some());
        attachment.groups.is_able && !is_ruled_out && !attachment.groups.is_ambiguous(group)
    }

    /// Whether every socket of ours that is to have a group's datagrams from an interface is among its receivers there.
    fn is_complete(&self, link_index: u32, group: IpAddr) -> bool {
        let is_there = |socket: &UdpSocket<S>| {
            let is_offloaded = socket.is_offloaded();
            let groups = &socket.attachment().groups;
            let place = (link_index, self.address(group));
            groups.receives(link_index, group) == Receives::No
                || is_offloaded && groups.flows.contains_key(&place)
        };
        self.own.iter().all(|socket| is_there(socket))
    }

    /// Takes a group from the kernel, if that is right.
    fn take(&self, host: &Host<S>, link_index: u32, group: IpAddr) {
        if let Ok(interface) = host.links.get_for_flows(link_index)
            && self.is_ours(link_index, group)
            && self.is_complete(link_index, group)
            && interface.take_group(self.address(group))
        {
            self.own.iter().for_each(|socket| read_first(socket));
        }
    }

    /// Leaves a group to the kernel, which serves all receivers before the first of them goes, unless it is right past it.
    fn leave_unless_right(&self, link_index: u32, group: IpAddr, is_joined: bool) {
        if is_joined && self.is_ours(link_index, group) && self.is_complete(link_index, group) {
            return;
        }
        let place = (link_index, self.address(group));
        let interface =
            |socket: &UdpSocket<S>| socket.attachment().groups.flows.get(&place).copied();
        if let Some(interface) = self.own.iter().find_map(|socket| interface(socket)) {
            interface.leave_group_to_kernel(place.1);
        }
    }
}

/// Whether a socket's address lets it have datagrams to a group. What it is a member of is not to be seen.
fn may_have(user: &PortUser, group: IpAddr) -> bool {
    match (user.local.ip(), group) {
        (IpAddr::V6(ip), IpAddr::V4(group)) => {
            ip.is_unspecified() || ip.to_ipv4_mapped() == Some(group)
        }
        (ip, group) => ip == group || ip.is_unspecified() && ip.is_ipv6() == group.is_ipv6(),
    }
}

fn is_eligible(interfaces: &[InterfaceFacts], link_index: u32) -> bool {
    let is_it = |it: &&InterfaceFacts| it.spec.index == link_index;
    let link = interfaces.iter().find(is_it);
    link.is_some_and(|link| link.is_eligible() && !link.loopback)
}

/// The group that a socket with this address receives from, if it can be one only.
fn only_group(local: SocketAddr) -> Option<IpAddr> {
    Some(local.ip()).filter(IpAddr::is_multicast)
}

/// The groups, by interface, whose datagrams a socket is to have past the kernel.
pub(super) fn wanted<S: UdpStack>(
    host: &Host<S>,
    socket: &UdpSocket<S>,
    interfaces: &[InterfaceFacts],
) -> Vec<(u32, SocketAddr)> {
    let (is_able, local) = {
        let groups = &socket.attachment().groups;
        (groups.is_able, groups.local)
    };
    let look = || Port::look(host, local.port(), only_group(local));
    let Some(port) = is_able.then(look).flatten() else {
        return Vec::new();
    };
    port.joined()
        .into_iter()
        .filter(|(link_index, group)| {
            let receives = socket.attachment().groups.receives(*link_index, *group);
            receives != Receives::No
                && is_eligible(interfaces, *link_index)
                && port.is_ours(*link_index, *group)
        })
        .map(|(link_index, group)| (link_index, port.address(group)))
        .collect()
}

/// Whether another socket of ours would have the same datagrams that are for one socket only, and both are for groups: such
/// datagrams are the kernel's, which knows whom to give them.
pub(super) fn has_twin<S: UdpStack>(host: &Host<S>, socket: &UdpSocket<S>) -> bool {
    let (local, peer, versions) = {
        let groups = &socket.attachment().groups;
        (groups.local, groups.peer, groups.versions)
    };
    if peer.is_some() || !local.ip().is_unspecified() {
        return false;
    }
    let port = Port::look(host, local.port(), None);
    port.is_some_and(|port| {
        port.own.iter().any(|other| {
            let groups = &other.attachment().groups;
            !ptr::eq(*other, socket)
                && groups.peer.is_none()
                && groups.local.ip().is_unspecified()
                && groups.versions.overlap(versions)
        })
    })
}

/// Something has changed at an address that decides who receives from groups: brings the other sockets on its port in line, and then
/// takes the groups from the kernel, or leaves them to it. `changed` is in line already.
pub(crate) fn follow_port<S: UdpStack>(
    host: &Host<S>,
    local: SocketAddr,
    changed: Option<&UdpSocket<S>>,
) {
    let only = only_group(local);
    let Some(port) = Port::look(host, local.port(), only) else {
        return;
    };
    let joined = port.joined();
    let is_of_interest = |(_, group): &(u32, IpAddr)| only.is_none_or(|only| only == *group);
    let places: HashSet<_> = joined.iter().copied().chain(port.taken()).collect();
    let places: Vec<_> = places.into_iter().filter(is_of_interest).collect();
    for (link_index, group) in &places {
        let is_joined = joined.contains(&(*link_index, *group));
        port.leave_unless_right(*link_index, *group, is_joined);
    }
    // What is for one socket only is the kernel's while there are two for all addresses: the third changes nothing.
    let for_all = |socket: &&&UdpSocket<S>| socket.attachment().groups.local.ip().is_unspecified();
    let may_have_twin = only.is_none() && port.own.iter().filter(for_all).count() <= 2;
    let is_changed =
        |socket: &UdpSocket<S>| changed.is_some_and(|changed| ptr::eq(changed, socket));
    for socket in port.own.iter().filter(|socket| !is_changed(socket)) {
        if !socket.is_settled() || may_have_twin && for_all(&socket) {
            // Interfaces that are closed wait for a call that may open them.
            socket.follow_alone(host, MayOpen::No);
        }
    }
    let interfaces = host.links.facts();
    for (link_index, group) in places {
        let is_right = joined.contains(&(link_index, group))
            && is_eligible(&interfaces, link_index)
            && port.is_ours(link_index, group);
        let place = (link_index, port.address(group));
        for socket in port.own.iter().filter(|socket| !is_changed(socket)) {
            let has = socket.attachment().groups.flows.contains_key(&place);
            if !socket.is_settled() || has == is_right {
                continue;
            }
            if is_right || socket.has_more_than(place) {
                socket.follow_place(host, place, is_right);
            } else {
                socket.follow_alone(host, MayOpen::No);
            }
        }
        if is_right {
            port.take(host, link_index, group);
        }
    }
}

impl<S: UdpStack> UdpSocket<S> {
    /// The socket has become a member of a group, is one no longer, or gets what others send: brings that group in line. `false`:
    /// more may have changed than that; then nothing was done.
    pub(crate) fn follow_group(&'static self, host: &Host<S>, group: IpAddr) -> bool {
        let (is_bound_for, local) = {
            let groups = &self.attachment().groups;
            (groups.is_bound_for(group), groups.local)
        };
        if !is_bound_for {
            // It is a member for others.
            self.explain_groups();
            return self.is_settled();
        }
        let Some(port) = Port::look(host, local.port(), Some(group)) else {
            return false;
        };
        let of_group = |(_, it): &(u32, IpAddr)| *it == group;
        let joined: HashSet<_> = port.joined().into_iter().filter(of_group).collect();
        let places: HashSet<_> = joined.iter().copied().chain(port.taken()).collect();
        let places: Vec<_> = places.into_iter().filter(of_group).collect();
        let interfaces = host.links.facts();
        // With its first group other datagrams may be the kernel's, with its last it may not be accelerated any more.
        let has_others = |socket: &Self| {
            let groups = &socket.attachment().groups;
            groups
                .flows
                .keys()
                .any(|(_, address)| address.ip() != group)
        };
        let is_open = |link_index: u32| {
            !is_eligible(&interfaces, link_index) || host.links.get_for_flows(link_index).is_ok()
        };
        if !port.own.iter().all(|it| it.is_settled() && has_others(it))
            || !places.iter().all(|(link_index, _)| is_open(*link_index))
        {
            return false;
        }
        let mut is_past_kernel = true;
        for (link_index, group) in places {
            let is_joined = joined.contains(&(link_index, group));
            port.leave_unless_right(link_index, group, is_joined);
            let is_right = is_joined
                && is_eligible(&interfaces, link_index)
                && port.is_ours(link_index, group);
            for socket in &port.own {
                socket.follow_place(host, (link_index, port.address(group)), is_right);
            }
            port.take(host, link_index, group);
            is_past_kernel &= is_right || !is_joined;
        }
        self.explain_group_change(is_past_kernel);
        true
    }

    /// Whether it receives more past the kernel than a group's datagrams.
    fn has_more_than(&self, place: (u32, SocketAddr)) -> bool {
        let attachment = self.attachment();
        let mut groups = attachment.groups.flows.keys();
        !attachment.flows.is_empty() || groups.any(|other| *other != place)
    }

    /// Whether it is accelerated, and nothing but its groups may change that.
    fn is_settled(&self) -> bool {
        self.is_offloaded() && !self.is_committed() && self.attachment().groups.is_able
    }

    /// Becomes one of a group's receivers, or leaves them.
    fn follow_place(&'static self, host: &Host<S>, place: (u32, SocketAddr), is_right: bool) {
        let (link_index, address) = place;
        let (receives, receiver, had) = {
            let groups = &self.attachment().groups;
            (
                groups.receives(link_index, address.ip()),
                groups.receiver(self.into(), link_index, address.ip()),
                groups.flows.get(&place).copied(),
            )
        };
        if is_right && receives != Receives::No {
            if let Ok(interface) = host.links.get_for_flows(link_index) {
                interface.join_group(address, receiver);
                self.attachment().groups.flows.insert(place, interface);
                if had.is_none() && !self.interfaces.iter().any(|it| ptr::eq(it, interface)) {
                    self.begin_receiving(interface, address.ip());
                    self.follow_wish_for_stamps();
                    self.interfaces_changed();
                }
            }
        } else if let Some(interface) = had {
            interface.leave_group(address, self);
            self.attachment().groups.flows.remove(&place);
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
    let own: HashSet<u64> = host
        .sockets()
        .map(|(_, socket)| socket.core().shadow.inode.load(Ordering::Relaxed))
        .collect();
    let others: Option<Vec<&PortUser>> = users.map(|users| {
        let is_other = |user: &&PortUser| !own.contains(&user.inode);
        users.iter().filter(is_other).collect()
    });
    let is_shared = |address: &SocketAddr| {
        others.as_ref().is_none_or(|others| {
            others
                .iter()
                .any(|user| user.local.port() == address.port() && may_have(user, address.ip()))
        })
    };
    let mut shared = HashSet::new();
    for (_, socket) in host.sockets() {
        let attachment = socket.core().attachment();
        if attachment.reuses_address() {
            let addresses = attachment.groups.flows.keys().map(|(_, address)| *address);
            shared.extend(addresses.filter(is_shared));
        }
    }
    for address in shared {
        follow_port(host, address, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_may_have_what_its_address_lets_it() {
        for (local, group, expected) in [
            ("0.0.0.0:5", "239.1.1.1", true),
            ("239.1.1.1:5", "239.1.1.1", true),
            ("239.1.1.2:5", "239.1.1.1", false),
            ("10.0.0.1:5", "239.1.1.1", false),
            ("[::]:5", "239.1.1.1", true),
            ("[::ffff:239.1.1.1]:5", "239.1.1.1", true),
            ("[2001:db8::1]:5", "239.1.1.1", false),
            ("[::]:5", "ff05::1", true),
            ("[ff05::1]:5", "ff05::1", true),
            ("[ff05::2]:5", "ff05::1", false),
            ("0.0.0.0:5", "ff05::1", false),
            ("[2001:db8::1]:5", "ff05::1", false),
        ] {
            let user = PortUser {
                local: local.parse().unwrap(),
                peer: None,
                inode: 1,
            };
            let may_have = may_have(&user, group.parse().unwrap());
            assert_eq!(may_have, expected, "{local} {group}");
        }
    }
}
