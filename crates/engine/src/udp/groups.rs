//! Multicast past the kernel. The kernel's socket is the member of a group, and the kernel does IGMP and MLD. A group's datagrams to a port are
//! taken from the kernel while each socket that they are for, on the whole host, is an accelerated one of this process: who else
//! would have them only the kernel could serve.
//!
//! Every function here runs under the engine's control lock.

mod port;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::atomic::Ordering;

use crate::sockets::attachment::MayOpen;
use crate::sockets::groups::{Interest, Receives};
use crate::sockets::host::Host;
use crate::sockets::network::{InterfaceFacts, PortUser};
use crate::sockets::port_users::PortUsers;
use crate::sockets::stack::Stack;
use crate::sys;
use crate::udp::{UdpSocket, UdpStack};

use port::{Port, may_have};

impl<S: UdpStack> Port<S> {
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
        let address = self.address(group);
        let interface = |socket: &UdpSocket<S>| {
            let groups = &socket.attachment().groups;
            groups.flows.get(link_index, address).copied()
        };
        if let Some(interface) = self.own.iter().find_map(|socket| interface(socket)) {
            interface.leave_group_to_kernel(address);
        }
    }
}

fn is_eligible(interfaces: &[InterfaceFacts], link_index: u32) -> bool {
    let is_it = |it: &&InterfaceFacts| it.spec.index == link_index;
    let link = interfaces.iter().find(is_it);
    link.is_some_and(|link| link.is_eligible() && !link.loopback)
}

/// The groups, by interface, whose datagrams a socket is to have past the kernel.
pub(super) fn wanted<S: UdpStack>(
    host: &Host<S>,
    socket: &'static UdpSocket<S>,
    interfaces: &[InterfaceFacts],
) -> Vec<(u32, SocketAddr)> {
    let (is_able, local) = {
        let groups = &socket.attachment().groups;
        (groups.is_able, groups.local)
    };
    if !is_able || !host.has_groups() {
        return Vec::new();
    }
    let is_wanted = |port: &Port<S>, link_index: u32, group: IpAddr| {
        let receives = socket.attachment().groups.receives(link_index, group);
        receives != Receives::No
            && is_eligible(interfaces, link_index)
            && port.is_ours(link_index, group)
    };
    let groups = match socket.interest().1 {
        Interest::Groups(groups) => groups,
        Interest::All => {
            let port = Port::look(host, local.port(), None, None);
            let Some(port) = port else {
                return Vec::new();
            };
            let joined = port.joined().into_iter();
            return joined
                .filter(|(link_index, group)| is_wanted(&port, *link_index, *group))
                .map(|(link_index, group)| (link_index, port.address(group)))
                .collect();
        }
    };
    let mut wanted = Vec::new();
    for group in groups {
        if let Some(port) = Port::look(host, local.port(), Some(group), None) {
            let mut joined = port.joined_at(group);
            joined.retain(|link_index| is_wanted(&port, *link_index, group));
            wanted.extend(joined.into_iter().map(|it| (it, port.address(group))));
        }
    }
    wanted
}

/// Whether another socket of ours would have the same datagrams that are for one socket only, and both are for groups: such
/// datagrams are the kernel's, which knows whom to give them.
pub(super) fn has_twin<S: UdpStack>(host: &Host<S>, socket: &UdpSocket<S>) -> bool {
    let (local, peer, versions) = {
        let groups = &socket.attachment().groups;
        (groups.local, groups.peer, groups.versions)
    };
    if peer.is_some() || !local.ip().is_unspecified() || !host.has_groups() {
        return false;
    }
    let here = host.ports.wildcards_beside_groups(local.port()).into_iter();
    here.filter_map(UdpStack::as_udp).any(|other| {
        let groups = &other.attachment().groups;
        !ptr::eq(other, socket) && groups.peer.is_none() && groups.versions.overlap(versions)
    })
}

/// Something has changed at an address that decides who receives from groups: brings the other sockets on its port in line, and then
/// takes the groups of interest from the kernel, or leaves them to it. `changed` is in line already.
pub(crate) fn follow_port<S: UdpStack>(
    host: &Host<S>,
    local: SocketAddr,
    interest: Interest,
    changed: Option<&'static UdpSocket<S>>,
) {
    let number = local.port();
    if number == 0 || !host.has_groups() {
        return;
    }
    if local.ip().is_unspecified() {
        follow_twins(host, number, changed);
    }
    let groups = match interest {
        Interest::Groups(groups) => groups,
        Interest::All => {
            let Some(port) = Port::look(host, number, None, changed) else {
                return;
            };
            let joined: HashSet<_> = port.joined().into_iter().collect();
            let places: Vec<_> = port.taken().union(&joined).copied().collect();
            return follow_places(host, &port, &places, &joined, changed);
        }
    };
    for group in groups {
        if let Some(port) = Port::look(host, number, Some(group), changed) {
            let of_group = |link_index| (link_index, group);
            let joined: HashSet<_> = port.joined_at(group).into_iter().map(of_group).collect();
            let taken: HashSet<_> = port.taken_at(group).into_iter().map(of_group).collect();
            let places: Vec<_> = taken.union(&joined).copied().collect();
            follow_places(host, &port, &places, &joined, changed);
        }
    }
}

/// What is for one socket only is the kernel's while there are two for all addresses: the third changes nothing.
fn follow_twins<S: UdpStack>(host: &Host<S>, number: u16, changed: Option<&'static UdpSocket<S>>) {
    let twins = host.ports.wildcards_beside_groups(number);
    if twins.len() > 2 {
        return;
    }
    for socket in twins.into_iter().filter_map(UdpStack::as_udp) {
        if !changed.is_some_and(|changed| ptr::eq(changed, socket)) {
            socket.follow_alone(host, MayOpen::No);
        }
    }
}

/// `places`: those of interest, `joined` those of them that one of ours is a member of.
fn follow_places<S: UdpStack>(
    host: &Host<S>,
    port: &Port<S>,
    places: &[(u32, IpAddr)],
    joined: &HashSet<(u32, IpAddr)>,
    changed: Option<&'static UdpSocket<S>>,
) {
    for (link_index, group) in places {
        let is_joined = joined.contains(&(*link_index, *group));
        port.leave_unless_right(*link_index, *group, is_joined);
    }
    let is_changed =
        |socket: &UdpSocket<S>| changed.is_some_and(|changed| ptr::eq(changed, socket));
    for socket in port.own.iter().filter(|socket| !is_changed(socket)) {
        if !socket.is_settled() {
            // Interfaces that are closed wait for a call that may open them.
            socket.follow_alone(host, MayOpen::No);
        }
    }
    let interfaces = host.links.facts();
    for (link_index, group) in places.iter().copied() {
        let is_right = joined.contains(&(link_index, group))
            && is_eligible(&interfaces, link_index)
            && port.is_ours(link_index, group);
        let place = (link_index, port.address(group));
        for socket in port.own.iter().filter(|socket| !is_changed(socket)) {
            let has = socket.attachment().groups.flows.has(link_index, place.1);
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
        let Some(port) = Port::look(host, local.port(), Some(group), Some(self)) else {
            return false;
        };
        let joined = port.joined_at(group);
        let places: Vec<_> = port.taken_at(group).union(&joined).copied().collect();
        let interfaces = host.links.facts();
        // With its first group other datagrams may be the kernel's, with its last it may not be accelerated any more.
        let has_others = |socket: &Self| {
            let groups = &socket.attachment().groups;
            groups.flows.groups().any(|address| address.ip() != group)
        };
        let is_open = |link_index: u32| {
            !is_eligible(&interfaces, link_index) || host.links.get_for_flows(link_index).is_ok()
        };
        if !port.own.iter().all(|it| it.is_settled() && has_others(it))
            || !places.iter().all(|link_index| is_open(*link_index))
        {
            return false;
        }
        let mut is_past_kernel = true;
        for link_index in places {
            let is_joined = joined.contains(&link_index);
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
        let mut groups = attachment.groups.flows.places();
        !attachment.flows.is_empty() || groups.any(|other| other != place)
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
                groups.flows.get(link_index, address).copied(),
            )
        };
        if is_right && receives != Receives::No {
            if let Ok(interface) = host.links.get_for_flows(link_index) {
                interface.join_group(address, receiver);
                let mut attachment = self.attachment();
                attachment
                    .groups
                    .flows
                    .insert(link_index, address, interface);
                drop(attachment);
                if had.is_none() && !self.interfaces.iter().any(|it| ptr::eq(it, interface)) {
                    self.begin_receiving(interface, address.ip());
                    self.follow_wish_for_stamps();
                    self.interfaces_changed();
                }
            }
        } else if let Some(interface) = had {
            interface.leave_group(address, self);
            let groups = &mut self.attachment().groups;
            groups.flows.remove(link_index, address);
        }
    }
}

/// What came before a group was taken from the kernel is in the queue of the kernel's socket, and is to be read first.
fn read_first<S: Stack>(socket: &UdpSocket<S>) {
    if sys::poll_one(socket.fd(), libc::POLLIN).is_ok_and(|ready| ready != 0) {
        socket.shadow.readable_hint.store(true, Ordering::Relaxed);
    }
}

/// Leaves to the kernel the groups that another process has come to receive from, too.
pub(super) fn look_after<S: UdpStack>(host: &Host<S>, users: Option<&PortUsers>) {
    if !host.has_groups() {
        return;
    }
    let own: HashSet<u64> = host
        .sockets()
        .map(|(_, socket)| socket.core().shadow.inode.load(Ordering::Relaxed))
        .collect();
    let mut others: HashMap<u16, Vec<&PortUser>> = HashMap::new();
    let mut is_shared = |address: &SocketAddr| {
        users.is_none_or(|users| {
            let port = address.port();
            let is_other = |user: &&PortUser| !own.contains(&user.inode);
            let find = || users.of(port).iter().filter(is_other).collect();
            let others = others.entry(port).or_insert_with(find);
            others.iter().any(|user| may_have(user, address.ip()))
        })
    };
    let mut shared = HashSet::new();
    for (_, socket) in host.sockets() {
        let attachment = socket.core().attachment();
        if attachment.reuses_address() {
            shared.extend(attachment.groups.flows.groups().filter(&mut is_shared));
        }
    }
    for address in shared {
        follow_port(host, address, Interest::Groups(vec![address.ip()]), None);
    }
}
