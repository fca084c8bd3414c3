//! The receive queue of a UDP socket: what came past the kernel and was not read yet.

mod answers;
mod merged;
pub(super) mod receive_queue;
mod received_info;
mod unseen;

use std::sync::atomic::Ordering;

use dev_core::Frame;
use libc::c_int;
use links::delivery::Arrival;
use links::family::scoped;
use sys::Errno;
use wire::UdpDatagram;

use crate::sockets::direct::DirectReceive;
use crate::sockets::events;
use crate::sockets::message::Message;
use crate::sockets::stack::Stack;
use crate::udp::ancillary::Wants;
use crate::udp::datagram::{Received, Waiting, payload};
use crate::udp::queue::receive_queue::ReceiveQueue;
use crate::udp::socket::{UdpSocket, UdpStack};
use crate::udp::truesize::truesize;

impl<S: UdpStack> UdpSocket<S> {
    /// Queues a datagram that came past the kernel; gives it back when the queue is full.
    #[inline]
    pub(super) fn queue(&'static self, received: Received, interface: u32) -> Result<(), Received> {
        let len = received.len();
        let mut queue = self.receive.lock();
        if !queue.has_room(truesize(len)) {
            queue.drops = queue.drops.wrapping_add(1);
            self.count_dropped(len);
            return Err(received);
        }
        if queue.wants.any() || self.pool.is_scarce() {
            let is_unseen = self.push_with_facts(&mut queue, received, interface)?;
            if is_unseen {
                drop(queue);
                self.readiness.announce(events::IN);
                return Ok(());
            }
        } else {
            queue.push(Waiting::InFrame(received), len);
        }
        self.queue_changed(&queue);
        let counters = self.counters();
        let waiting = queue.datagrams.len() as u64;
        counters.rx_queue_packets_max.raise_to(waiting);
        counters.rx_queue_bytes_max.raise_to(queue.bytes as u64);
        drop(queue);
        self.readiness.announce(events::IN);
        Ok(())
    }

    /// Queues a datagram of which there is something to tell, or whose frame is needed. Whether it
    /// is to be shown first.
    #[inline(never)]
    fn push_with_facts(
        &'static self,
        queue: &mut ReceiveQueue,
        received: Received,
        interface: u32,
    ) -> Result<bool, Received> {
        let len = received.len();
        let wants = queue.wants.tells();
        let facts = wants.then(|| self.facts_of(queue, &received, interface));
        let waiting = if self.pool.is_scarce() {
            Waiting::out_of_pool(received, self.pool).inspect_err(|_| self.count_dropped(len))?
        } else {
            Waiting::InFrame(received)
        };
        if queue.wants.shown() {
            if !self.unseen.is_xtreme() {
                self.push_to_be_shown(queue, waiting, facts);
                return Ok(true);
            }
            self.tell_ring();
        }
        if let Some(facts) = facts {
            queue.facts.push_back(facts);
        }
        queue.push(waiting, len);
        Ok(false)
    }
}

impl<S: Stack> UdpSocket<S> {
    /// What the socket is ready for: what a sleeper must ask after it has registered.
    pub(crate) fn look(&self) -> u32 {
        let _queue = self.receive.lock();
        self.readiness.now()
    }

    /// Length of the oldest waiting datagram that came past the kernel, or of what is received as
    /// one with it (`FIONREAD`).
    pub fn next_len_after_poll(&self) -> Option<usize> {
        self.interfaces.drain();
        let queue = self.receive.lock();
        let oldest = queue.datagrams.front()?.len();
        // The next call has to find the same.
        self.os_polls.received(0, true);
        Some(match queue.wants.merged() {
            true => queue.run(self.pool, usize::MAX).len,
            false => oldest,
        })
    }

    /// What the datagrams that wait would cost the kernel's socket, and how many were lost here,
    /// after a poll (`SO_MEMINFO`).
    pub fn memory_after_poll(&self) -> (u32, u32) {
        self.interfaces.drain();
        let queue = self.receive.lock();
        let charged = u32::try_from(queue.charged_bytes).unwrap_or(u32::MAX);
        (charged, queue.drops)
    }

    /// The socket begins another life, in which nothing is to be told of datagrams.
    pub(super) fn tell_nothing(&self) {
        let mut queue = self.receive.lock();
        queue.wants = Wants::NONE;
        queue.set_wants(Wants::NONE);
        (queue.drops, queue.kernel_drops) = (0, 0);
    }

    /// Asks the kernel's socket for its receive buffer size.
    pub(crate) fn refresh_receive_limit(&self) {
        let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
        let limit = sys::option_int(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
        let limit = usize::try_from(limit)
            .unwrap_or(0)
            .max(self.receive_bytes_min);
        self.receive.lock().limit_bytes = limit;
        self.counters().rx_queue_bytes_limit.set(limit as u64);
    }

    /// Under the queue's lock.
    fn count_dropped(&self, len: usize) {
        let counters = self.counters();
        counters.rx_dropped_packets.add(1);
        counters.rx_dropped_bytes.add(len as u64);
    }

    /// Takes (or looks at) the oldest datagram. `None`: there is none. `hit`: count the call as one
    /// that polling satisfied.
    #[inline]
    pub(super) fn take(
        &self,
        message: &mut Message<'_>,
        flags: c_int,
        generation: u32,
        hit: bool,
    ) -> Option<Result<usize, Errno>> {
        if self.readiness.now() & events::IN == 0 {
            return None;
        }
        let mut queue = self.receive.lock();
        if self.generation() != generation {
            return Some(Err(Errno(libc::EBADF)));
        }
        if message.takes_packets(flags) {
            return self.take_whole(&mut queue, message, hit);
        }
        if queue.wants.tells() {
            return self.take_told(&mut queue, message, flags, hit);
        }
        let oldest = queue.datagrams.front()?;
        let len = oldest.len();
        let copied = message.receive(
            oldest.payload(self.pool),
            oldest.source(self.pool),
            self.family(),
        );
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
        let oldest = queue.pop()?;
        self.queue_changed(&queue);
        self.count_received(result.is_ok(), len, hit);
        self.count_latency(oldest.arrived_nsec());
        drop(queue);
        oldest.release(self.pool);
        Some(result)
    }

    /// Takes the oldest datagram as it is.
    #[cold]
    fn take_whole(
        &self,
        queue: &mut ReceiveQueue,
        message: &mut Message<'_>,
        hit: bool,
    ) -> Option<Result<usize, Errno>> {
        let oldest = queue.pop()?;
        let (len, source) = (oldest.len(), oldest.source(self.pool));
        self.queue_changed(queue);
        self.count_latency(oldest.arrived_nsec());
        let told = message.received_packet(source, self.family());
        self.count_received(told.is_ok(), len, hit);
        let packet = oldest.into_payload(self.pool);
        if told.is_ok()
            && let Some(sink) = message.sink()
        {
            sink.push(packet);
        }
        Some(told.map(|()| len))
    }

    /// Bytes that may wait in the receive queue.
    pub(super) fn receive_limit_bytes(&self) -> usize {
        self.receive.lock().limit_bytes
    }

    /// Datagrams that may wait in the kernel's socket.
    #[cold]
    pub(super) fn waiting_max(&self) -> usize {
        self.receive_limit_bytes() / truesize(0)
    }

    /// Copies a datagram that has just come into the buffers of a waiting call, unless others wait
    /// before it, or the call is of another life of the object.
    #[inline]
    pub(crate) fn receive_at_once(
        &self,
        call: &mut DirectReceive<'_, '_, S>,
        datagram: &UdpDatagram,
        frame: &Frame,
        arrival: Arrival,
    ) {
        let queue = self.receive.lock();
        // What is to be told of a datagram is told when it is taken from the queue.
        let is_first = queue.datagrams.is_empty() && !queue.wants.any();
        if !is_first || self.generation() != call.generation {
            return;
        }
        let source = scoped(datagram.endpoints.source(), arrival.interface);
        if call.message.takes_packets(call.flags) {
            let told = call.message.received_packet(source, self.family());
            let len = usize::from(datagram.payload_len);
            self.count_received(told.is_ok(), len, call.hit);
            self.count_latency(arrival.nsec);
            if told.is_ok() {
                call.kept = Some((datagram.payload_offset, datagram.payload_len));
            }
            call.result = Some(told.map(|()| len));
            return;
        }
        let payload = payload(self.pool, frame, datagram);
        let result = call.message.receive(payload, source, self.family());
        let len = payload.len();
        self.count_received(result.is_ok(), len, call.hit);
        self.count_latency(arrival.nsec);
        call.result = Some(result.map(|copied| {
            if call.flags & libc::MSG_TRUNC != 0 {
                len
            } else {
                copied
            }
        }));
    }

    /// Counts a datagram that a call has taken. Under the queue's lock: a counter has one writer at
    /// a time.
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

    /// Counts how long a datagram took from its arrival to its delivery, if it is one of those that
    /// are measured.
    #[inline]
    fn count_latency(&self, arrived_nsec: u64) {
        if arrived_nsec > 0 {
            let elapsed = sys::now_nsec().saturating_sub(arrived_nsec);
            self.counters().rx_latency.record(elapsed);
        }
    }

    /// Shows the IP packets of the waiting datagrams to `take`, oldest first, and drops each that
    /// it takes.
    pub(super) fn drain_packets(&self, mut take: impl FnMut(&[u8]) -> bool) {
        let mut queue = self.receive.lock();
        while let Some(oldest) = queue.datagrams.front_mut() {
            if !oldest.packet(self.pool).is_some_and(|packet| take(packet)) {
                break;
            }
            if let Some(oldest) = queue.pop() {
                oldest.release(self.pool);
            }
        }
        self.queue_changed(&queue);
    }

    /// Shows the queue's length to those who look without its lock.
    #[inline]
    pub(super) fn queue_changed(&self, queue: &ReceiveQueue) {
        let count = queue.datagrams.len();
        if count > 0 {
            self.readiness.set(events::IN);
        } else {
            self.readiness.clear(events::IN);
        }
        let counters = self.counters();
        counters.rx_queue_packets.set(count as u64);
        counters.rx_queue_bytes.set(queue.bytes as u64);
    }
}
