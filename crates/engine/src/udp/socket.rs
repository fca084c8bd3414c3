//! A UDP socket.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use dev_core::{Frame, FramePool, Lock, Rank};
use libc::c_int;
use links::delivery::Arrival;
use links::family::Family;
use links::groups::GroupInterface;
use links::rings::RingPolicy;
use links::settings::Settings;
use stats::{SocketSlot, SocketStats};
use sys::Errno;
use wire::UdpDatagram;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::shared::Shared;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::{SocketWatcher, Stack};
use crate::sockets::unseen::Unseen;
use crate::udp::datagram::Received;
use crate::udp::destination::SendState;
use crate::udp::os_polls::OsPolls;
use crate::udp::queue::receive_queue::ReceiveQueue;

/// A UDP socket: the kernel's socket, and beside it a queue of what came past the kernel.
pub struct UdpSocket<S: Stack> {
    pub(super) core: SocketCore<S>,
    pub(super) receive: Lock<ReceiveQueue>,
    pub(super) os_polls: OsPolls,
    pub(super) send: Lock<SendState<S>>,
    /// The threads that received and sent last.
    pub(super) receiver: AtomicUsize,
    pub(super) sender: AtomicUsize,
    pub(super) pool: &'static FramePool,
    /// `VMA_RX_BYTES_MIN`
    pub(super) receive_bytes_min: usize,
    pub(super) rings: RingPolicy,
}

/// Kinds of sockets with UDP among them.
pub trait UdpStack: Stack + From<&'static UdpSocket<Self>> {
    /// The socket, if it is one.
    fn as_udp(self) -> Option<&'static UdpSocket<Self>>;
}

/// A UDP socket is a socket.
impl<S: Stack> Deref for UdpSocket<S> {
    type Target = SocketCore<S>;

    #[inline]
    fn deref(&self) -> &SocketCore<S> {
        &self.core
    }
}

impl<S: Stack> UdpSocket<S> {
    pub(crate) fn new(
        pool: &'static FramePool,
        settings: &Settings,
        overflow: &'static SocketStats,
        shared: Option<Shared>,
        unseen: &'static Unseen<S>,
    ) -> Self {
        let mode = settings.thread_mode;
        Self {
            // The kernel socket knows when sending is possible, and of errors.
            core: SocketCore::new(events::OUT, overflow, shared, unseen),
            receive: Lock::new(mode, ReceiveQueue::new()).ranked(Rank::Socket),
            os_polls: OsPolls::default(),
            send: Lock::new(mode, SendState::default()),
            receiver: AtomicUsize::new(0),
            sender: AtomicUsize::new(0),
            pool,
            receive_bytes_min: settings.receive_bytes_min,
            rings: settings.rings_tx,
        }
    }

    /// The next call is to fail with this, and `poll(2)` and its like to show it. Nobody is woken
    /// or told of it: the kernel sets its `sk_err` here without a word, too.
    pub fn postpone_error(&self, errno: Errno) {
        let queue = self.receive.lock();
        self.kernel_socket.postpone_error(errno);
        self.readiness.set(events::ERR);
        drop(queue);
        for watcher in self.readiness.watchers() {
            watcher.error_is_postponed();
        }
    }

    /// Whether it has a peer, as far as is known here.
    pub fn is_connected(&self) -> bool {
        self.send.lock().peer.is_some()
    }

    /// What `SO_ERROR` is, beside what the kernel knows of.
    pub fn take_postponed_error(&self) -> Option<Errno> {
        if self.readiness.now() & events::ERR == 0 {
            return None;
        }
        let _queue = self.receive.lock();
        self.readiness.clear(events::ERR);
        self.kernel_socket.take_postponed_error()
    }

    /// Begins a life of the object, for a new descriptor of the kernel.
    pub(crate) fn open(
        &self,
        fd: c_int,
        family: Family,
        nonblocking: bool,
        slot: SocketSlot,
        forks_before: u32,
    ) {
        let protocol = stats::PROTOCOL_UDP;
        self.core
            .prepare(fd, family, nonblocking, protocol, slot, forks_before);
        self.os_polls.hit();
        self.os_polls.begin_with_rings();
        self.receiver.store(0, Ordering::Relaxed);
        self.sender.store(0, Ordering::Relaxed);
        self.send.lock().start_afresh(self.rings);
        self.refresh_receive_limit();
        self.tell_nothing();
        if self.core.unseen.is_xtreme() {
            self.tells_its_ring();
        }
        self.core.begin();
    }

    /// In a descendant, of an ancestor's socket: whether that has set `IP_MULTICAST_IF` or
    /// `IPV6_MTU`. `None`: another thread of it sent at the fork.
    pub(crate) fn has_what_nobody_tells(&self) -> Option<bool> {
        let send = self.send.try_lock()?;
        Some(send.group_interface.is_some() || send.packet_len_max != 0)
    }

    /// Ends a life of the object. The flows are gone already.
    pub(crate) fn close(&self) {
        self.core.end_taking();
        self.core.end();
        let mut queue = self.receive.lock();
        queue.clear(self.pool);
        self.queue_changed(&queue);
        drop(queue);
        // Others may have its rings.
        self.send.lock().forget_destinations();
        self.leave_queue();
        self.core.leave();
    }

    /// The kernel has accepted an `IP_MULTICAST_IF`. It tells nobody of an index later, so it is
    /// taken from the call.
    pub fn group_interface_was_set(&self, host: &Host<S>, value: &[u8]) {
        let chosen = GroupInterface::parse(value);
        let index = match chosen {
            GroupInterface::Any => None,
            GroupInterface::Index(index) => Some(index),
            GroupInterface::Address(address) => {
                let links = host.network().interfaces();
                let owner = links
                    .iter()
                    .find(|link| link.addresses.contains(&address.into()));
                owner.map(|link| link.spec.index)
            }
        };
        self.send.lock().group_interface = index;
        // The caller has the destinations forgotten.
    }

    /// The kernel has accepted an `IPV6_MTU`: the longest packet of IPv6 in bytes, or 0 for no
    /// limit. It tells nobody later.
    pub fn packet_len_was_set(&self, len: u32) {
        self.send.lock().packet_len_max = len;
        // The caller has the destinations forgotten.
    }

    /// Addresses or options have changed that the headers of sent packets show.
    pub(crate) fn forget_destinations(&self) {
        self.send.lock().forget_destinations();
    }
}

impl<S: UdpStack> UdpSocket<S> {
    /// A datagram came past the kernel. `Err`: the queue is full.
    #[inline]
    pub(crate) fn deliver(
        &'static self,
        datagram: &UdpDatagram,
        frame: Frame,
        arrival: Arrival,
    ) -> Result<(), Frame> {
        self.queue(Received::new(frame, datagram, arrival), arrival.interface)
            .map_err(Received::into_frame)
    }
}

impl<S: Stack> fmt::Debug for UdpSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket")
            .field("fd", &self.core.kernel_socket.fd)
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}
