//! Following what changes outside of the library: addresses of the kernel's sockets, the network's
//! configuration, devices.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use links::network::NetworkChange;
use links::reason::Reason;

use crate::sockets::host::Host;
use crate::sockets::stack::{MayOpen, Stack};

impl<S: Stack> Host<S> {
    /// The kernel's socket may have got other addresses: `bind(2)`, `connect(2)`, or a first send.
    pub fn addresses_changed(&self, socket: impl Into<S>) {
        let socket = socket.into();
        let closed = {
            let _control = self.control();
            socket.follow_kernel(self, MayOpen::Yes)
        };
        if closed.is_empty() {
            return;
        }
        // Nobody waits for this who does not need the interface, too.
        for index in closed {
            let _ = self.links.open_for_flows(index);
        }
        let _control = self.control();
        socket.follow_kernel(self, MayOpen::No);
    }

    /// The kernel has made a socket a member of a multicast group (`IP_ADD_MEMBERSHIP`,
    /// `IPV6_JOIN_GROUP` and their like), ended that, or changed whose datagrams it gets.
    pub fn membership_changed(&self, socket: impl Into<S>, group: IpAddr) {
        let socket = socket.into();
        let core = socket.core();
        let links = self.network().interfaces();
        let links: Vec<_> = links.iter().map(|link| link.spec.index).collect();
        let is_done = {
            let _control = self.control();
            core.refresh_membership(&self.segment, group, &links);
            self.ports.member(socket, &core.attachment().groups, group);
            self.groups_joined.store(true, Ordering::Relaxed);
            socket.follow_group(self, group)
        };
        if !is_done {
            self.addresses_changed(socket);
            core.explain_groups();
        }
        self.follow_members();
    }

    /// The host has, perhaps, come to be a member of multicast groups, or is none any more. A
    /// system call at most; any lock may be held.
    pub(crate) fn follow_members(&self) {
        if let Some(change) = self.network().take_member_changes() {
            self.next_hops.outdate(&change);
        }
    }

    /// The same once in each tick of the clock.
    #[inline]
    pub(crate) fn follow_members_now_and_then(&self) {
        let now = sys::tick_nsec();
        if self.members_followed_nsec.load(Ordering::Relaxed) != now {
            self.members_followed_nsec.store(now, Ordering::Relaxed);
            self.follow_members();
        }
    }

    /// Whether datagrams to a group that leave by an interface are for others only. `Err`: they are
    /// to reach members on this host, too, and what the kernel sends does.
    pub(crate) fn no_member_has(&self, link_index: u32, group: IpAddr) -> Result<(), Reason> {
        self.follow_members();
        match self.network().has_members(link_index, group) {
            Some(false) => Ok(()),
            Some(true) => Err(Reason::Looped),
            None => Err(Reason::Multicast),
        }
    }

    /// Takes in what has changed in the network's configuration, without waiting.
    pub fn follow_network(&self) {
        if let Some(change) = self.network().take_changes() {
            self.follow_change(&change);
        }
    }

    /// The network's configuration has changed, no more is known. `interfaces`: links or addresses,
    /// not only routes and neighbours.
    pub fn network_changed(&self, interfaces: bool) {
        self.follow_change(&NetworkChange::everything(interfaces));
    }

    /// The network's configuration has changed.
    pub(crate) fn follow_change(&self, change: &NetworkChange) {
        self.next_hops.outdate(change);
        if !change.interfaces {
            return;
        }
        self.links.follow_change();
        self.follow_kernel_everywhere();
        // Destinations that were resolved meanwhile may show what was before.
        self.next_hops.outdate(change);
    }

    /// Interfaces that others held are free, or one is open: sockets that wait for them go over.
    fn interfaces_are_back(&self) {
        self.follow_kernel_everywhere();
        // Destinations behind them are resolved anew.
        self.next_hops.outdate(&NetworkChange::everything(true));
    }

    /// A device is gone: its sockets go back to the kernel until there is another.
    pub(crate) fn device_lost(&self) {
        self.segment.event(
            "device",
            "",
            "a device is lost: its sockets go to the kernel",
        );
        self.follow_kernel_everywhere();
    }

    fn follow_kernel_everywhere(&self) {
        let follow = |may_open| {
            let _control = self.control();
            let mut closed = Vec::new();
            for (_, socket) in self.sockets() {
                if socket.core().reason() != Reason::NotBound {
                    closed.extend(socket.follow_kernel(self, may_open));
                }
            }
            closed
        };
        let mut closed = follow(MayOpen::Yes);
        if closed.is_empty() {
            return;
        }
        closed.sort_unstable();
        closed.dedup();
        for index in closed {
            let _ = self.links.open_for_flows(index);
        }
        follow(MayOpen::No);
    }

    /// In the internal thread: what did not wait for an interface goes over when that is open.
    pub(crate) fn follow_opened(&self) {
        if self.links.take_opened_late() {
            self.interfaces_are_back();
        }
    }

    /// Takes over what others have held, if nobody does any more. Returns whether to look again
    /// soon.
    pub(crate) fn take_over(&self) -> bool {
        let found = self.links.take_over();
        if found.is_free {
            self.interfaces_are_back();
        }
        self.links.waits_for_holder() && (found.look_soon || found.is_free)
    }
}
