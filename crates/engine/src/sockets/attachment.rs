//! Where a socket gets its packets from, how many descriptors stand for it, and what its reason is
//! about.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dev_core::Flow;
use links::Receiver;
use links::family::Family;
use links::groups::SocketGroups;
use links::interface::Interface;
use stats::{GroupSlot, SocketStats};
use vma_config::rules::ProcessRules;

use crate::sockets::own_rings::OwnRings;
use crate::sockets::pacing::limit::RateLimit;
use crate::sockets::ring_choice::RingChoice;
use crate::sockets::shared::Shared;

/// The flows of a socket and how many descriptors stand for it.
#[derive(Debug)]
pub(crate) struct Attachment<S: Receiver> {
    pub(crate) descriptors: u32,
    /// The address that it is bound to.
    pub(crate) local: SocketAddr,
    /// The rules that were in force when the socket was first looked at; later ones are for later
    /// sockets.
    pub(crate) rules: Option<&'static ProcessRules>,
    /// The socket was made in another network namespace; `None`: nobody has looked yet.
    pub(crate) foreign: Option<bool>,
    /// `SO_REUSEADDR` or `SO_REUSEPORT`
    pub(crate) reuses_address: bool,
    /// `SO_REUSEPORT`
    pub(crate) shares_port: bool,
    /// `SO_INCOMING_CPU`: among those that share a port it is for packets of one CPU.
    pub(crate) chosen_by_cpu: bool,
    /// Number of the rule that decided last, or 0.
    pub(crate) rule: u32,
    /// Multicast groups that the socket is a member of, as readers see them.
    pub(super) shown_groups: Vec<IpAddr>,
    /// How readers see them, in the same order.
    pub(super) group_slots: Vec<GroupSlot>,
    /// What the reason is about, as readers see it.
    pub(crate) detail: String,
    /// Readers see groups that go through the kernel.
    pub(super) lists_groups: bool,
    pub(crate) flows: Vec<(&'static Interface<S>, Flow)>,
    pub(crate) own_rings: OwnRings<S>,
    /// `SO_VMA_RING_ALLOC_LOGIC`
    pub(crate) ring_choice: RingChoice,
    /// `SO_MAX_PACING_RATE` in VMA's words, if it was set so last.
    pub(crate) rate_limit: Option<RateLimit>,
    /// What decides about multicast past the kernel.
    pub(crate) groups: SocketGroups<S>,
    /// A socket of an ancestor's, from which this process takes connections or datagrams, and its
    /// generation there.
    pub(crate) inherited: Option<(Shared, u32)>,
}

impl<S: Receiver> Default for Attachment<S> {
    fn default() -> Self {
        Self {
            descriptors: 0,
            local: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            rules: None,
            foreign: None,
            reuses_address: false,
            shares_port: false,
            chosen_by_cpu: false,
            rule: 0,
            shown_groups: Vec::new(),
            group_slots: Vec::new(),
            detail: String::new(),
            lists_groups: false,
            flows: Vec::new(),
            own_rings: OwnRings::default(),
            ring_choice: RingChoice::default(),
            rate_limit: None,
            groups: SocketGroups::default(),
            inherited: None,
        }
    }
}

impl<S: Receiver> Attachment<S> {
    /// Whether sockets of other processes may come to have the port, too.
    pub(crate) fn reuses_address(&self) -> bool {
        self.reuses_address
    }

    /// Whether each of the sockets at its port has its part of the peers, whoever they are.
    pub(crate) fn has_equals(&self) -> bool {
        self.shares_port && !self.chosen_by_cpu
    }

    /// The option by which it may share its port, for a reader.
    pub(crate) fn sharing_option(&self) -> &'static str {
        match (self.shares_port, self.reuses_address) {
            (true, _) => "SO_REUSEPORT",
            (false, true) => "SO_REUSEADDR",
            (false, false) => "",
        }
    }

    pub(crate) fn opened(family: Family) -> Self {
        let mut groups = SocketGroups::default();
        // `IP_MULTICAST_ALL` of a socket of `AF_INET6` is off (`inet6_create`,
        // net/ipv6/af_inet6.c).
        groups.takes_all.v4 = family == Family::Inet;
        Self {
            descriptors: 1,
            groups,
            ..Self::default()
        }
    }

    /// The socket is closed, and a member of nothing any more.
    pub(crate) fn leave_groups(&mut self) {
        self.shown_groups.clear();
        self.group_slots.clear();
        self.groups = SocketGroups::default();
    }

    /// Shows what the socket's reason is about, and its groups. `past_kernel`: those that it has as
    /// one who receives from every group.
    pub(super) fn explain(&mut self, counters: &SocketStats, detail: &str, past_kernel: &[IpAddr]) {
        let is_said = self.detail.is_empty() && self.shown_groups.is_empty() && !self.lists_groups;
        if detail.is_empty() && is_said {
            // Most sockets of the kernel's: a new one says nothing.
            return;
        }
        if self.detail != detail {
            detail.clone_into(&mut self.detail);
        }
        let mut shown = self.detail.clone();
        let flows = self.groups.flows.groups();
        let mut past_kernel: HashSet<_> = past_kernel.iter().copied().collect();
        past_kernel.extend(flows.map(|address| address.ip()));
        let through_kernel = self
            .shown_groups
            .iter()
            .filter(|it| !past_kernel.contains(it));
        self.lists_groups = false;
        for (index, group) in through_kernel.enumerate() {
            self.lists_groups = true;
            if index == GROUPS_SHOWN {
                shown.push_str(", ...");
                break;
            }
            shown.push_str(match (index, shown.is_empty()) {
                (0, true) => "groups through the kernel: ",
                (0, false) => "; groups through the kernel: ",
                _ => ", ",
            });
            shown.push_str(&group.to_string());
        }
        counters.detail.set(&shown);
    }
}

/// Groups that a detail has room for.
const GROUPS_SHOWN: usize = 4;
