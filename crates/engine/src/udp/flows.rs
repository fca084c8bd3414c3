//! The way into user space and back: which flows a socket has, following what the kernel's socket
//! says of itself.
//!
//! Every function here runs under the engine's control lock.

mod facts;

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use dev_core::Flow;
use links::Absent;
use links::family::Addresses;
use links::groups::{AnyFlow, GroupFlows, Interest};
use links::interface::Interface;
use links::network::InterfaceFacts;
use links::reason::Reason;

use crate::sockets::hand_over;
use crate::sockets::hand_over::in_parentheses;
use crate::sockets::host::Host;
use crate::sockets::offload::{self, NotOffloaded, PortSharing};
use crate::sockets::stack::{MayOpen, Stack};
use crate::udp::groups::{self, Wanted};
use crate::udp::socket::{UdpSocket, UdpStack};

/// Those of some interfaces that are to be opened, or are being opened.
fn closed_among<S: Stack>(host: &Host<S>, indexes: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let is_closed = |index: &u32| {
        let open = host.links.get(*index);
        matches!(open, Err(Absent::Closed | Absent::Opening))
    };
    indexes.into_iter().filter(is_closed).collect()
}

/// Flows, each on an interface.
type Attached<S> = Vec<(&'static Interface<S>, Flow)>;

fn has<S: Stack>(flows: &Attached<S>, index: u32, flow: &Flow) -> bool {
    let is_it = |(interface, other): &(&Interface<S>, Flow)| {
        interface.spec().index == index && other == flow
    };
    flows.iter().any(is_it)
}

impl<S: UdpStack> UdpSocket<S> {
    /// Brings the flows in line with the addresses that the kernel's socket has. To be called after
    /// every call that may have changed them, and when the network's configuration has changed.
    ///
    /// If there are interfaces to open first, nothing is done, and their indexes are returned: the
    /// caller opens them without the lock and calls again.
    pub(crate) fn follow_kernel(&'static self, host: &Host<S>, may_open: MayOpen) -> Vec<u32> {
        let (before, interest_before) = self.interest();
        let closed = self.follow_alone(host, may_open);
        if !closed.is_empty() || !host.has_groups() {
            return closed;
        }
        let (now, interest) = self.interest();
        if before == now {
            groups::follow_port(host, now, interest.and(interest_before), Some(self));
        } else {
            groups::follow_port(host, now, interest, Some(self));
            groups::follow_port(host, before, interest_before, None);
        }
        closed
    }

    /// Where other sockets are that may have something to do with this one's groups, and with
    /// which.
    pub(crate) fn interest(&self) -> (SocketAddr, Interest) {
        let is_committed = self.is_committed();
        let groups = &self.attachment().groups;
        (groups.local, groups.interest(is_committed))
    }

    /// The same without regard to other sockets, whose groups this one may receive from.
    pub(super) fn follow_alone(&'static self, host: &Host<S>, may_open: MayOpen) -> Vec<u32> {
        let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
        let Ok(Some(addresses)) = Addresses::of(fd) else {
            return Vec::new();
        };
        let local = addresses.local;
        let is_bound = local.port() != 0;
        let rules = self.note_addresses(host, &addresses);
        // What such a socket receives is the kernel's for good; what it sends may come to be.
        let only_sends = self.is_committed() && self.reason() == Reason::ReceiverRule && is_bound;
        if self.is_committed() && !only_sends {
            return Vec::new();
        }
        if !is_bound {
            self.note_unbound();
            return Vec::new();
        }
        let facts = self.gather(host, fd, &addresses, rules);
        let interfaces = host.links.facts();
        let groups = groups::wanted(host, self, &interfaces);
        let plan = match offload::plan(&facts, &interfaces) {
            // What is for it alone is the kernel's, its groups need not be.
            Err(_) if !groups.is_empty() => Ok(Vec::new()),
            plan => plan,
        };
        if may_open == MayOpen::Yes {
            let closed = match &plan {
                Ok(flows) if !only_sends => {
                    let of_flows = flows.iter().map(|it| it.0);
                    let mut links: Vec<_> = of_flows.chain(groups.links()).collect();
                    links.sort_unstable();
                    links.dedup();
                    closed_among(host, links)
                }
                // So that changes of the network are followed, on which the ways of what it sends
                // depend.
                Err(refusal) if refusal.reason == Reason::ReceiverRule => {
                    closed_among(host, host.links.owner_of(local, &interfaces))
                }
                _ => Vec::new(),
            };
            if !closed.is_empty() {
                return closed;
            }
        }
        let outcome = match plan {
            Ok(_) if only_sends => return Vec::new(),
            Ok(_) if !self.claim() => {
                self.commit();
                self.leaves_shares(host);
                self.drop_flows();
                Reason::Forked.into()
            }
            Ok(flows) => {
                if self.is_held() {
                    self.os_polls.begin_with_kernel();
                }
                let is_joint = facts.sharing == PortSharing::Joint;
                self.change_flows(host, (&flows, is_joint), groups).into()
            }
            Err(refusal) => {
                self.drop_flows();
                refusal
            }
        };
        self.conclude(host, local, &outcome, &interfaces);
        Vec::new()
    }

    /// Shows what has come of it, if that is something else than before, and leaves to the kernel
    /// what is not past it.
    fn conclude(
        &'static self,
        host: &Host<S>,
        local: SocketAddr,
        outcome: &NotOffloaded<'_>,
        interfaces: &[InterfaceFacts],
    ) {
        let reason = outcome.reason;
        let rule = outcome.rule.map_or(0, |rule| rule.number);
        let had_rule = std::mem::replace(&mut self.attachment().rule, rule);
        if reason != self.reason() || rule != had_rule {
            self.show_change(host, local, outcome, interfaces);
        }
        if self.reason() != Reason::Offloaded {
            if self.is_committed() {
                // A thread that waits in the kernel would not learn of what came by a flow.
                self.hand_over_queue(host);
            }
            self.release();
        }
        self.interfaces_changed();
    }

    fn show_change(
        &'static self,
        host: &Host<S>,
        local: SocketAddr,
        outcome: &NotOffloaded<'_>,
        interfaces: &[InterfaceFacts],
    ) {
        let reason = outcome.reason;
        let detail = match reason {
            Reason::Held => host.links.holders_of(local.ip(), interfaces),
            Reason::PortShared => self.attachment().sharing_option().to_owned(),
            _ => outcome.detail(local, interfaces),
        };
        if self.is_held() {
            // What came before the change is in the kernel's queue.
            let hint = &self.kernel_socket.readable_hint;
            hint.store(true, Ordering::Relaxed);
        }
        if self.set_reason_about(reason, outcome.rule, &detail) {
            host.count_reason(reason);
            let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
            let text = format!("{local}: {outcome}{}", in_parentheses(&detail));
            log::debug!("fd {fd}: {text}");
            host.socket_event(reason, fd, &text);
        } else {
            // A thread has gone to wait in the kernel meanwhile.
            self.drop_flows();
        }
    }

    /// The socket is about to be the kernel's: so are the groups that it receives from, or may come
    /// to.
    pub(crate) fn leaves_groups(&'static self, host: &Host<S>) {
        if host.has_groups() {
            let (local, interest) = self.interest();
            groups::follow_port(host, local, interest, Some(self));
        }
    }

    /// Goes over from the flows it has to those it should have, which other processes have part of,
    /// perhaps. New ones come first, so that no packet falls between.
    fn change_flows(
        &'static self,
        host: &Host<S>,
        wanted: (&[(u32, Flow)], bool),
        groups: Wanted,
    ) -> Reason {
        let had = std::mem::take(&mut self.attachment().flows);
        let (mut flows, mut reason) = self.attach_wanted(host, wanted, &had);
        let mut left = had;
        if reason == Reason::PortShared {
            left.append(&mut flows);
        } else {
            let is_kept = |(interface, flow): &(&Interface<S>, Flow)| {
                let mut kept = flows.iter();
                kept.any(|(other, it)| std::ptr::eq(*other, *interface) && it == flow)
            };
            left.retain(|it| !is_kept(it));
        }
        for (interface, flow) in left {
            interface.leave_flow(&flow, self.identity());
        }
        let groups = match reason {
            Reason::PortShared => Wanted::default(),
            _ => groups,
        };
        self.change_any(host, &groups.any, &mut reason);
        let group_flows = self.change_groups(host, &groups.places, &mut reason);
        let rings = self.end_receiving();
        for (interface, flow) in &flows {
            self.begin_receiving(interface, flow.local.ip());
        }
        for address in group_flows.groups() {
            for (_, interface) in group_flows.of(address) {
                self.begin_receiving(interface, address.ip());
            }
        }
        let any = self.attachment().groups.any.clone();
        for it in &any {
            self.begin_receiving(it.interface, groups::any_address(it.port.1));
        }
        drop(rings);
        self.follow_wish_for_stamps();
        let offloaded = !flows.is_empty() || !group_flows.is_empty() || !any.is_empty();
        let mut attachment = self.attachment();
        attachment.flows = flows;
        attachment.groups.flows = group_flows;
        drop(attachment);
        self.bring_flows();
        if host.has_groups() {
            self.explain_groups();
        }
        if offloaded { Reason::Offloaded } else { reason }
    }

    /// Attaches the flows that it does not have yet. Returns those that it has then, and why the
    /// last of the others is not among them: with [`Reason::PortShared`], all are the kernel's.
    fn attach_wanted(
        &'static self,
        host: &Host<S>,
        (wanted, is_joint): (&[(u32, Flow)], bool),
        had: &Attached<S>,
    ) -> (Attached<S>, Reason) {
        let mut reason = Reason::OpenFailed;
        let mut flows = Vec::new();
        for (index, flow) in wanted {
            let interface = match host.links.get_for_flows(*index) {
                Ok(interface) => interface,
                Err(absent) => {
                    reason = self.reason_of_absence(host, *index, absent);
                    continue;
                }
            };
            if is_joint && !interface.is_joint() {
                reason = Reason::PortShared;
                break;
            }
            let attached = if has(had, *index, flow) {
                Ok(())
            } else {
                self.attach(interface, flow)
            };
            match attached {
                Ok(()) => flows.push((interface, *flow)),
                Err(None) => reason = Reason::SteeringFailed,
                Err(Some(owner)) => {
                    // Only the kernel knows which of several sockets on one port a packet is for.
                    reason = Reason::PortShared;
                    self.commit();
                    let option = owner.core().attachment().sharing_option();
                    hand_over::hand_over(host, owner, reason, option);
                    break;
                }
            }
        }
        (flows, reason)
    }

    /// The socket has chosen by which rings it sends and receives.
    pub(crate) fn follow_ring_choice(&'static self, host: &Host<S>) {
        let policy = self.sending_policy(host.settings());
        self.send.lock().choose_rings(policy);
        host.addresses_changed(self);
    }

    /// `Err`: as [`Interface::attach`], which it is unless the flow belongs to a socket with which
    /// this one shares its port.
    fn attach(&'static self, interface: &Interface<S>, flow: &Flow) -> Result<(), Option<S>> {
        let place = |socket: &Self| {
            let attachment = socket.attachment();
            (attachment.local, attachment.has_equals())
        };
        let (local, has_equals) = place(self);
        if !has_equals || flow.peer.is_some() {
            return interface.attach(flow, self.into());
        }
        // SAFETY: the program may not close it while a call of its library is about it.
        let kernels = unsafe { BorrowedFd::borrow_raw(self.fd()) };
        interface.attach_joining(flow, self.into(), kernels, |owner| {
            owner
                .as_udp()
                .is_some_and(|other| place(other) == (local, true))
        })
    }

    /// The socket is about to be the kernel's, which may have part of what came to the sockets that
    /// it shares its port with: so are they.
    pub(crate) fn leaves_shares(&self, host: &Host<S>) {
        let flows = std::mem::take(&mut self.attachment().flows);
        for (interface, flow) in flows {
            let others = interface.sharers(&flow, self.identity());
            interface.leave_flow(&flow, self.identity());
            for other in others {
                let option = other.core().attachment().sharing_option();
                hand_over::hand_over(host, other, Reason::PortShared, option);
            }
        }
    }

    /// The same for what it is to have of every group. New ones come first: it has places in groups
    /// of its own still, which say what it does not have so.
    fn change_any(&'static self, host: &Host<S>, wanted: &[(u32, bool)], reason: &mut Reason) {
        let mut any = Vec::new();
        for (index, is_v6) in wanted {
            match host.links.get_for_flows(*index) {
                Ok(interface) => any.push(self.begin_any(interface, *is_v6)),
                Err(absent) => *reason = self.reason_of_absence(host, *index, absent),
            }
        }
        let is_kept = |it: &AnyFlow<S>| {
            let is_same =
                |new: &AnyFlow<S>| new.port == it.port && std::ptr::eq(new.interface, it.interface);
            any.iter().any(is_same)
        };
        let had = std::mem::take(&mut self.attachment().groups.any);
        for it in had.into_iter().filter(|it| !is_kept(it)) {
            let gets_more = {
                let groups = &self.attachment().groups;
                let is_here = groups.local.port() == it.port.0;
                is_here && groups.takes_any(it.interface.spec().index, it.port.1)
            };
            it.interface.leave_any(it.port, self.identity(), gets_more);
        }
        self.attachment().groups.any = any;
    }

    /// The same for groups, of which it only becomes a receiver: their packets are taken when all
    /// receivers are there.
    fn change_groups(
        &'static self,
        host: &Host<S>,
        wanted: &[(u32, SocketAddr)],
        reason: &mut Reason,
    ) -> GroupFlows<S> {
        let had = std::mem::take(&mut self.attachment().groups.flows);
        let mut flows = GroupFlows::default();
        for (index, address) in wanted {
            match host.links.get_for_flows(*index) {
                Ok(interface) => {
                    let receiver =
                        self.attachment()
                            .groups
                            .receiver(self.into(), *index, address.ip());
                    interface.join_group(*address, receiver);
                    flows.insert(*index, *address, interface);
                }
                Err(absent) => *reason = self.reason_of_absence(host, *index, absent),
            }
        }
        for (link_index, address, interface) in had.into_places() {
            if !flows.has(link_index, address) {
                interface.leave_group(address, self.identity());
            }
        }
        flows
    }

    fn reason_of_absence(&self, host: &Host<S>, index: u32, absent: Absent) -> Reason {
        match absent {
            Absent::Refused(refused) => refused,
            Absent::Opening => Reason::Opening,
            // Tried some time ago, or not possible for this thread.
            Absent::Closed => host.links.failure(index).unwrap_or(Reason::OpenFailed),
        }
    }
}
