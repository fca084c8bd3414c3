//! Multicast past the kernel. The kernel's socket is the member of a group, and the kernel does
//! IGMP and MLD. A group's datagrams to a port are taken from the kernel while each socket that
//! they are for, on the whole host, is an accelerated one of this process: who else would have them
//! only the kernel could serve.
//!
//! Every function here runs under the engine's control lock.

mod port;
mod receiver;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::atomic::Ordering;

use links::groups::Interest;
use links::network::{InterfaceFacts, PortUser};

use crate::sockets::host::Host;
use crate::sockets::port_users::PortUsers;
use crate::sockets::ports::PortState;
use crate::sockets::stack::{MayOpen, Stack};
use crate::udp::socket::{UdpSocket, UdpStack};

use port::{Group, Port, may_have};
pub(super) use receiver::any_address;

impl<S: UdpStack> Group<'_, S> {
    /// Takes the group from the kernel, if that is right.
    fn take(&self, host: &Host<S>, link_index: u32) {
        if let Ok(interface) = host.links.get_for_flows(link_index)
            && !interface.is_group_steered(self.address)
            && self.is_ours(link_index)
            && self.is_complete(link_index)
            && interface.take_group(self.address)
        {
            self.sockets.iter().for_each(|socket| read_first(socket));
            // Of thousands each is not asked: the next call that receives does that.
            for socket in self.others_of_any() {
                socket
                    .kernel_socket
                    .readable_hint
                    .store(true, Ordering::Relaxed);
            }
        }
    }

    /// Leaves the group to the kernel, which serves all receivers before the first of them goes,
    /// unless it is right past it.
    fn leave_unless_right(&self, host: &Host<S>, link_index: u32, is_joined: bool) {
        if is_joined && self.is_ours(link_index) && self.is_complete(link_index) {
            return;
        }
        let interface = |socket: &UdpSocket<S>| {
            let groups = &socket.attachment().groups;
            groups.flows.get(link_index, self.address).copied()
        };
        let known = host.links.get_for_flows(link_index).ok();
        let known = known.or_else(|| self.sockets.iter().find_map(|socket| interface(socket)));
        if let Some(interface) = known {
            interface.leave_group_to_kernel(self.address);
        }
    }
}

fn is_eligible(interfaces: &[InterfaceFacts], link_index: u32) -> bool {
    let is_it = |it: &&InterfaceFacts| it.spec.index == link_index;
    let link = interfaces.iter().find(is_it);
    link.is_some_and(port::is_eligible)
}

/// What a socket is to have past the kernel of groups.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The groups, by interface, in which it has a place of its own.
    pub(super) places: Vec<(u32, SocketAddr)>,
    /// The interfaces and versions of which it is to have every group.
    pub(super) any: Vec<(u32, bool)>,
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.any.is_empty()
    }

    /// The interfaces by which it comes.
    pub(super) fn links(&self) -> impl Iterator<Item = u32> + '_ {
        let places = self.places.iter().map(|it| it.0);
        places.chain(self.any.iter().map(|it| it.0))
    }
}

/// What of groups a socket is to have past the kernel.
pub(super) fn wanted<S: UdpStack>(
    host: &Host<S>,
    socket: &'static UdpSocket<S>,
    interfaces: &[InterfaceFacts],
) -> Wanted {
    let mut wanted = Wanted::default();
    let (is_able, local) = {
        let groups = &socket.attachment().groups;
        (groups.is_able, groups.local)
    };
    if !is_able || !host.has_groups() {
        return wanted;
    }
    let Some(port) = Port::look(host, local.port(), Some(socket)) else {
        return wanted;
    };
    let own = socket.interest().1.groups;
    for ip in &own {
        let group = port.group(host, *ip);
        let is_wanted = |link_index: &u32| {
            let needs_place = socket.attachment().groups.needs_place(*link_index, *ip);
            needs_place && is_eligible(interfaces, *link_index) && group.is_ours(*link_index)
        };
        let joined = group.joined().into_iter().filter(is_wanted);
        wanted.places.extend(joined.map(|it| (it, group.address)));
    }
    for link in interfaces.iter().filter(|it| port::is_eligible(it)) {
        for is_v6 in [false, true] {
            let place = (link.spec.index, is_v6);
            let is_for_it = socket.attachment().groups.takes_any(place.0, is_v6);
            if is_for_it && port.has_ours(host, place, &own) {
                wanted.any.push(place);
            }
        }
    }
    wanted
}

/// Whether another socket of ours would have the same datagrams that are for one socket only, and
/// both are for groups: such datagrams are the kernel's, which knows whom to give them.
pub(super) fn has_twin<S: UdpStack>(host: &Host<S>, socket: &UdpSocket<S>) -> bool {
    let (local, peer, versions) = {
        let groups = &socket.attachment().groups;
        (groups.local, groups.peer, groups.versions)
    };
    if peer.is_some() || !local.ip().is_unspecified() || !host.has_groups() {
        return false;
    }
    let is_twin = |other: &'static UdpSocket<S>| {
        let groups = &other.attachment().groups;
        !ptr::eq(other, socket) && groups.peer.is_none() && groups.versions.overlap(versions)
    };
    let has_twin = |most| {
        let here = host.ports.wildcards_beside_groups(local.port(), most);
        here.into_iter().filter_map(UdpStack::as_udp).any(is_twin)
    };
    // Of thousands one of the first is one, mostly.
    has_twin(TWINS_FIRST) || has_twin(usize::MAX)
}

const TWINS_FIRST: usize = 8;

/// Something has changed at an address that decides who receives from groups: brings the other
/// sockets on its port in line, and then takes the groups of interest from the kernel, or leaves
/// them to it. `changed` is in line already.
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
    let mut groups = interest.groups;
    if interest.all {
        groups.extend(host.ports.filtered_groups(number));
    }
    let interfaces = host.links.facts();
    let mut is_sweep = false;
    for _ in 0..SWEEPS_MAX {
        let Some(port) = Port::look(host, number, changed) else {
            return host.ports.set_state(number, None);
        };
        let before = port.state(host, &interfaces);
        match between(before.as_ref(), host.ports.state(number).as_ref(), false) {
            Some(more) => groups.extend(more),
            None => is_sweep = true,
        }
        if is_sweep {
            groups.extend(port.groups(host, &interfaces));
        }
        groups.sort_unstable();
        groups.dedup();
        if groups.is_empty() && before.is_none() {
            return;
        }
        follow_groups(host, &port, &groups, &interfaces, is_sweep);
        if before.is_none() && !is_sweep {
            return;
        }
        let now = Port::look(host, number, changed);
        let now = now.and_then(|port| {
            leave_idle(host, &port, &interfaces);
            port.state(host, &interfaces)
        });
        let is_like = between(now.as_ref(), before.as_ref(), true).is_some();
        host.ports.set_state(number, now);
        if is_like {
            return;
        }
        // What was right for each group may not be any more.
        is_sweep = true;
    }
    host.ports.set_state(number, None);
}

/// The groups that have to be looked at because a port is in one state, and was in another; `None`:
/// all.
fn between(
    now: Option<&PortState>,
    before: Option<&PortState>,
    but_steered: bool,
) -> Option<Vec<IpAddr>> {
    match (now, before) {
        (Some(now), Some(before)) => now.groups_between(before, but_steered),
        (None, None) => Some(Vec::new()),
        _ => None,
    }
}

/// Sockets that come to be accelerated, or are not any more, because of a change can change what is
/// right for other groups once.
const SWEEPS_MAX: usize = 3;

/// What is for one socket only is the kernel's while there are two for all addresses: the third
/// changes nothing.
fn follow_twins<S: UdpStack>(host: &Host<S>, number: u16, changed: Option<&'static UdpSocket<S>>) {
    let twins = host.ports.wildcards_beside_groups(number, 3);
    if twins.len() > 2 {
        return;
    }
    for socket in twins.into_iter().filter_map(UdpStack::as_udp) {
        if !changed.is_some_and(|changed| ptr::eq(changed, socket)) {
            socket.follow_alone(host, MayOpen::No);
        }
    }
}

/// Brings some groups of a port in line, and the sockets that have to do with them. `is_sweep`: all
/// of them.
fn follow_groups<S: UdpStack>(
    host: &Host<S>,
    port: &Port<S>,
    groups: &[IpAddr],
    interfaces: &[InterfaceFacts],
    is_sweep: bool,
) {
    let is_changed = |socket: &UdpSocket<S>| port.changed.is_some_and(|it| ptr::eq(it, socket));
    let mut unsettled: Vec<&'static UdpSocket<S>> = Vec::new();
    // Where every group that comes in is to be had past the kernel.
    let mut places_of_any = HashSet::new();
    for ip in groups {
        let group = port.group(host, *ip);
        let joined = group.joined();
        for link_index in group.taken(host, interfaces).union(&joined).copied() {
            let is_joined = joined.contains(&link_index);
            group.leave_unless_right(host, link_index, is_joined);
            let place = (link_index, ip.is_ipv6());
            if is_joined
                && !places_of_any.contains(&place)
                && !port.has_all_inside(place.0, place.1)
                && is_eligible(interfaces, link_index)
                && group.is_ours(link_index)
            {
                places_of_any.insert(place);
            }
        }
        let others = group.sockets.iter().filter(|it| !it.is_settled());
        unsettled.extend(others);
    }
    if is_sweep || !places_of_any.is_empty() {
        unsettled.extend(port.of_any.iter().filter(|it| !it.is_settled()));
    }
    let is_followed = !unsettled.is_empty() || !places_of_any.is_empty();
    let mut seen = HashSet::new();
    for socket in unsettled {
        if !is_changed(socket) && seen.insert(socket.number()) {
            // Interfaces that are closed wait for a call that may open them.
            socket.follow_alone(host, MayOpen::No);
        }
    }
    for place in places_of_any {
        let settled = port.of_any.iter().filter(|it| it.is_settled());
        settled.for_each(|socket| socket.join_any(host, place));
    }
    let now = if is_followed {
        Port::look(host, port.number, port.changed)
    } else {
        None
    };
    let port = now.as_ref().unwrap_or(port);
    for ip in groups {
        let group = port.group(host, *ip);
        let joined = group.joined();
        for link_index in group.taken(host, interfaces).union(&joined).copied() {
            let is_right = joined.contains(&link_index)
                && is_eligible(interfaces, link_index)
                && group.is_ours(link_index);
            let place = (link_index, group.address);
            for socket in group.sockets.iter().filter(|it| !is_changed(it)) {
                if !socket.is_settled() || !socket.differs(place, is_right) {
                    continue;
                }
                if is_right || socket.has_more_than(place) {
                    socket.follow_place(host, place, is_right);
                } else {
                    socket.follow_alone(host, MayOpen::No);
                }
            }
            if is_right {
                group.take(host, link_index);
            }
            for socket in &group.sockets {
                socket.explain_group_change(is_right);
            }
        }
    }
}

/// Where no group comes past the kernel any more, nobody receives from every one.
fn leave_idle<S: UdpStack>(host: &Host<S>, port: &Port<S>, interfaces: &[InterfaceFacts]) {
    for link in interfaces {
        for is_v6 in [false, true] {
            let index = link.spec.index;
            if port.inside_count(index, is_v6) == 0 {
                continue;
            }
            let interface = host.links.get_for_flows(index);
            let is_idle = interface.is_ok_and(|it| it.steered_count((port.number, is_v6)) == 0)
                && !port.has_ours(host, (index, is_v6), &[]);
            for socket in port.of_any.iter().filter(|_| is_idle) {
                if socket.attachment().groups.is_in_any(index, is_v6) {
                    socket.follow_alone(host, MayOpen::No);
                }
            }
        }
    }
}

/// What came before a group was taken from the kernel is in the queue of the kernel's socket, and
/// is to be read first.
fn read_first<S: Stack>(socket: &UdpSocket<S>) {
    if sys::poll_one(socket.fd(), libc::POLLIN).is_ok_and(|ready| ready != 0) {
        socket
            .kernel_socket
            .readable_hint
            .store(true, Ordering::Relaxed);
    }
}

/// Leaves to the kernel the groups that another process has come to receive from, too.
pub(super) fn look_after<S: UdpStack>(host: &Host<S>, users: Option<&PortUsers>) {
    if !host.has_groups() {
        return;
    }
    let own: HashSet<u64> = host
        .sockets()
        .map(|(_, socket)| socket.core().kernel_socket.inode.load(Ordering::Relaxed))
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
    let mut places_of_any = HashMap::new();
    for (_, socket) in host.sockets() {
        let attachment = socket.core().attachment();
        if attachment.reuses_address() {
            let groups = &attachment.groups;
            shared.extend(groups.flows.groups().filter(&mut is_shared));
            for it in &groups.any {
                let place = (it.port, it.interface.spec().index);
                places_of_any.insert(place, it.interface);
            }
        }
    }
    for ((port, _), interface) in places_of_any {
        let groups = interface.steered_groups(port).into_iter();
        let addresses = groups.map(|ip| SocketAddr::new(ip, port.0));
        shared.extend(addresses.filter(&mut is_shared));
    }
    for address in shared {
        follow_port(host, address, Interest::of(vec![address.ip()]), None);
    }
}
