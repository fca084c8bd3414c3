//! Who may have the datagrams to the groups of one port: whether they are all ours, and nothing
//! stands in the way of any.
//!
//! Sockets that are for any group (`IP_MULTICAST_ALL`) are looked at together, and are among the
//! receivers of all groups at once: what one group costs does not grow with their number.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::Arc;

use dev_core::SourceFilter;
use links::family::{Versions, stays_in_host};
use links::groups::Receives;
use links::network::{InterfaceFacts, PortUser};
use vma_config::rules::ProcessRules;

use crate::sockets::host::Host;
use crate::sockets::offload;
use crate::sockets::ports::{LinkState, PortState};
use crate::sockets::stack::Stack;
use crate::udp::socket::{UdpSocket, UdpStack};

/// The sockets that may have datagrams to a port's groups: ours, and those of others.
pub(super) struct Port<S: Stack> {
    pub(super) number: u16,
    /// Looked at whatever it is now.
    pub(super) changed: Option<&'static UdpSocket<S>>,
    /// Those of ours that may have datagrams to any group, and those that the kernel has for good.
    pub(super) of_any: Vec<&'static UdpSocket<S>>,
    kinds: Vec<Kind>,
    /// By interface and version, how many of those receive from every group there.
    inside: Vec<((u32, bool), usize)>,
    /// For which versions one of them is the kernel's for good.
    committed: Versions,
    /// Sockets on the port that are not ours; `None`: the kernel does not say.
    others: Option<Arc<[PortUser]>>,
}

/// Sockets that are for any group of one version, and are bound to the same device, or none.
struct Kind {
    device: u32,
    is_v6: bool,
    count: usize,
    is_able: bool,
    rules: Vec<&'static ProcessRules>,
}

const VERSIONS: [bool; 2] = [false, true];

impl<S: UdpStack> Port<S> {
    /// `None`: no socket of ours on the port is a member of a group, or receives from one.
    pub(super) fn look(
        host: &Host<S>,
        number: u16,
        changed: Option<&'static UdpSocket<S>>,
    ) -> Option<Self> {
        if number == 0 || !host.has_groups() {
            return None;
        }
        let of_any = host.ports.of_any_group(number).into_iter();
        let mut port = Self {
            number,
            changed,
            of_any: of_any.filter_map(UdpStack::as_udp).collect(),
            kinds: Vec::new(),
            inside: Vec::new(),
            committed: Versions {
                v4: false,
                v6: false,
            },
            others: Some(Arc::default()),
        };
        let of_any = std::mem::take(&mut port.of_any);
        of_any.iter().for_each(|socket| port.count(socket));
        port.of_any = of_any;
        let (mut has_groups, mut is_shareable) = (host.ports.has_members(number), false);
        let mut look_at = |socket: &UdpSocket<S>| {
            let attachment = socket.attachment();
            let groups = &attachment.groups;
            has_groups |= !groups.memberships.is_empty()
                || !groups.flows.is_empty()
                || !groups.any.is_empty();
            is_shareable |= attachment.reuses_address();
            has_groups && is_shareable
        };
        let mut known = changed.into_iter().chain(port.of_any.iter().copied());
        if !known.any(&mut look_at) {
            let here = host.ports.of_groups(number).into_iter();
            here.filter_map(UdpStack::as_udp).any(look_at);
        }
        if !has_groups {
            return None;
        }
        if is_shareable {
            port.others = host.others_at(number);
        }
        Some(port)
    }

    /// Takes one in that may have datagrams to any group.
    fn count(&mut self, socket: &UdpSocket<S>) {
        let (is_committed, is_offloaded) = (socket.is_committed(), socket.is_offloaded());
        let attachment = socket.attachment();
        let groups = &attachment.groups;
        if is_committed {
            self.committed = self.committed.and(groups.versions);
        }
        for is_v6 in VERSIONS {
            if !groups.takes_any_somewhere(is_v6) {
                continue;
            }
            let kind = self.kind(groups.device, is_v6);
            kind.count += 1;
            kind.is_able &= groups.is_able && !is_committed;
            let is_new = |rules: &&'static ProcessRules| {
                !kind.rules.iter().any(|known| ptr::eq(*known, *rules))
            };
            let rules = attachment.rules.filter(is_new);
            kind.rules.extend(rules);
        }
        for it in groups.any.iter().filter(|_| is_offloaded) {
            let place = (it.interface.spec().index, it.port.1);
            match self.inside.iter_mut().find(|known| known.0 == place) {
                Some(known) => known.1 += 1,
                None => self.inside.push((place, 1)),
            }
        }
    }

    fn kind(&mut self, device: u32, is_v6: bool) -> &mut Kind {
        let is_it = |it: &Kind| it.device == device && it.is_v6 == is_v6;
        let place = self.kinds.iter().position(is_it).unwrap_or_else(|| {
            self.kinds.push(Kind {
                device,
                is_v6,
                count: 0,
                is_able: true,
                rules: Vec::new(),
            });
            self.kinds.len() - 1
        });
        &mut self.kinds[place]
    }

    /// Those that are for any group that comes in on an interface.
    fn kinds_at(&self, link_index: u32, is_v6: bool) -> impl Iterator<Item = &Kind> {
        let is_here = move |device: u32| device == 0 || device == link_index;
        let here = self.kinds.iter();
        here.filter(move |it| it.is_v6 == is_v6 && is_here(it.device))
    }

    fn any_count(&self, link_index: u32, is_v6: bool) -> usize {
        self.kinds_at(link_index, is_v6).map(|it| it.count).sum()
    }

    pub(super) fn inside_count(&self, link_index: u32, is_v6: bool) -> usize {
        let mut inside = self.inside.iter();
        let here = inside.find(|it| it.0 == (link_index, is_v6));
        here.map_or(0, |it| it.1)
    }

    /// Whether each socket that is for any group is among the receivers of all that come in on an
    /// interface.
    pub(super) fn has_all_inside(&self, link_index: u32, is_v6: bool) -> bool {
        self.inside_count(link_index, is_v6) == self.any_count(link_index, is_v6)
    }

    /// Whether something keeps every group with the kernel.
    fn is_blocked(&self, link_index: u32, is_v6: bool) -> bool {
        let is_for_all = |user: &PortUser| match user.local.ip() {
            IpAddr::V4(ip) => ip.is_unspecified() && !is_v6,
            IpAddr::V6(ip) => ip.is_unspecified(),
        };
        let others = self.others.as_ref();
        self.committed.has(is_v6)
            || others.is_none_or(|others| others.iter().any(is_for_all))
            || !self.kinds_at(link_index, is_v6).all(|it| it.is_able)
    }

    /// What groups depend on that sockets have nothing to do with themselves. `None`: no socket is
    /// for any group.
    pub(super) fn state(&self, host: &Host<S>, interfaces: &[InterfaceFacts]) -> Option<PortState> {
        if self.of_any.is_empty() {
            return None;
        }
        let eligible = interfaces.iter().filter(|it| is_eligible(it));
        let links = eligible.flat_map(|it| {
            let index = it.spec.index;
            let interface = host.links.get_for_flows(index).ok();
            VERSIONS.map(|is_v6| LinkState {
                index,
                is_v6,
                is_used: self.any_count(index, is_v6) > 0,
                is_able: self.kinds_at(index, is_v6).all(|it| it.is_able),
                is_complete: self.has_all_inside(index, is_v6),
                steered: interface.map(|it| it.steered_count((self.number, is_v6))),
            })
        });
        let rules = self.kinds.iter().flat_map(|it| &it.rules);
        let mut rules: Vec<_> = rules.map(|it| ptr::from_ref(*it).addr()).collect();
        rules.sort_unstable();
        rules.dedup();
        Some(PortState {
            links: links.collect(),
            committed: self.committed,
            rules,
            others: self.others.clone(),
        })
    }

    /// One of its groups, and those that have more to do with it than with any other.
    pub(super) fn group(&self, host: &Host<S>, ip: IpAddr) -> Group<'_, S> {
        let here = host.ports.of_group(self.number, ip).into_iter();
        let mut sockets: Vec<_> = here.filter_map(UdpStack::as_udp).collect();
        if let Some(changed) = self.changed
            && !sockets.iter().any(|it| ptr::eq(*it, changed))
        {
            let groups = &changed.attachment().groups;
            if groups.local.port() == self.number && groups.is_bound_for(ip) {
                sockets.push(changed);
            }
        }
        Group {
            port: self,
            ip,
            address: SocketAddr::new(ip, self.number),
            sockets,
        }
    }

    /// The groups that somebody has to do with, or that are taken.
    pub(super) fn groups(&self, host: &Host<S>, interfaces: &[InterfaceFacts]) -> Vec<IpAddr> {
        let mut groups = host.ports.groups(self.number);
        for it in interfaces {
            if let Ok(interface) = host.links.get_for_flows(it.spec.index) {
                for is_v6 in VERSIONS {
                    groups.extend(interface.steered_groups((self.number, is_v6)));
                }
            }
        }
        groups
    }

    /// Whether any group that comes in on an interface is to come past the kernel. `own`: those to
    /// be asked for first.
    pub(super) fn has_ours(
        &self,
        host: &Host<S>,
        (link_index, is_v6): (u32, bool),
        own: &[IpAddr],
    ) -> bool {
        if self.is_blocked(link_index, is_v6) {
            return false;
        }
        let is_ours = |ip: &IpAddr| {
            let group = self.group(host, *ip);
            ip.is_ipv6() == is_v6 && group.is_joined(link_index) && group.is_ours(link_index)
        };
        let taken = || {
            let interface = host.links.get_for_flows(link_index).into_iter();
            interface.flat_map(|it| it.steered_groups((self.number, is_v6)))
        };
        own.iter().any(is_ours)
            || taken().any(|it| is_ours(&it))
            || host.ports.groups(self.number).iter().any(is_ours)
    }
}

/// A group of a port.
pub(super) struct Group<'a, S: Stack> {
    port: &'a Port<S>,
    pub(super) ip: IpAddr,
    pub(super) address: SocketAddr,
    /// Sockets of ours that are members or bound to it, and the one that has changed.
    pub(super) sockets: Vec<&'static UdpSocket<S>>,
}

impl<S: UdpStack> Group<'_, S> {
    /// The interfaces on which one of ours is a member.
    pub(super) fn joined(&self) -> HashSet<u32> {
        let mut joined = HashSet::new();
        for socket in &self.sockets {
            let groups = &socket.attachment().groups;
            if groups.is_bound_for(self.ip) {
                joined.extend(groups.memberships.of(self.ip).iter().map(|it| it.0));
            }
        }
        joined
    }

    pub(super) fn is_joined(&self, link_index: u32) -> bool {
        self.sockets.iter().any(|socket| {
            let groups = &socket.attachment().groups;
            groups.is_bound_for(self.ip) && groups.memberships.has(link_index, self.ip)
        })
    }

    /// The interfaces from which it comes past the kernel, or somebody has a place in it.
    pub(super) fn taken(&self, host: &Host<S>, interfaces: &[InterfaceFacts]) -> HashSet<u32> {
        let is_taken = |index: &u32| {
            let interface = host.links.get_for_flows(*index);
            interface.is_ok_and(|it| it.is_group_steered(self.address))
        };
        let indexes = interfaces.iter().map(|it| it.spec.index);
        let mut taken: HashSet<_> = indexes.filter(is_taken).collect();
        for socket in &self.sockets {
            let groups = &socket.attachment().groups;
            taken.extend(groups.flows.of(self.address).iter().map(|it| it.0));
        }
        taken
    }

    /// Whether a socket that is not ours may have a group's datagrams.
    fn is_shared(&self) -> bool {
        let others = self.port.others.as_ref();
        others.is_none_or(|others| others.iter().any(|user| may_have(user, self.ip)))
    }

    /// Whether all that would have the group's datagrams are sockets of ours, and nothing stands in
    /// the way of any.
    pub(super) fn is_ours(&self, link_index: u32) -> bool {
        let (ip, is_v6) = (self.ip, self.ip.is_ipv6());
        if stays_in_host(ip) || self.port.is_blocked(link_index, is_v6) || self.is_shared() {
            return false;
        }
        let is_open = |socket: &UdpSocket<S>| {
            let groups = &socket.attachment().groups;
            let filter = groups.memberships.get(link_index, ip);
            filter.is_some_and(SourceFilter::is_none)
        };
        let any_is_open = OnceCell::new();
        let any_is_open = || *any_is_open.get_or_init(|| self.sockets.iter().any(|it| is_open(it)));
        let mut members_of_any = 0;
        for socket in &self.sockets {
            let is_committed = socket.is_committed();
            let attachment = socket.attachment();
            let groups = &attachment.groups;
            if is_committed && groups.is_bound_for(ip) {
                // What it is a member of is not followed any more.
                return false;
            }
            let receives = groups.receives(link_index, ip);
            members_of_any += usize::from(groups.takes_any(link_index, is_v6));
            drop(attachment);
            // Members in other processes, and of other ports, may let more pass than ours do.
            let is_able = match receives {
                Receives::No => true,
                Receives::AsMember => self.may_receive(socket),
                Receives::AsOther => self.may_receive(socket) && any_is_open(),
            };
            if !is_able {
                return false;
            }
        }
        let mut rules = self
            .port
            .kinds_at(link_index, is_v6)
            .flat_map(|it| &it.rules);
        let is_ruled_out =
            |rules: &&ProcessRules| offload::receiver_rule(rules, self.address).is_some();
        let has_others = self.port.any_count(link_index, is_v6) > members_of_any;
        !rules.any(is_ruled_out) && (!has_others || any_is_open())
    }

    /// Those that are for any group.
    pub(super) fn others_of_any(&self) -> &[&'static UdpSocket<S>] {
        &self.port.of_any
    }

    /// Whether nothing of the socket itself keeps the group with the kernel.
    fn may_receive(&self, socket: &UdpSocket<S>) -> bool {
        let attachment = socket.attachment();
        let is_ruled_out = attachment
            .rules
            .is_some_and(|rules| offload::receiver_rule(rules, self.address).is_some());
        attachment.groups.is_able && !is_ruled_out && !attachment.groups.is_ambiguous(self.ip)
    }

    /// Whether every socket of ours that is to have the group's datagrams from an interface is
    /// among its receivers there.
    pub(super) fn is_complete(&self, link_index: u32) -> bool {
        let is_there = |socket: &UdpSocket<S>| {
            let is_offloaded = socket.is_offloaded();
            let groups = &socket.attachment().groups;
            groups.receives(link_index, self.ip) == Receives::No
                || is_offloaded && groups.is_receiver(link_index, self.address)
        };
        self.port.has_all_inside(link_index, self.ip.is_ipv6())
            && self.sockets.iter().all(|socket| is_there(socket))
    }
}

pub(super) fn is_eligible(link: &InterfaceFacts) -> bool {
    link.is_eligible() && !link.loopback
}

/// Whether a socket's address lets it have datagrams to a group. What it is a member of is not to
/// be seen.
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
