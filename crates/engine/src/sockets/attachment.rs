//! Where a socket gets its packets from, how many descriptors stand for it, and what its reason is about.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dev_core::Flow;
use links::family::Family;
use links::groups::SocketGroups;
use links::interface::Interface;
use stats::{GroupSlot, Segment, SocketStats};
use vma_config::rules::ProcessRules;

use crate::sockets::own_rings::OwnRings;
use crate::sockets::ring_choice::RingChoice;
use crate::sockets::shared::Shared;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

/// Whether interfaces may be opened for a socket that follows the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayOpen {
    /// They may: the caller has to ask again.
    Yes,
    /// They have been, as far as that is possible.
    No,
}

/// The flows of a socket and how many descriptors stand for it.
#[derive(Debug)]
pub(crate) struct Attachment<S: Stack> {
    pub(crate) descriptors: u32,
    /// The address that it is bound to.
    pub(crate) local: SocketAddr,
    /// The rules that were in force when the socket was first looked at; later ones are for later sockets.
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
    shown_groups: Vec<IpAddr>,
    /// How readers see them, in the same order.
    group_slots: Vec<GroupSlot>,
    /// What the reason is about, as readers see it.
    pub(crate) detail: String,
    /// Readers see groups that go through the kernel.
    lists_groups: bool,
    pub(crate) flows: Vec<(&'static Interface<S>, Flow)>,
    pub(crate) own_rings: OwnRings<S>,
    /// `SO_VMA_RING_ALLOC_LOGIC`
    pub(crate) ring_choice: RingChoice,
    /// What decides about multicast past the kernel.
    pub(crate) groups: SocketGroups<S>,
    /// A socket of an ancestor's, from which this process takes connections or datagrams, and its generation there.
    pub(crate) inherited: Option<(Shared, u32)>,
}

impl<S: Stack> Default for Attachment<S> {
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
            groups: SocketGroups::default(),
            inherited: None,
        }
    }
}

impl<S: Stack> Attachment<S> {
    /// Whether sockets of other processes may come to have the port, too.
    pub(crate) fn reuses_address(&self) -> bool {
        self.reuses_address
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
        // `IP_MULTICAST_ALL` of a socket of `AF_INET6` is off (`inet6_create`, net/ipv6/af_inet6.c).
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

    /// Shows what the socket's reason is about, and its groups. `past_kernel`: those that it has as one who receives from every group.
    fn explain(&mut self, counters: &SocketStats, detail: &str, past_kernel: &[IpAddr]) {
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

impl<S: Stack> SocketCore<S> {
    /// Takes note of what the socket is to a multicast group on the host's interfaces now.
    pub(crate) fn refresh_membership(&self, segment: &Segment, group: IpAddr, links: &[u32]) {
        let mut attachment = self.attachment();
        attachment.groups.refresh(self.fd(), group, links);
        let is_member = attachment.groups.is_member(group, links);
        let known = attachment.shown_groups.iter().position(|it| *it == group);
        match known {
            None if is_member => {
                let slot = segment.claim_group();
                slot.fd.set(self.fd());
                slot.group.set(SocketAddr::new(group, 0));
                attachment.group_slots.push(slot);
                attachment.shown_groups.push(group);
            }
            Some(place) if !is_member => {
                attachment.shown_groups.swap_remove(place);
                attachment.group_slots.swap_remove(place);
            }
            _ => {}
        }
    }

    /// The same after a change to one of them.
    pub(crate) fn explain_group_change(&self, is_past_kernel: bool) {
        let lists_groups = self.attachment().lists_groups;
        if lists_groups || !is_past_kernel {
            self.explain_groups();
        }
    }

    /// Shows which of the socket's groups go through the kernel.
    pub(crate) fn explain_groups(&self) {
        let detail = self.attachment().detail.clone();
        self.explain(&detail);
    }

    /// Shows what the socket's reason is about, and its groups.
    pub(crate) fn explain(&self, detail: &str) {
        let (any, groups) = {
            let attachment = self.attachment();
            let any = attachment.groups.any.clone();
            let has_any = !any.is_empty();
            (any, has_any.then(|| attachment.shown_groups.clone()))
        };
        let mut past_kernel = groups.unwrap_or_default();
        past_kernel.retain(|group| {
            let of_version = any.iter().filter(|it| it.port.1 == group.is_ipv6());
            let mut addresses = of_version.map(|it| (it, SocketAddr::new(*group, it.port.0)));
            addresses.any(|(it, address)| it.interface.is_group_steered(address))
        });
        let mut attachment = self.attachment();
        attachment.explain(self.counters(), detail, &past_kernel);
    }

    /// Has the kernel serve the socket's groups, and all their receivers.
    pub(crate) fn leave_group_flows(&self) {
        self.leave_any(true);
        let flows = std::mem::take(&mut self.attachment().groups.flows);
        for (_, address, interface) in flows.into_places() {
            interface.leave_group(address, self.identity());
        }
    }

    /// Takes the socket from those who receive from every group. `gets_more`: the kernel would still give it what comes.
    pub(crate) fn leave_any(&self, gets_more: bool) {
        let any = std::mem::take(&mut self.attachment().groups.any);
        for it in any {
            it.interface.leave_any(it.port, self.identity(), gets_more);
        }
    }

    /// Takes every flow away from the socket.
    pub(crate) fn drop_flows(&self) {
        let flows = std::mem::take(&mut self.attachment().flows);
        for (interface, flow) in flows {
            interface.leave_flow(&flow, self.identity());
        }
        self.leave_group_flows();
        drop(self.end_receiving());
        self.stamped.clear();
    }
}

/// A detail behind the words of a log line.
pub(crate) fn in_parentheses(detail: &str) -> String {
    if detail.is_empty() {
        String::new()
    } else {
        format!(" ({detail})")
    }
}
