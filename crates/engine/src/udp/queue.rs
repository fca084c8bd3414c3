//! The receive queue of a UDP socket: what came past the kernel and was not read yet.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::c_int;
use ring::{Backend, Frame, FramePool};
use wire::UdpDatagram;

use crate::message::Message;
use crate::mux::epoll::Registration;
use crate::sys::{self, Errno};
use crate::udp::UdpSocket;

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
pub(super) struct ReceiveQueue<B: Backend> {
    datagrams: VecDeque<Received>,
    bytes: usize,
    /// `SO_RCVBUF` as the kernel reports it.
    limit_bytes: usize,
    /// So that one socket cannot take the whole pool.
    limit_datagrams: usize,
    registrations: Vec<Arc<Registration<B>>>,
}

impl<B: Backend> ReceiveQueue<B> {
    pub(super) fn new(pool: &FramePool) -> Self {
        Self {
            datagrams: VecDeque::new(),
            bytes: 0,
            limit_bytes: 0,
            limit_datagrams: pool.frame_count() as usize / 2,
            registrations: Vec::new(),
        }
    }

    /// Empties the queue; returns the epoll registrations that it knew.
    pub(super) fn clear(&mut self, pool: &FramePool) -> Vec<Arc<Registration<B>>> {
        self.datagrams
            .drain(..)
            .for_each(|received| pool.give(received.into_frame()));
        self.bytes = 0;
        std::mem::take(&mut self.registrations)
    }

    pub(super) fn registrations(&self) -> Vec<Arc<Registration<B>>> {
        self.registrations.clone()
    }
}

impl<B: Backend> UdpSocket<B> {
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
    pub(super) fn queue_changed(&self, queue: &ReceiveQueue<B>) {
        let count = queue.datagrams.len();
        self.pending.store(count as u32, Ordering::Release);
        let counters = self.counters();
        counters.rx_queue_packets.set(count as u64);
        counters.rx_queue_bytes.set(queue.bytes as u64);
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
}
