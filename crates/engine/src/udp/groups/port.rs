//! Who may have the datagrams to the groups of one port: whether they are all ours, and nothing stands in the way of any.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::Arc;

use dev_core::SourceFilter;

use crate::sockets::family::stays_in_host;
use crate::sockets::groups::Receives;
use crate::sockets::host::Host;
use crate::sockets::network::PortUser;
use crate::sockets::offload;
use crate::sockets::stack::Stack;
use crate::udp::{UdpSocket, UdpStack};

/// The sockets that may have datagrams to a port's groups: ours, and those of others.
pub(super) struct Port<S: Stack> {
    number: u16,
    pub(super) own: Vec<&'static UdpSocket<S>>,
    /// Sockets on the port that are not ours; `None`: the kernel does not say.
    others: Option<Arc<[PortUser]>>,
}

impl<S: UdpStack> Port<S> {
    /// `only`: the group of interest, else all of them. `changed` is looked at whatever it is now. `None`: no socket of ours on the port
    /// is a member of a group, or receives from one.
    pub(super) fn look(
        host: &Host<S>,
        number: u16,
        only: Option<IpAddr>,
        changed: Option<&'static UdpSocket<S>>,
    ) -> Option<Self> {
        if number == 0 || !host.has_groups() {
            return None;
        }
        let mut own: Vec<&'static UdpSocket<S>> = Vec::new();
        let (mut has_groups, mut is_shareable) = (false, false);
        let here = host.ports.of(number, only).into_iter();
        let here = here.filter_map(UdpStack::as_udp);
        let is_new = |socket: &&UdpSocket<S>| !changed.is_some_and(|it| ptr::eq(it, *socket));
        for socket in here.filter(is_new).chain(changed) {
            let attachment = socket.attachment();
            let groups = &attachment.groups;
            if groups.local.port() == number && only.is_none_or(|group| groups.is_bound_for(group))
            {
                has_groups |= !groups.memberships.is_empty() || !groups.flows.is_empty();
                is_shareable |= attachment.reuses_address();
                own.push(socket);
            }
        }
        if !has_groups {
            return None;
        }
        let others = if is_shareable {
            host.others_at(number)
        } else {
            Some(Arc::default())
        };
        Some(Self {
            number,
            own,
            others,
        })
    }

    /// The groups, by interface, that one of ours on the port is a member of.
    pub(super) fn joined(&self) -> HashSet<(u32, IpAddr)> {
        let mut joined = HashSet::new();
        for socket in &self.own {
            let groups = &socket.attachment().groups;
            let memberships = groups.memberships.places();
            joined.extend(memberships.filter(|(_, group)| groups.is_bound_for(*group)));
        }
        joined
    }

    /// The interfaces on which one of ours is a member of a group.
    pub(super) fn joined_at(&self, group: IpAddr) -> HashSet<u32> {
        let mut joined = HashSet::new();
        for socket in &self.own {
            let groups = &socket.attachment().groups;
            if groups.is_bound_for(group) {
                joined.extend(groups.memberships.of(group).iter().map(|it| it.0));
            }
        }
        joined
    }

    /// The groups, by interface, that one of ours receives from past the kernel.
    pub(super) fn taken(&self) -> HashSet<(u32, IpAddr)> {
        let mut taken = HashSet::new();
        for socket in &self.own {
            let groups = &socket.attachment().groups;
            taken.extend(groups.flows.places().map(|(link, to)| (link, to.ip())));
        }
        taken
    }

    /// The interfaces from which one of ours receives a group past the kernel.
    pub(super) fn taken_at(&self, group: IpAddr) -> HashSet<u32> {
        let address = self.address(group);
        let mut taken = HashSet::new();
        for socket in &self.own {
            let groups = &socket.attachment().groups;
            taken.extend(groups.flows.of(address).iter().map(|it| it.0));
        }
        taken
    }

    pub(super) fn address(&self, group: IpAddr) -> SocketAddr {
        SocketAddr::new(group, self.number)
    }

    /// Whether a socket that is not ours may have a group's datagrams.
    fn is_shared(&self, group: IpAddr) -> bool {
        self.others
            .as_ref()
            .is_none_or(|others| others.iter().any(|user| may_have(user, group)))
    }

    /// Whether all that would have a group's datagrams are sockets of ours, and nothing stands in the way of any.
    pub(super) fn is_ours(&self, link_index: u32, group: IpAddr) -> bool {
        let is_open = |socket: &UdpSocket<S>| {
            let groups = &socket.attachment().groups;
            let filter = groups.memberships.get(link_index, group);
            filter.is_some_and(SourceFilter::is_none)
        };
        let any_is_open = OnceCell::new();
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
                    let look = || self.own.iter().any(|it| is_open(it));
                    self.may_receive(socket, group) && *any_is_open.get_or_init(look)
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
    pub(super) fn is_complete(&self, link_index: u32, group: IpAddr) -> bool {
        let is_there = |socket: &UdpSocket<S>| {
            let is_offloaded = socket.is_offloaded();
            let groups = &socket.attachment().groups;
            groups.receives(link_index, group) == Receives::No
                || is_offloaded && groups.flows.has(link_index, self.address(group))
        };
        self.own.iter().all(|socket| is_there(socket))
    }
}

/// Whether a socket's address lets it have datagrams to a group. What it is a member of is not to be seen.
pub(super) fn may_have(user: &PortUser, group: IpAddr) -> bool {
    match (user.local.ip(), group) {
        (IpAddr::V6(ip), IpAddr::V4(group)) => {
            ip.is_unspecified() || ip.to_ipv4_mapped() == Some(group)
        }
        (ip, group) => ip == group || ip.is_unspecified() && ip.is_ipv6() == group.is_ipv6(),
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
