//! Multicast groups of a socket: which the kernel says it is a member of, and which of them come past the kernel.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use dev_core::{Receiver, SourceFilter};
use libc::c_int;

use crate::sockets::interface::Interface;
use crate::sockets::stack::Stack;
use crate::sys;

/// Whether an option of `IPPROTO_IP` makes a socket a member of a multicast group, ends that, or says whose datagrams it gets.
pub fn changes_membership(name: c_int) -> bool {
    (libc::IP_ADD_MEMBERSHIP..=MCAST_MSFILTER).contains(&name)
}

/// Whether such an option makes it a member.
pub fn joins(name: c_int) -> bool {
    matches!(
        name,
        libc::IP_ADD_MEMBERSHIP
            | libc::IP_ADD_SOURCE_MEMBERSHIP
            | MCAST_JOIN_GROUP
            | MCAST_JOIN_SOURCE_GROUP
    )
}

/// Where the value of such an option has the address of the group, in bytes. The kernel has accepted no shorter value.
pub fn group_offset(name: c_int) -> usize {
    if name < MCAST_JOIN_GROUP {
        0
    } else {
        sys::GROUP_OFFSET
    }
}

/// From here on, `linux/in.h` has those that name interfaces by index. What lies between the first and the last are all of them.
const MCAST_JOIN_GROUP: c_int = 42;
const MCAST_JOIN_SOURCE_GROUP: c_int = 46;
const MCAST_MSFILTER: c_int = 48;
const _: () = assert!(libc::IP_ADD_MEMBERSHIP == 35);

/// The interface that the value of an `IP_MULTICAST_IF` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupInterface {
    /// None: the route decides.
    Any,
    Index(u32),
    Address(Ipv4Addr),
}

impl GroupInterface {
    /// As the kernel reads it: `struct ip_mreqn`, `struct ip_mreq` or `struct in_addr`, by length.
    pub(crate) fn parse(value: &[u8]) -> Self {
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

/// Whether the kernel would give a socket the datagrams of a group (`ip_mc_sf_allow`, net/ipv4/igmp.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receives {
    No,
    /// What its source filter lets pass.
    AsMember,
    /// What the filter of any member on this host lets pass.
    AsOther,
}

pub(crate) type GroupFlows<S> = HashMap<(u32, SocketAddrV4), &'static Interface<S>>;

/// What of a socket decides about groups.
#[derive(Debug)]
pub(crate) struct SocketGroups<S: Stack> {
    /// The address that it is bound to, and its peer.
    pub(crate) local: SocketAddrV4,
    pub(crate) peer: Option<SocketAddrV4>,
    /// `SO_BINDTODEVICE`: index of the only interface that it receives from, or 0.
    pub(crate) device: u32,
    /// `IP_MULTICAST_ALL`: also the groups that others on this host have joined.
    pub(crate) takes_all: bool,
    /// Nothing but its groups decides whether it is accelerated.
    pub(crate) is_able: bool,
    /// By interface and group: whose datagrams it gets.
    pub(crate) memberships: HashMap<(u32, Ipv4Addr), SourceFilter>,
    /// Where it is among the receivers of a group: by interface, which has an index, and address.
    pub(crate) flows: GroupFlows<S>,
}

impl<S: Stack> Default for SocketGroups<S> {
    fn default() -> Self {
        Self {
            local: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            peer: None,
            device: 0,
            takes_all: true,
            is_able: false,
            memberships: HashMap::new(),
            flows: HashMap::new(),
        }
    }
}

impl<S: Stack> SocketGroups<S> {
    /// Whether the socket's address lets it have datagrams to a group.
    pub(crate) fn is_bound_for(&self, group: Ipv4Addr) -> bool {
        self.local.ip().is_unspecified() || *self.local.ip() == group
    }

    /// Whether the kernel would give it datagrams to a group that come in on an interface.
    pub(crate) fn receives(&self, link_index: u32, group: Ipv4Addr) -> Receives {
        let is_other_device = self.device != 0 && self.device != link_index;
        if is_other_device || !self.is_bound_for(group) {
            return Receives::No;
        }
        match self.memberships.get(&(link_index, group)) {
            Some(_) => Receives::AsMember,
            None if self.takes_all => Receives::AsOther,
            None => Receives::No,
        }
    }

    /// As one of the receivers of a group that come in on an interface.
    pub(crate) fn receiver(&self, socket: S, link_index: u32, group: Ipv4Addr) -> Receiver<S> {
        let sources = self.memberships.get(&(link_index, group));
        Receiver {
            value: socket,
            peer: self.peer,
            sources: sources.cloned().unwrap_or_else(SourceFilter::none),
        }
    }

    /// Whether it is a member of a group.
    pub(crate) fn is_member(&self, group: Ipv4Addr, links: &[u32]) -> bool {
        let is_there = |link_index: &u32| self.memberships.contains_key(&(*link_index, group));
        links.iter().any(is_there)
    }

    /// Asks the kernel's socket where it is a member of a group now.
    pub(crate) fn refresh(&mut self, fd: c_int, group: Ipv4Addr, links: &[u32]) {
        for link_index in links {
            match sys::group_filter(fd, group, *link_index) {
                Some(filter) => {
                    self.memberships.insert((*link_index, group), filter);
                }
                None => {
                    self.memberships.remove(&(*link_index, group));
                }
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
