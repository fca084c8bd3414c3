//! Multicast groups whose datagrams come in on an interface. All receivers of a group are known
//! here before its packets are taken from the kernel, and packets go back to the kernel before the
//! first of them leaves: none misses a datagram that the others get.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use dev_core::{Flow, Frame, GroupMember, GroupTable, NOTED_BYTES, Protocol, Steering};

use crate::delivery::Parsed;
use crate::family::scoped;
use crate::interface::Interface;
use crate::interface::receive_ring::ReceiveRing;
use crate::interface::sources::is_refused_v6;
use crate::receiver::{DirectCall, Identity, Receiver};

impl<S: Receiver> Interface<S> {
    /// Makes a socket one of the receivers of a group, or changes what it gets, from the next
    /// datagram that comes.
    pub fn join_group(&self, group: SocketAddr, member: GroupMember<S>) {
        if self.is_group_steered(group) {
            self.drain();
        }
        let socket = member.value;
        let is_it = |other: &S| other.identity() == socket.identity();
        self.rx.lock_all().groups.add(group, member, is_it);
    }

    /// Makes it one no longer. From here on the kernel has the group's packets, for all receivers.
    pub fn leave_group(&self, group: SocketAddr, socket: Identity) {
        self.leave_group_to_kernel(group);
        let is_it = |other: &S| other.identity() == socket;
        self.rx.lock_all().groups.remove(group, is_it);
    }

    /// Makes a socket one of the receivers of every group of a port that is taken, of IPv4 or IPv6,
    /// from the next datagram that comes. `except`: groups in which it has a place of its own.
    pub fn join_any(&self, port: (u16, bool), member: GroupMember<S>, except: HashSet<IpAddr>) {
        if self.steered_count(port) > 0 {
            self.drain();
        }
        let socket = member.value;
        let is_it = |other: &S| other.identity() == socket.identity();
        let mut tables = self.rx.lock_all();
        tables.groups.add_to_any(port, member, except, is_it);
    }

    /// Makes it one no longer. `gets_more`: the kernel would still give it what comes, so it has
    /// the groups' packets, for all receivers.
    pub fn leave_any(&self, port: (u16, bool), socket: Identity, gets_more: bool) {
        let is_it = |other: &S| other.identity() == socket;
        if gets_more || !self.rx.lock(0).common().groups.any_has_others(port, is_it) {
            for group in self.steered_groups(port) {
                self.leave_group_to_kernel(SocketAddr::new(group, port.0));
            }
        }
        self.rx.lock_all().groups.remove_from_any(port, is_it);
    }

    /// The groups of a port, of IPv4 or IPv6, whose packets are taken from the kernel.
    pub fn steered_groups(&self, port: (u16, bool)) -> Vec<IpAddr> {
        self.rx.lock(0).common().groups.steered(port).collect()
    }

    pub fn steered_count(&self, port: (u16, bool)) -> usize {
        self.rx.lock(0).common().groups.steered_count(port)
    }

    pub fn is_group_steered(&self, group: SocketAddr) -> bool {
        self.rx.lock(0).common().groups.is_steered(group)
    }

    /// Takes a group's packets from the kernel. `false`: they are taken already, or the steering
    /// refused it.
    pub fn take_group(&self, group: SocketAddr) -> bool {
        if self.is_group_steered(group) {
            return false;
        }
        let flow = group_flow(group);
        // Whoever receives from every group has what comes from the first packet on.
        self.rx.lock_all().groups.set_steered(group, true);
        if !self.is_group_steered(group) {
            return false;
        }
        if let Err(error) = self.steering.add(&flow) {
            log::warn!(
                "{}: cannot steer {flow:?} to user space: {error}",
                self.spec.name
            );
            self.stop_steering(&flow);
            self.rx.lock_all().groups.set_steered(group, false);
            return false;
        }
        // Feeds are for groups. Until one is known for what it is, its first burst would find too
        // few frames.
        self.expect_bursts();
        true
    }

    /// Leaves a group's packets to the kernel. Those that are in the receiving rings already are
    /// delivered first.
    pub fn leave_group_to_kernel(&self, group: SocketAddr) {
        if !self.is_group_steered(group) {
            return;
        }
        self.stop_steering(&group_flow(group));
        self.rx.lock_all().groups.set_steered(group, false);
    }

    /// Gives a datagram to each receiver of its group, to all but the last a copy. Under the ring's
    /// lock.
    pub(super) fn deliver_to_group<D: DirectCall<S>>(
        &self,
        (receiver, groups): (&ReceiveRing<S::Backend>, &GroupTable<S>),
        packet: &Parsed,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<D>,
    ) {
        let source = scoped(packet.source(), self.spec.index);
        if is_refused_v6(source.ip()) {
            receiver.stats.rx_dropped_malformed.add(1);
            return self.pool.give(frame);
        }
        let mut members = groups.receivers(source, packet.destination());
        let Some(mut member) = members.next() else {
            receiver.stats.rx_dropped_no_socket.add(1);
            return self.pool.give(frame);
        };
        for next in members {
            match self.pool.copy(&frame, NOTED_BYTES) {
                Some(copy) => self.deliver_to(member, packet, copy, arrived_nsec, direct),
                None => receiver.stats.rx_dropped_no_frame.add(1),
            }
            member = next;
        }
        self.deliver_to(member, packet, frame, arrived_nsec, direct);
    }
}

fn group_flow(group: SocketAddr) -> Flow {
    Flow {
        protocol: Protocol::Udp,
        local: group,
        peer: None,
    }
}
