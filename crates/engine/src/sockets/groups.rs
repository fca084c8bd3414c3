//! Multicast groups of a socket: which the kernel says it is a member of, and which of them come past the kernel.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use crate::sockets::interface::Interface;
use crate::sockets::stack::Stack;
use crate::sys::{self, GroupFilter};

/// Whether the kernel would give a socket the datagrams of a group (`ip_mc_sf_allow`, net/ipv4/igmp.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receives {
    Yes,
    No,
    /// Those of some sources.
    Some,
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
    /// By interface and group: whether it gets what some sources send only.
    pub(crate) memberships: HashMap<(u32, Ipv4Addr), bool>,
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
            Some(true) => Receives::Some,
            None if !self.takes_all => Receives::No,
            Some(false) | None => Receives::Yes,
        }
    }

    /// Asks the kernel's socket where it is a member of a group now.
    pub(crate) fn refresh(&mut self, fd: libc::c_int, group: Ipv4Addr, links: &[u32]) {
        for link_index in links {
            match sys::group_filter(fd, group, *link_index) {
                Some(filter) => {
                    let is_filtered = filter != GroupFilter::None;
                    self.memberships.insert((*link_index, group), is_filtered);
                }
                None => {
                    self.memberships.remove(&(*link_index, group));
                }
            }
        }
    }
}
