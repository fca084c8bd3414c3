//! Multicast groups of a socket: which the kernel says it is a member of, and which of them come
//! past the kernel.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dev_core::{GroupMember, SourceFilter};
use libc::c_int;

use crate::by_link::ByLink;
use crate::family::Versions;
use crate::interface::Interface;
use crate::receiver::Receiver;

/// Whether an option makes a socket a member of a multicast group, ends that, or says whose
/// datagrams it gets. The group is one of IPv4 if the level is `IPPROTO_IP`, else of IPv6.
pub fn changes_membership(level: c_int, name: c_int) -> bool {
    match level {
        libc::IPPROTO_IP => (libc::IP_ADD_MEMBERSHIP..=MCAST_MSFILTER).contains(&name),
        libc::IPPROTO_IPV6 => matches!(
            name,
            libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP | MCAST_JOIN_GROUP
                ..=MCAST_MSFILTER
        ),
        _ => false,
    }
}

/// Whether such an option makes it a member.
pub fn joins(level: c_int, name: c_int) -> bool {
    let of_version = match level {
        libc::IPPROTO_IP => matches!(
            name,
            libc::IP_ADD_MEMBERSHIP | libc::IP_ADD_SOURCE_MEMBERSHIP
        ),
        _ => name == libc::IPV6_ADD_MEMBERSHIP,
    };
    of_version || matches!(name, MCAST_JOIN_GROUP | MCAST_JOIN_SOURCE_GROUP)
}

/// Where the value of such an option has the address of the group, in bytes. The kernel has
/// accepted no shorter value.
pub fn group_offset(level: c_int, name: c_int) -> usize {
    match level {
        _ if name < MCAST_JOIN_GROUP => 0,
        libc::IPPROTO_IP => sys::GROUP_OFFSET,
        _ => sys::V6_GROUP_OFFSET,
    }
}

/// From here on, `linux/in.h` has those that name interfaces by index. What lies between the first
/// and the last are all of them.
const MCAST_JOIN_GROUP: c_int = 42;
const MCAST_JOIN_SOURCE_GROUP: c_int = 46;
const MCAST_MSFILTER: c_int = 48;
const _: () = assert!(libc::IP_ADD_MEMBERSHIP == 35);

/// Whether what a socket sends to groups of either version comes to their members on this host,
/// too: `IP_MULTICAST_LOOP`, or of a socket of `AF_INET6`, `IPV6_MULTICAST_LOOP` (`sk_mc_loop`,
/// net/core/sock.c).
pub fn is_looped(fd: c_int) -> Option<bool> {
    let v6 = sys::option_int(fd, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP);
    let looped = v6.or_else(|_| sys::option_int(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP));
    looped.ok().map(|looped| looped != 0)
}

/// The interface that the value of an `IP_MULTICAST_IF` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupInterface {
    /// None: the route decides.
    Any,
    Index(u32),
    Address(Ipv4Addr),
}

impl GroupInterface {
    /// As the kernel reads it: `struct ip_mreqn`, `struct ip_mreq` or `struct in_addr`, by length.
    pub fn parse(value: &[u8]) -> Self {
        let number = |offset: usize| Some(*value.get(offset..)?.first_chunk::<4>()?);
        let index = number(8).map_or(0, u32::from_ne_bytes);
        if index != 0 {
            return Self::Index(index);
        }
        let address = number(4).or_else(|| number(0));
        let address = address.map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from);
        if address.is_unspecified() {
            Self::Any
        } else {
            Self::Address(address)
        }
    }
}

/// Whether the kernel would give a socket the datagrams of a group (`ip_mc_sf_allow`,
/// net/ipv4/igmp.c; `inet6_mc_check`, net/ipv6/mcast.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receives {
    No,
    /// What its source filter lets pass.
    AsMember,
    /// What the filter of any member on this host lets pass, and the socket's own, if it is a
    /// member on another interface.
    AsOther,
}

pub type GroupFlows<S> = ByLink<SocketAddr, &'static Interface<S>>;

/// Where a socket is among those who receive from every group of a port.
#[derive(Debug)]
pub struct AnyFlow<S: Receiver> {
    /// The port, and whether it is IPv6's.
    pub port: (u16, bool),
    pub interface: &'static Interface<S>,
}

impl<S: Receiver> Clone for AnyFlow<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Receiver> Copy for AnyFlow<S> {}

impl<S: Receiver> AnyFlow<S> {
    pub fn is_at(&self, link_index: u32, is_v6: bool) -> bool {
        self.port.1 == is_v6 && self.interface.spec().index == link_index
    }
}

/// The groups that depend on a socket: whether they come past the kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Those that it has to do with itself.
    pub groups: Vec<IpAddr>,
    /// All that others on its port have joined may depend on it, too.
    pub all: bool,
}

impl Interest {
    /// Only these.
    pub fn of(groups: Vec<IpAddr>) -> Self {
        Self { groups, all: false }
    }

    pub fn and(mut self, other: Self) -> Self {
        self.groups.extend(other.groups);
        self.groups.sort_unstable();
        self.groups.dedup();
        self.all |= other.all;
        self
    }
}

/// What of a socket decides about groups.
#[derive(Debug)]
pub struct SocketGroups<S: Receiver> {
    /// The address that it is bound to, and its peer.
    pub local: SocketAddr,
    pub peer: Option<SocketAddr>,
    /// The versions of IP that it carries.
    pub versions: Versions,
    /// `SO_BINDTODEVICE`: index of the only interface that it receives from, or 0.
    pub device: u32,
    /// `IP_MULTICAST_ALL` and `IPV6_MULTICAST_ALL`: also the groups that others on this host have
    /// joined.
    pub takes_all: Versions,
    /// Nothing but its groups decides whether it is accelerated.
    pub is_able: bool,
    /// By interface and group: whose datagrams it gets.
    pub memberships: ByLink<IpAddr, SourceFilter>,
    /// Where it is among the receivers of a group: by interface, which has an index, and address.
    pub flows: GroupFlows<S>,
    /// Where it is among those who receive from every group. It has no place of its own in groups
    /// of which it gets all then.
    pub any: Vec<AnyFlow<S>>,
}

impl<S: Receiver> Default for SocketGroups<S> {
    fn default() -> Self {
        Self {
            local: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            peer: None,
            versions: Versions::BOTH,
            device: 0,
            takes_all: Versions::BOTH,
            is_able: false,
            memberships: ByLink::default(),
            flows: ByLink::default(),
            any: Vec::new(),
        }
    }
}

impl<S: Receiver> SocketGroups<S> {
    /// Whether the socket's address lets it have datagrams to a group.
    pub fn is_bound_for(&self, group: IpAddr) -> bool {
        let local = self.local.ip();
        local == group || local.is_unspecified() && self.versions.carry(group)
    }

    /// What the socket is to groups that come in on an interface: the kernel asks a socket for its
    /// memberships of IPv4 by interface, and takes any of the same group of IPv6.
    fn filter(&self, link_index: u32, group: IpAddr) -> Option<&SourceFilter> {
        let here = self.memberships.get(link_index, group);
        here.or_else(|| self.filters_elsewhere(group).next())
    }

    fn filters_elsewhere(&self, group: IpAddr) -> impl Iterator<Item = &SourceFilter> {
        let all = self.memberships.of(group).iter();
        all.filter(move |_| group.is_ipv6()).map(|it| &it.1)
    }

    /// Whether groups that it is no member of may be for it: those that others have joined, or, of
    /// a socket that nobody follows any more, any.
    pub fn is_for_any(&self, is_committed: bool) -> bool {
        is_committed || self.takes_all.overlap(self.versions)
    }

    /// Whether groups that others have joined are for it, of IPv4 or IPv6, if they come in on an
    /// interface.
    pub fn takes_any(&self, link_index: u32, is_v6: bool) -> bool {
        self.takes_any_somewhere(is_v6) && (self.device == 0 || self.device == link_index)
    }

    pub fn takes_any_somewhere(&self, is_v6: bool) -> bool {
        let is_carried = self.versions.has(is_v6) && self.takes_all.has(is_v6);
        is_carried && self.local.ip().is_unspecified()
    }

    /// Whether all that it gets of a group it has as one who receives from every group.
    pub fn has_as_any(&self, link_index: u32, group: IpAddr) -> bool {
        self.takes_any(link_index, group.is_ipv6())
            && self
                .filter(link_index, group)
                .is_none_or(SourceFilter::is_none)
    }

    /// Whether it needs a place of its own among the receivers of a group that comes in on an
    /// interface past the kernel.
    pub fn needs_place(&self, link_index: u32, group: IpAddr) -> bool {
        self.receives(link_index, group) != Receives::No && !self.has_as_any(link_index, group)
    }

    /// Whether it is among those who receive from every group that comes in on an interface.
    pub fn is_in_any(&self, link_index: u32, is_v6: bool) -> bool {
        let is_it = |it: &AnyFlow<S>| it.is_at(link_index, is_v6);
        self.any.iter().any(is_it)
    }

    /// Whether it is among the receivers of a group.
    pub fn is_receiver(&self, link_index: u32, address: SocketAddr) -> bool {
        let ip = address.ip();
        self.flows.has(link_index, address)
            || self.is_in_any(link_index, ip.is_ipv6()) && self.has_as_any(link_index, ip)
    }

    /// As one who receives from every group.
    pub fn any_receiver(&self, socket: S) -> GroupMember<S> {
        GroupMember {
            value: socket,
            peer: self.peer,
            sources: SourceFilter::none(),
        }
    }

    /// Which groups have to be looked at when the socket changes.
    pub fn interest(&self, is_committed: bool) -> Interest {
        let local = self.local.ip();
        if self.local.port() == 0 {
            return Interest::default();
        }
        if local.is_multicast() {
            return Interest::of(vec![local]);
        }
        let mut groups: Vec<_> = self.memberships.groups().collect();
        groups.extend(self.flows.groups().map(|address| address.ip()));
        groups.sort_unstable();
        groups.dedup();
        let all = local.is_unspecified() && self.is_for_any(is_committed) || !self.any.is_empty();
        Interest { groups, all }
    }

    /// Whether it depends on the order of its memberships what the kernel gives it.
    pub fn is_ambiguous(&self, group: IpAddr) -> bool {
        let mut filters = self.filters_elsewhere(group);
        let first = filters.next();
        filters.any(|other| Some(other) != first)
    }

    /// Whether the kernel would give it datagrams to a group that come in on an interface.
    pub fn receives(&self, link_index: u32, group: IpAddr) -> Receives {
        let is_other_device = self.device != 0 && self.device != link_index;
        if is_other_device || !self.is_bound_for(group) {
            return Receives::No;
        }
        let is_member_here = self.memberships.has(link_index, group);
        match self.filter(link_index, group) {
            Some(_) if is_member_here => Receives::AsMember,
            Some(_) => Receives::AsOther,
            None if self.takes_all.carry(group) => Receives::AsOther,
            None => Receives::No,
        }
    }

    /// As one of the receivers of a group that come in on an interface.
    pub fn receiver(&self, socket: S, link_index: u32, group: IpAddr) -> GroupMember<S> {
        let sources = self.filter(link_index, group);
        GroupMember {
            value: socket,
            peer: self.peer,
            sources: sources.cloned().unwrap_or_else(SourceFilter::none),
        }
    }

    /// Whether it is a member of a group.
    pub fn is_member(&self, group: IpAddr, links: &[u32]) -> bool {
        let mut here = self.memberships.of(group).iter();
        here.any(|(link_index, _)| links.contains(link_index))
    }

    /// Asks the kernel's socket where it is a member of a group now.
    pub fn refresh(&mut self, fd: c_int, group: IpAddr, links: &[u32]) {
        for link_index in links {
            match sys::group_filter(fd, group, *link_index) {
                Some(filter) => {
                    self.memberships.insert(*link_index, group, filter);
                }
                None => self.memberships.remove(*link_index, group),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_read_as_the_kernel_reads_it() {
        let parse = GroupInterface::parse;
        let address = GroupInterface::Address([10, 0, 0, 1].into());
        assert_eq!(parse(&[10, 0, 0, 1]), address);
        // Four bytes count of what is shorter than an ip_mreq.
        assert_eq!(parse(&[10, 0, 0, 1, 9, 9, 9]), address);
        assert_eq!(parse(&[239, 1, 1, 1, 10, 0, 0, 1]), address);
        assert_eq!(parse(&[239, 1, 1, 1, 0, 0, 0, 0]), GroupInterface::Any);
        let index = 7_u32.to_ne_bytes();
        let mreqn = [[239, 1, 1, 1], [10, 0, 0, 1], index].concat();
        assert_eq!(parse(&mreqn), GroupInterface::Index(7));
        let mreqn = [[239, 1, 1, 1], [10, 0, 0, 1], [0; 4]].concat();
        assert_eq!(parse(&mreqn), address);
        assert_eq!(parse(&[0; 12]), GroupInterface::Any);
    }
}
