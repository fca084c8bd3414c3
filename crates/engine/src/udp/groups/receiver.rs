//! A socket among the receivers of groups: in a place of its own in one, or among those who receive
//! from every group of a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;

use links::groups::AnyFlow;
use links::interface::Interface;

use crate::sockets::host::Host;
use crate::udp::groups::port::Port;
use crate::udp::groups::{between, is_eligible};
use crate::udp::socket::{UdpSocket, UdpStack};

impl<S: UdpStack> UdpSocket<S> {
    /// The socket has become a member of a group, is one no longer, or gets what others send:
    /// brings that group in line. `false`: more may have changed than that; then nothing was done.
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
        let number = local.port();
        let Some(port) = Port::look(host, number, Some(self)) else {
            return false;
        };
        let interfaces = host.links.facts();
        let now = port.state(host, &interfaces);
        let known = host.ports.state(number);
        if between(now.as_ref(), known.as_ref(), false).is_none_or(|it| !it.is_empty()) {
            return false;
        }
        let group = port.group(host, group);
        let (ip, is_v6) = (group.ip, group.ip.is_ipv6());
        let joined = group.joined();
        let places: Vec<_> = group
            .taken(host, &interfaces)
            .union(&joined)
            .copied()
            .collect();
        // With its first group other datagrams may be the kernel's, with its last it may not be
        // accelerated any more.
        let is_open = |link_index: u32| {
            let Ok(interface) = host.links.get_for_flows(link_index) else {
                return !is_eligible(&interfaces, link_index);
            };
            let own = usize::from(interface.is_group_steered(group.address));
            let has_others = interface.steered_count((number, is_v6)) > own;
            port.has_all_inside(link_index, is_v6)
                && (has_others || port.inside_count(link_index, is_v6) == 0)
        };
        if !self.is_settled()
            || !group
                .sockets
                .iter()
                .all(|it| it.is_settled() && it.has_other_than(group.address))
            || !places.iter().all(|link_index| is_open(*link_index))
        {
            return false;
        }
        let mut is_past_kernel = true;
        for link_index in places {
            let is_joined = joined.contains(&link_index);
            group.leave_unless_right(host, link_index, is_joined);
            let is_right =
                is_joined && is_eligible(&interfaces, link_index) && group.is_ours(link_index);
            for socket in &group.sockets {
                socket.follow_place(host, (link_index, SocketAddr::new(ip, number)), is_right);
            }
            group.take(host, link_index);
            is_past_kernel &= is_right || !is_joined;
        }
        host.ports.set_state(number, port.state(host, &interfaces));
        self.explain_group_change(is_past_kernel);
        true
    }

    /// Whether it receives from a group beside this one.
    fn has_other_than(&self, address: SocketAddr) -> bool {
        let (has_place, any) = {
            let groups = &self.attachment().groups;
            let mut places = groups.flows.groups();
            (places.any(|other| other != address), groups.any.clone())
        };
        let has_other = |it: &AnyFlow<S>| {
            let is_here = it.port.1 == address.is_ipv6();
            let own = is_here && it.interface.is_group_steered(address);
            it.interface.steered_count(it.port) > usize::from(own)
        };
        has_place || any.iter().any(has_other)
    }

    /// Whether it receives more past the kernel than a group's datagrams.
    pub(super) fn has_more_than(&self, place: (u32, SocketAddr)) -> bool {
        let attachment = self.attachment();
        let mut groups = attachment.groups.flows.places();
        !attachment.flows.is_empty()
            || !attachment.groups.any.is_empty()
            || groups.any(|other| other != place)
    }

    /// Whether it is accelerated, and nothing but its groups may change that.
    pub(super) fn is_settled(&self) -> bool {
        self.is_offloaded() && !self.is_committed() && self.attachment().groups.is_able
    }

    /// Whether it is to get a place of its own in a group, or to lose it. `is_right`: the group is
    /// to come past the kernel.
    pub(super) fn differs(&self, (link_index, address): (u32, SocketAddr), is_right: bool) -> bool {
        let groups = &self.attachment().groups;
        let is_due = is_right && groups.needs_place(link_index, address.ip());
        is_due != groups.flows.has(link_index, address)
    }

    /// Becomes one of a group's receivers, or leaves them.
    pub(super) fn follow_place(
        &'static self,
        host: &Host<S>,
        place: (u32, SocketAddr),
        is_right: bool,
    ) {
        let (link_index, address) = place;
        let (is_due, receiver, had) = {
            let groups = &self.attachment().groups;
            let ip = address.ip();
            (
                is_right && groups.needs_place(link_index, ip),
                groups.receiver(self.into(), link_index, ip),
                groups.flows.get(link_index, address).copied(),
            )
        };
        if is_due {
            if let Ok(interface) = host.links.get_for_flows(link_index) {
                interface.join_group(address, receiver);
                let mut attachment = self.attachment();
                attachment
                    .groups
                    .flows
                    .insert(link_index, address, interface);
                drop(attachment);
                if had.is_none() {
                    self.receives_by(interface, address.ip());
                }
            }
        } else if let Some(interface) = had {
            interface.leave_group(address, self.identity());
            let groups = &mut self.attachment().groups;
            groups.flows.remove(link_index, address);
        }
    }

    /// Becomes one of those who receive from every group that comes in on an interface, if it is
    /// for them.
    pub(super) fn join_any(&'static self, host: &Host<S>, (link_index, is_v6): (u32, bool)) {
        let is_due = {
            let groups = &self.attachment().groups;
            groups.takes_any(link_index, is_v6) && !groups.is_in_any(link_index, is_v6)
        };
        if is_due && let Ok(interface) = host.links.get_for_flows(link_index) {
            let it = self.begin_any(interface, is_v6);
            self.attachment().groups.any.push(it);
            self.receives_by(interface, any_address(is_v6));
        }
    }

    /// The same, or what it gets so has changed.
    pub(in crate::udp) fn begin_any(
        &'static self,
        interface: &'static Interface<S>,
        is_v6: bool,
    ) -> AnyFlow<S> {
        let (port, receiver, except) = {
            let groups = &self.attachment().groups;
            let own = groups.flows.places();
            let link_index = interface.spec().index;
            let port = (groups.local.port(), is_v6);
            let is_here = |(link, address): &(u32, SocketAddr)| {
                *link == link_index && (address.port(), address.is_ipv6()) == port
            };
            let here = own.filter(is_here);
            (
                port,
                groups.any_receiver(self.into()),
                here.map(|it| it.1.ip()).collect(),
            )
        };
        interface.join_any(port, receiver, except);
        AnyFlow { port, interface }
    }

    fn receives_by(&self, interface: &'static Interface<S>, local: IpAddr) {
        if !self.interfaces.iter().any(|it| ptr::eq(it, interface)) {
            self.begin_receiving(interface, local);
            self.follow_wish_for_stamps();
            self.interfaces_changed();
        }
    }
}

/// Any address of a version.
pub(in crate::udp) fn any_address(is_v6: bool) -> IpAddr {
    if is_v6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}
