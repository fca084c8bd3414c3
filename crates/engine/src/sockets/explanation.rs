//! What readers of the statistics see of a socket's groups and its reason.

use std::net::{IpAddr, SocketAddr};

use stats::Segment;

use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

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
}
