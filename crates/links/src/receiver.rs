//! Who receives packets, as far as an interface has to know.

use std::fmt;
use std::net::SocketAddr;

use dev_core::{Backend, Frame, FramePool};

use crate::delivery::{Arrival, Parsed};
use crate::interface::large_packet::LargePacket;

/// Sockets of any kind, by reference. Interfaces are generic over it, so that a packet's way to its
/// socket is a `match` and no call through a pointer.
pub trait Receiver: Copy + fmt::Debug + Send + Sync + 'static {
    /// The kind of device.
    type Backend: Backend;
    /// Which of all it is.
    fn identity(self) -> Identity;

    /// A packet came past the kernel, to one of the socket's flows. `Err`: it is dropped. Under the
    /// ring's lock.
    fn deliver(self, packet: &Parsed, frame: Frame, arrival: Arrival) -> Result<(), Frame>;

    /// The same for a packet that was longer than a frame, whose pieces are together again.
    /// `link_index`: the interface's.
    fn deliver_large(self, packet: &Parsed, large: LargePacket, link_index: u32);

    /// Does what it has left to the end of a batch, which came from the interface with the index
    /// `polled`. No lock is held. The caller tells that interface's device of what was put into its
    /// ring.
    fn end_batch(self, polled: u32);

    /// Whether others may have part of the packets that reach its port, of those that have no flow
    /// of their own.
    fn may_share(self) -> bool;

    /// The ends of the connections that the socket is about to accept, its own first, at an address
    /// of its own or, with the unspecified one, at any: what else comes by them is for it, whoever
    /// shares the address. Under all ring locks.
    fn each_waiting(self, local: SocketAddr, ends: &mut dyn FnMut(SocketAddr, SocketAddr));
}

/// A receive call that polls, and has the first packet for its socket put straight into its
/// buffers.
pub trait DirectCall<S> {
    /// Whether it has no result yet, and waits for what comes to this socket.
    fn waits_for(&self, socket: S) -> bool;

    /// Takes a packet that came for it past the kernel, unless something else is to be read before
    /// it; then the packet is to be [delivered](Receiver::deliver). Returns whether the call has a
    /// result. Under the ring's lock.
    fn receive(&mut self, socket: S, packet: &Parsed, frame: &Frame, arrival: Arrival) -> bool;

    /// Takes the frame of the packet that it has [received](Self::receive), if it is to stay where
    /// it is.
    fn keep(&mut self, pool: &'static FramePool, frame: Frame) -> Result<(), Frame>;
}

/// No call: packets are delivered to their sockets' queues.
#[derive(Debug)]
pub enum NoCall {}

impl<S> DirectCall<S> for NoCall {
    fn waits_for(&self, _: S) -> bool {
        match *self {}
    }

    fn receive(&mut self, _: S, _: &Parsed, _: &Frame, _: Arrival) -> bool {
        match *self {}
    }

    fn keep(&mut self, _: &'static FramePool, _: Frame) -> Result<(), Frame> {
        match *self {}
    }
}

/// Which socket it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(usize);

impl Identity {
    /// Of what is common to all kinds of sockets. It is never freed, so that its address is no
    /// other's.
    #[inline]
    pub fn of<T>(core: &T) -> Self {
        Self(std::ptr::from_ref(core).addr())
    }
}
