//! Multicast groups of a socket: which the kernel says it is a member of, and which of them come past the kernel.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::sockets::interface::Interface;
use crate::sockets::stack::Stack;
use crate::sys::{self, GroupFilter};

/// A membership that the kernel has noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) link_index: u32,
    pub(crate) group: Ipv4Addr,
    /// Of certain sources, or without some.
    pub(crate) is_filtered: bool,
}

/// Whether the kernel would give a socket the datagrams of a group (`ip_mc_sf_allow`, net/ipv4/igmp.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receives {
    Yes,
    No,
    /// Those of some sources.
    Some,
}

/// What of a socket decides about groups.
#[derive(Debug)]
pub(crate) struct SocketGroups<S: Stack> {
    /// The address that it is bound to, and its peer.
    pub(crate) local: SocketAddrV4,
    pub(crate) peer: Option<SocketAddrV4>,
    /// `IP_MULTICAST_ALL`: also the groups that others on this host have joined.
    pub(crate) takes_all: bool,
    /// Nothing but its groups decides whether it is accelerated.
    pub(crate) is_able: bool,
    pub(crate) memberships: Vec<Membership>,
    /// Where it is among the receivers of a group.
    pub(crate) flows: Vec<(&'static Interface<S>, SocketAddrV4)>,
}

impl<S: Stack> Default for SocketGroups<S> {
    fn default() -> Self {
        Self {
            local: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            peer: None,
            takes_all: true,
            is_able: false,
            memberships: Vec::new(),
            flows: Vec::new(),
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
        if !self.is_bound_for(group) {
            return Receives::No;
        }
        let is_it = |it: &&Membership| it.link_index == link_index && it.group == group;
        match self.memberships.iter().find(is_it) {
            Some(membership) if membership.is_filtered => Receives::Some,
            None if !self.takes_all => Receives::No,
            Some(_) | None => Receives::Yes,
        }
    }

    /// Asks the kernel's socket where it is a member of a group now.
    pub(crate) fn refresh(&mut self, fd: libc::c_int, group: Ipv4Addr, links: &[u32]) {
        self.memberships.retain(|it| it.group != group);
        let asked = links.iter().filter_map(|link_index| {
            let filter = sys::group_filter(fd, group, *link_index)?;
            Some(Membership {
                link_index: *link_index,
                group,
                is_filtered: filter != GroupFilter::None,
            })
        });
        self.memberships.extend(asked);
    }
}
