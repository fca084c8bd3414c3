//! The state of a UDP socket and its receive queue.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddrV4;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::c_int;
use ring::{Backend, Frame, FramePool, Lock, ThreadMode};
use stats::{SocketSlot, SocketStats};
use wire::UdpDatagram;

use crate::interface::InterfaceSet;
use crate::message::Message;
use crate::mux::epoll::Registration;
use crate::reason::Reason;
use crate::sys::{self, Errno};
use crate::udp::attach::Attachment;
use crate::udp::destination::SendState;
use crate::udp::os_polls::OsPolls;
use crate::wait::WaitQueue;

/// A socket may always hold this many bytes (`VMA_RX_BYTES_MIN`).
const RECEIVE_BYTES_MIN: usize = 65_536;

/// IPv4 and UDP headers before a payload.
const IP_UDP_HEADERS: usize = 28;
/// Where a UDP checksum lies behind an IPv4 header without options.
const UDP_CHECKSUM: std::ops::Range<usize> = 26..28;

/// A datagram in a frame of the pool.
#[derive(Debug)]
pub(crate) struct Received {
    frame: Frame,
    source: SocketAddrV4,
    payload_offset: u16,
    payload_len: u16,
}

impl Received {
    #[inline]
    pub(crate) fn new(frame: Frame, datagram: &UdpDatagram) -> Self {
        Self {
            frame,
            source: datagram.source,
            payload_offset: datagram.payload_offset,
            payload_len: datagram.payload_len,
        }
    }

    pub(crate) fn into_frame(self) -> Frame {
        self.frame
    }

    #[inline]
    fn payload<'a>(&'a self, pool: &'a FramePool) -> &'a [u8] {
        let start = usize::from(self.payload_offset);
        let end = start + usize::from(self.payload_len);
        // The parser has checked that the payload lies in the frame.
        pool.data(&self.frame).get(start..end).unwrap_or_default()
    }
}

/// The receive queue, under its lock.
#[derive(Debug)]
struct ReceiveQueue<B: Backend> {
    datagrams: VecDeque<Received>,
    bytes: usize,
    /// `SO_RCVBUF` as the kernel reports it.
    limit_bytes: usize,
    /// So that one socket cannot take the whole pool.
    limit_datagrams: usize,
    registrations: Vec<Arc<Registration<B>>>,
}

/// What the kernel's socket says about a descriptor that the engine needs for every call.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    /// The descriptor, as long as it is open.
    pub(crate) fd: AtomicI32,
    /// `O_NONBLOCK`
    pub(crate) nonblocking: AtomicBool,
    /// `SO_RCVTIMEO` in nanoseconds, 0 for none.
    pub(crate) receive_timeout_nsec: AtomicU64,
    /// `poll(2)` or its like said that the kernel's socket has something to read.
    pub(crate) readable_hint: AtomicBool,
}

/// A UDP socket: the kernel's socket, and beside it a queue of what came past the kernel.
///
/// Lives in type-stable memory: a descriptor that was closed while another thread used it leads to an object with
/// another generation, never to freed memory.
pub struct UdpSocket<B: Backend> {
    /// Odd while open; moves on when the socket is opened and closed.
    generation: AtomicU32,
    /// Code of the [`Reason`] for which the socket is not accelerated, 0 if it is.
    reason: AtomicU32,
    /// The socket has been accelerated in this life.
    was_offloaded: AtomicBool,
    /// The socket stays with the kernel for the rest of this life.
    committed: AtomicBool,
    /// Datagrams in the receive queue, readable without its lock.
    pending: AtomicU32,
    pub(crate) shadow: Shadow,
    pub(crate) interfaces: InterfaceSet<B>,
    receive: Lock<ReceiveQueue<B>>,
    pub(crate) waiters: WaitQueue,
    pub(super) os_polls: OsPolls,
    pub(super) send: Lock<SendState<B>>,
    pub(super) attachment: Mutex<Attachment<B>>,
    /// The threads that received and sent last.
    receiver: AtomicUsize,
    pub(super) sender: AtomicUsize,
    slot: Mutex<Option<SocketSlot>>,
    counters: AtomicPtr<SocketStats>,
    /// Where a socket counts that the statistics segment has no room for.
    unseen: &'static SocketStats,
    pool: &'static FramePool,
}

impl<B: Backend> UdpSocket<B> {
    pub(crate) fn new(
        pool: &'static FramePool,
        mode: ThreadMode,
        unseen: &'static SocketStats,
    ) -> Self {
        let receive = ReceiveQueue {
            datagrams: VecDeque::new(),
            bytes: 0,
            limit_bytes: 0,
            limit_datagrams: pool.frame_count() as usize / 2,
            registrations: Vec::new(),
        };
        Self {
            generation: AtomicU32::new(0),
            reason: AtomicU32::new(Reason::NotBound as u32),
            was_offloaded: AtomicBool::new(false),
            committed: AtomicBool::new(false),
            pending: AtomicU32::new(0),
            shadow: Shadow::default(),
            interfaces: InterfaceSet::new(),
            receive: Lock::new(mode, receive),
            waiters: WaitQueue::default(),
            os_polls: OsPolls::default(),
            send: Lock::new(mode, SendState::default()),
            attachment: Mutex::new(Attachment::default()),
            receiver: AtomicUsize::new(0),
            sender: AtomicUsize::new(0),
            slot: Mutex::new(None),
            counters: AtomicPtr::new(ptr::from_ref(unseen).cast_mut()),
            unseen,
            pool,
        }
    }

    /// Begins a life of the object, for a new descriptor of the kernel.
    pub(crate) fn open(&self, fd: c_int, nonblocking: bool, slot: SocketSlot) {
        if let Some(counters) = slot.lasting() {
            self.counters
                .store(ptr::from_ref(counters).cast_mut(), Ordering::Relaxed);
        }
        let counters = self.counters();
        counters.protocol.set(stats::PROTOCOL_UDP);
        counters.fd.set(fd);
        counters.inode.set(sys::inode(fd));
        *lock(&self.slot) = Some(slot);
        self.shadow.fd.store(fd, Ordering::Relaxed);
        self.shadow
            .nonblocking
            .store(nonblocking, Ordering::Relaxed);
        self.shadow.receive_timeout_nsec.store(0, Ordering::Relaxed);
        self.shadow.readable_hint.store(false, Ordering::Relaxed);
        self.os_polls.hit();
        self.receiver.store(0, Ordering::Relaxed);
        self.sender.store(0, Ordering::Relaxed);
        self.send.lock().start_afresh();
        *lock(&self.attachment) = Attachment::opened();
        self.refresh_receive_limit();
        self.was_offloaded.store(false, Ordering::Relaxed);
        self.committed.store(false, Ordering::Relaxed);
        self.set_reason(Reason::NotBound);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Ends a life of the object. The flows are gone already.
    pub(crate) fn close(&self) {
        self.generation.fetch_add(1, Ordering::Release);
        let mut queue = self.receive.lock();
        for received in queue.datagrams.drain(..) {
            self.pool.give(received.into_frame());
        }
        queue.bytes = 0;
        let registrations = std::mem::take(&mut queue.registrations);
        self.queue_changed(&queue);
        drop(queue);
        registrations
            .iter()
            .for_each(|registration| registration.socket_closed());
        self.interfaces.clear();
        self.shadow.fd.store(-1, Ordering::Relaxed);
        self.waiters.wake_all();
        self.counters
            .store(ptr::from_ref(self.unseen).cast_mut(), Ordering::Relaxed);
        *lock(&self.slot) = None;
    }

    /// Number of the object's life; odd while a descriptor is open.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The socket's counters in the statistics segment.
    #[inline]
    pub fn counters(&self) -> &'static SocketStats {
        // SAFETY: the pointer comes from `&'static SocketStats` (see `new` and `open`).
        unsafe { &*self.counters.load(Ordering::Relaxed) }
    }

    /// Why the socket is not accelerated; [`Reason::Offloaded`] if it is.
    #[inline]
    pub fn reason(&self) -> Reason {
        let code = self.reason.load(Ordering::Acquire);
        Reason::ALL
            .get(code as usize)
            .copied()
            .unwrap_or(Reason::Poisoned)
    }

    /// Whether flows of the socket lead to user space.
    #[inline]
    pub(crate) fn is_offloaded(&self) -> bool {
        self.reason.load(Ordering::Acquire) == Reason::Offloaded as u32
    }

    /// Whether a call on the socket is for the kernel, waiting included. If so, it stays there: a thread that waits in the kernel
    /// would not learn of what comes past it. A socket that was accelerated and may be again waits here.
    #[inline]
    pub(crate) fn is_left_to_kernel(&self) -> bool {
        let reason = self.reason.load(Ordering::Acquire);
        reason != Reason::Offloaded as u32
            && reason != Reason::NotBound as u32
            && self.commit_to_kernel()
    }

    #[cold]
    fn commit_to_kernel(&self) -> bool {
        let left = self.pending() == 0
            && (self.is_committed() || !self.was_offloaded.load(Ordering::Relaxed));
        if !left {
            return false;
        }
        // Either this thread sees that the socket is accelerated since, or who accelerates it sees that it must not.
        self.committed.store(true, Ordering::SeqCst);
        if self.reason.load(Ordering::SeqCst) == Reason::Offloaded as u32 {
            self.committed.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Whether the socket is the kernel's for the rest of its life.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::SeqCst)
    }

    /// Makes the socket the kernel's for the rest of its life. `false`: it is already.
    pub(super) fn commit(&self) -> bool {
        !self.committed.swap(true, Ordering::AcqRel)
    }

    pub(super) fn set_reason(&self, reason: Reason) {
        self.reason.store(reason as u32, Ordering::SeqCst);
        let counters = self.counters();
        match reason {
            Reason::Offloaded => {
                self.was_offloaded.store(true, Ordering::Relaxed);
                counters.set_offloaded();
            }
            _ => counters.set_not_offloaded(reason as u32),
        }
    }

    /// Datagrams that wait in the receive queue.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        self.pending.load(Ordering::Acquire)
    }

    /// The same under the queue's lock: what a sleeper must ask after it has registered.
    pub(crate) fn pending_exact(&self) -> usize {
        self.receive.lock().datagrams.len()
    }

    /// Length of the oldest waiting datagram that came past the kernel (`FIONREAD`).
    pub fn next_len_after_poll(&self) -> Option<usize> {
        self.interfaces.poll();
        self.receive
            .lock()
            .datagrams
            .front()
            .map(|received| usize::from(received.payload_len))
    }

    /// Asks the kernel's socket for its receive buffer size.
    pub(crate) fn refresh_receive_limit(&self) {
        let fd = self.shadow.fd.load(Ordering::Relaxed);
        let limit = sys::option_int(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
        self.receive.lock().limit_bytes =
            usize::try_from(limit).unwrap_or(0).max(RECEIVE_BYTES_MIN);
    }

    /// Queues a datagram that came past the kernel; gives it back when the queue is full.
    #[inline]
    pub(crate) fn deliver(&self, received: Received) -> Result<(), Received> {
        let counters = self.counters();
        let len = usize::from(received.payload_len);
        let mut queue = self.receive.lock();
        if queue.bytes + len > queue.limit_bytes || queue.datagrams.len() >= queue.limit_datagrams {
            counters.rx_dropped_packets.add(1);
            counters.rx_dropped_bytes.add(len as u64);
            return Err(received);
        }
        queue.datagrams.push_back(received);
        queue.bytes += len;
        self.queue_changed(&queue);
        counters
            .rx_queue_packets_max
            .raise_to(queue.datagrams.len() as u64);
        if !queue.registrations.is_empty() {
            queue
                .registrations
                .iter()
                .for_each(Registration::socket_readable);
        }
        drop(queue);
        self.waiters.wake_all();
        Ok(())
    }

    /// Takes (or looks at) the oldest datagram. `None`: there is none. `hit`: count the call as one that polling satisfied.
    #[inline]
    pub(super) fn take(
        &self,
        message: &mut Message<'_>,
        flags: c_int,
        generation: u32,
        hit: bool,
    ) -> Option<Result<usize, Errno>> {
        if self.pending.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = self.receive.lock();
        if self.generation() != generation {
            return Some(Err(Errno(libc::EBADF)));
        }
        let oldest = queue.datagrams.front()?;
        let len = usize::from(oldest.payload_len);
        let copied = message.receive(oldest.payload(self.pool), oldest.source);
        let result = copied.map(|copied| {
            if flags & libc::MSG_TRUNC != 0 {
                len
            } else {
                copied
            }
        });
        if flags & libc::MSG_PEEK != 0 {
            return Some(result);
        }
        // A datagram that could not be copied out is gone all the same, as the kernel does it.
        let oldest = queue.datagrams.pop_front()?;
        queue.bytes -= len;
        self.queue_changed(&queue);
        self.count_received(result.is_ok(), len, hit);
        drop(queue);
        self.pool.give(oldest.into_frame());
        Some(result)
    }

    /// Bytes that may wait in the receive queue.
    pub(super) fn receive_limit_bytes(&self) -> usize {
        self.receive.lock().limit_bytes
    }

    /// Copies a datagram that has just come into the buffers of a waiting call. `None`: others wait before it, or the call is of
    /// another life of the object.
    #[inline]
    pub(super) fn receive_at_once(
        &self,
        received: &Received,
        message: &mut Message<'_>,
        flags: c_int,
        generation: u32,
        hit: bool,
    ) -> Option<Result<usize, Errno>> {
        let queue = self.receive.lock();
        if !queue.datagrams.is_empty() || self.generation() != generation {
            return None;
        }
        let result = message.receive(received.payload(self.pool), received.source);
        let len = usize::from(received.payload_len);
        self.count_received(result.is_ok(), len, hit);
        Some(result.map(|copied| {
            if flags & libc::MSG_TRUNC != 0 {
                len
            } else {
                copied
            }
        }))
    }

    /// Counts a datagram that a call has taken. Under the queue's lock: a counter has one writer at a time.
    #[inline]
    fn count_received(&self, copied: bool, len: usize, hit: bool) {
        let counters = self.counters();
        if copied {
            counters.rx_packets.add(1);
            counters.rx_bytes.add(len as u64);
        } else {
            counters.rx_errors.add(1);
        }
        if hit {
            counters.rx_poll_hit.add(1);
        }
        self.note_thread(&self.receiver, &counters.rx_thread);
    }

    /// Shows the IPv4 packets of the waiting datagrams to `take`, oldest first, and drops each that it takes. The packets are
    /// without a UDP checksum: it may hold a partial sum.
    pub(super) fn drain_packets(&self, mut take: impl FnMut(&[u8]) -> bool) {
        let mut queue = self.receive.lock();
        while let Some(oldest) = queue.datagrams.front_mut() {
            let payload = usize::from(oldest.payload_offset);
            let end = payload + usize::from(oldest.payload_len);
            let data = self.pool.data_mut(&mut oldest.frame);
            let packet = payload
                .checked_sub(IP_UDP_HEADERS)
                .and_then(|start| data.get_mut(start..end));
            let taken = packet.is_some_and(|packet| {
                packet[UDP_CHECKSUM].fill(0);
                take(packet)
            });
            if !taken {
                break;
            }
            if let Some(oldest) = queue.datagrams.pop_front() {
                queue.bytes -= usize::from(oldest.payload_len);
                self.pool.give(oldest.into_frame());
            }
        }
        self.queue_changed(&queue);
    }

    /// Shows the queue's length to those who look without its lock.
    #[inline]
    fn queue_changed(&self, queue: &ReceiveQueue<B>) {
        let count = queue.datagrams.len();
        self.pending.store(count as u32, Ordering::Release);
        let counters = self.counters();
        counters.rx_queue_packets.set(count as u64);
        counters.rx_queue_bytes.set(queue.bytes as u64);
    }

    /// Shows which thread uses the socket; asks the kernel for its number only when it is another one.
    #[inline]
    pub(super) fn note_thread(&self, known: &AtomicUsize, shown: &stats::Number) {
        let token = ring::lock::thread_token();
        if known.load(Ordering::Relaxed) != token {
            known.store(token, Ordering::Relaxed);
            shown.set(sys::thread_id().cast_unsigned());
        }
    }

    /// Addresses or options have changed that the headers of sent packets show.
    pub(crate) fn forget_destinations(&self) {
        self.send.lock().forget_destinations();
    }

    /// Remembers an epoll registration, which learns of every datagram from here on.
    pub(crate) fn add_registration(&self, registration: Arc<Registration<B>>) {
        let mut queue = self.receive.lock();
        if !queue.datagrams.is_empty() {
            registration.socket_readable();
        }
        queue.registrations.push(registration);
    }

    /// Forgets an epoll registration.
    pub(crate) fn remove_registration(&self, registration: &Arc<Registration<B>>) {
        self.receive
            .lock()
            .registrations
            .retain(|other| !Arc::ptr_eq(other, registration));
    }

    /// The epoll sets that the socket is in learn that its interfaces have changed.
    pub(super) fn interfaces_changed(&self) {
        let registrations = self.receive.lock().registrations.clone();
        registrations
            .iter()
            .for_each(|registration| registration.interfaces_changed());
        self.waiters.wake_all();
    }

    pub(crate) fn attachment(&self) -> MutexGuard<'_, Attachment<B>> {
        lock(&self.attachment)
    }
}

impl<B: Backend> fmt::Debug for UdpSocket<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket")
            .field("fd", &self.shadow.fd)
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
