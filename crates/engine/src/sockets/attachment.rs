//! Where a socket gets its packets from, how many descriptors stand for it, and what its reason is about.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use dev_core::Flow;
use stats::{GroupSlot, Segment, SocketStats};
use vma_config::rules::ProcessRules;

use crate::sockets::groups::SocketGroups;
use crate::sockets::interface::Interface;
use crate::sockets::shared::SharedSocket;
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
    /// The rules that were in force when the socket was first looked at; later ones are for later sockets.
    pub(crate) rules: Option<&'static ProcessRules>,
    /// The socket was made in another network namespace; `None`: nobody has looked yet.
    pub(crate) foreign: Option<bool>,
    /// `SO_REUSEADDR`
    pub(crate) reuses_address: bool,
    /// Number of the rule that decided last, or 0.
    pub(crate) rule: u32,
    /// Multicast groups that the socket is a member of, as readers see them.
    shown_groups: Vec<Ipv4Addr>,
    /// How readers see them, in the same order.
    group_slots: Vec<GroupSlot>,
    /// What the reason is about, as readers see it.
    pub(crate) detail: String,
    pub(crate) flows: Vec<(&'static Interface<S>, Flow)>,
    /// What decides about multicast past the kernel.
    pub(crate) groups: SocketGroups<S>,
    /// A listener of an ancestor's, from which this process accepts.
    pub(crate) inherited: Option<&'static SharedSocket>,
}

impl<S: Stack> Default for Attachment<S> {
    fn default() -> Self {
        Self {
            descriptors: 0,
            rules: None,
            foreign: None,
            reuses_address: false,
            rule: 0,
            shown_groups: Vec::new(),
            group_slots: Vec::new(),
            detail: String::new(),
            flows: Vec::new(),
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

    pub(crate) fn opened() -> Self {
        Self {
            descriptors: 1,
            ..Self::default()
        }
    }

    /// The socket is closed, and a member of nothing any more.
    pub(crate) fn leave_groups(&mut self) {
        self.shown_groups.clear();
        self.group_slots.clear();
        self.groups = SocketGroups::default();
    }

    /// Shows what the socket's reason is about, and its groups.
    pub(crate) fn explain(&mut self, counters: &SocketStats, detail: &str) {
        if self.detail != detail {
            detail.clone_into(&mut self.detail);
        }
        let mut shown = self.detail.clone();
        let flows = self.groups.flows.keys();
        let past_kernel: HashSet<_> = flows.map(|(_, address)| address.ip()).collect();
        let through_kernel = self
            .shown_groups
            .iter()
            .filter(|it| !past_kernel.contains(it));
        for (index, group) in through_kernel.enumerate() {
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
    /// Takes note of a multicast group that the socket has become a member of, or is no longer.
    pub(crate) fn change_membership(&self, segment: &Segment, group: Ipv4Addr, joined: bool) {
        let mut attachment = self.attachment();
        // On several interfaces, or for several sources, it may be a member more than once.
        if joined {
            let slot = segment.claim_group();
            slot.fd.set(self.fd());
            slot.group.set(SocketAddrV4::new(group, 0).into());
            attachment.group_slots.push(slot);
            attachment.shown_groups.push(group);
        } else if let Some(place) = attachment.shown_groups.iter().position(|it| *it == group) {
            attachment.shown_groups.remove(place);
            attachment.group_slots.remove(place);
        }
        drop(attachment);
        self.explain_groups();
    }

    /// Shows which of the socket's groups go through the kernel.
    pub(crate) fn explain_groups(&self) {
        let mut attachment = self.attachment();
        let detail = attachment.detail.clone();
        attachment.explain(self.counters(), &detail);
    }

    /// Has the kernel serve the socket's groups, and all their receivers.
    pub(crate) fn leave_group_flows(&self) {
        let flows = std::mem::take(&mut self.attachment().groups.flows);
        for ((_, address), interface) in flows {
            interface.leave_group(address, self);
        }
    }

    /// Takes every flow away from the socket.
    pub(crate) fn drop_flows(&self) {
        let flows = std::mem::take(&mut self.attachment().flows);
        for (interface, flow) in flows {
            interface.detach(&flow);
        }
        self.leave_group_flows();
        self.interfaces.clear();
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
