//! Multicast groups whose datagrams come in on an interface. All receivers of a group are known here before its packets are taken from
//! the kernel, and packets go back to the kernel before the first of them leaves: none misses a datagram that the others get.

use std::net::{SocketAddr, SocketAddrV4};
use std::ptr;

use dev_core::{Flow, Frame, GroupTable, Protocol, Receiver, RxRing, Steering};

use crate::sockets::delivery::Parsed;
use crate::sockets::direct::DirectReceive;
use crate::sockets::interface::Interface;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

impl<S: Stack> Interface<S> {
    /// Makes a socket one of the receivers of a group, or changes what it gets, from the next datagram that comes.
    pub(crate) fn join_group(&self, group: SocketAddrV4, receiver: Receiver<S>) {
        if self.rx.lock().groups.is_steered(group) {
            self.drain();
        }
        let socket = receiver.value;
        let is_it = |other: &S| ptr::eq(other.core(), socket.core());
        self.rx.lock().groups.add(group, receiver, is_it);
    }

    /// Makes it one no longer. From here on the kernel has the group's packets, for all receivers.
    pub(crate) fn leave_group(&self, group: SocketAddrV4, socket: &SocketCore<S>) {
        self.leave_group_to_kernel(group);
        let is_it = |other: &S| ptr::eq(other.core(), socket);
        self.rx.lock().groups.remove(group, is_it);
    }

    /// Takes a group's packets from the kernel. `false`: they are taken already, or the steering refused it.
    pub(crate) fn take_group(&self, group: SocketAddrV4) -> bool {
        if self.rx.lock().groups.is_steered(group) {
            return false;
        }
        let flow = group_flow(group);
        if let Err(error) = self.steering.add(&flow) {
            log::warn!(
                "{}: cannot steer {flow:?} to user space: {error}",
                self.spec.name
            );
            self.stop_steering(&flow);
            return false;
        }
        let mut side = self.rx.lock();
        side.groups.set_steered(group, true);
        // Feeds are for groups. Until one is known for what it is, its first burst would find too few frames.
        side.ring.expect_bursts(true);
        true
    }

    /// Leaves a group's packets to the kernel. Those that are in the receiving ring already are delivered first.
    pub(crate) fn leave_group_to_kernel(&self, group: SocketAddrV4) {
        if !self.rx.lock().groups.is_steered(group) {
            return;
        }
        self.stop_steering(&group_flow(group));
        self.rx.lock().groups.set_steered(group, false);
    }

    /// Gives a datagram to each receiver of its group, to all but the last a copy. Under the ring's lock.
    pub(super) fn deliver_to_group(
        &self,
        groups: &GroupTable<S>,
        packet: &Parsed,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<DirectReceive<'_, '_, S>>,
    ) {
        let (SocketAddr::V4(source), SocketAddr::V4(group)) =
            (packet.source(), packet.destination())
        else {
            // Groups of IPv6 are the kernel's.
            return self.pool.give(frame);
        };
        let mut receivers = groups.receivers(source, group);
        let Some(mut receiver) = receivers.next() else {
            self.stats.rx_dropped_no_socket.add(1);
            return self.pool.give(frame);
        };
        for next in receivers {
            match self.copy_of(&frame) {
                Some(copy) => self.deliver_to(receiver, packet, copy, arrived_nsec, direct),
                None => self.stats.rx_dropped_no_frame.add(1),
            }
            receiver = next;
        }
        self.deliver_to(receiver, packet, frame, arrived_nsec, direct);
    }

    fn copy_of(&self, frame: &Frame) -> Option<Frame> {
        let mut copy = self.pool.take()?;
        let data = self.pool.data(frame);
        if let Some(room) = self.pool.chunk_mut(&mut copy).get_mut(..data.len()) {
            room.copy_from_slice(data);
        }
        self.pool.set_len(&mut copy, data.len());
        Some(copy)
    }
}

fn group_flow(group: SocketAddrV4) -> Flow {
    Flow {
        protocol: Protocol::Udp,
        local: group.into(),
        peer: None,
    }
}
