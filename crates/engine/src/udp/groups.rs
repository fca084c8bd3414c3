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
use crate::sockets::groups::Receives;
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
        let place = (link_index, self.address(group));
        let interface =
            |socket: &UdpSocket<S>| socket.attachment().groups.flows.get(&place).copied();
        if let Some(interface) = self.own.iter().find_map(|socket| interface(socket)) {
            interface.leave_group_to_kernel(place.1);
        }
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
            let addresses = attachment.groups.flows.keys().map(|(_, address)| *address);
            shared.extend(addresses.filter(&mut is_shared));
        }
    }
    for address in shared {
        follow_port(host, address, None);
    }
}
