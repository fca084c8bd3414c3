//! What the program is told of each datagram beside its data.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use libc::c_int;
use sys::Errno;

use crate::sockets::control::ControlRoom;
use crate::sockets::message::Message;
use crate::sockets::stack::Stack;
use crate::udp::ancillary::{self, Facts, Headers, Wants};
use crate::udp::datagram::Received;
use crate::udp::queue::merged::Run;
use crate::udp::queue::receive_queue::ReceiveQueue;
use crate::udp::socket::UdpSocket;

impl<S: Stack> UdpSocket<S> {
    /// The kernel's socket has other options that concern every message.
    pub(crate) fn refresh_message_options(&self) {
        let wants = Wants::read(self.kernel_socket.fd.load(Ordering::Relaxed), self.family());
        self.receive.lock().set_wants(wants);
        self.follow_wish_for_stamps();
        self.refresh_send_options();
    }

    /// Has the devices note when packets come if the program is to be told. To be called when it
    /// asks or asks no longer, and when there are others.
    pub(in crate::udp) fn follow_wish_for_stamps(&self) {
        self.stamped.become_those(|| {
            let noted = self.receive.lock().wants.noted();
            (noted, self.interfaces.iter())
        });
    }

    /// What there is to tell of a datagram that has just been taken from the ring of an interface.
    #[cold]
    pub(super) fn facts_of(
        &self,
        queue: &ReceiveQueue,
        received: &Received,
        interface: u32,
    ) -> Facts {
        let drops = queue.drops.wrapping_add(queue.kernel_drops);
        Facts::now(queue.wants, interface, drops, |device_times| {
            let from = self
                .interfaces
                .iter()
                .find(|it| it.spec().index == interface);
            let age = from.and_then(|it| it.age_nsec(received.frame()));
            let device = from.filter(|_| device_times);
            let device = device.and_then(|it| it.device_nsec(received.frame()));
            (age.unwrap_or(0), device.unwrap_or(0))
        })
    }

    /// Takes (or looks at) the oldest datagram, and tells of it, or several that are received as
    /// one.
    #[cold]
    pub(super) fn take_told(
        &self,
        queue: &mut ReceiveQueue,
        message: &mut Message<'_>,
        flags: c_int,
        hit: bool,
    ) -> Option<Result<usize, Errno>> {
        let oldest = queue.datagrams.front()?;
        let source = oldest.source(self.pool);
        let control_room = message.control_room();
        let run = match queue.wants.merged() {
            true => queue.run(self.pool, message.total_len().unwrap_or(0)),
            false => Run::of_one(oldest.len()),
        };
        let Run { count, len, .. } = run;
        let copied = if count > 1 {
            let datagrams = queue.datagrams.iter().take(count);
            let payloads = datagrams.map(|it| it.payload(self.pool));
            message.receive_joined(payloads, len, source, self.family())
        } else {
            message.receive(oldest.payload(self.pool), source, self.family())
        };
        self.tell(queue, message, control_room, run.segment_len());
        let result = copied.map(|copied| match flags & libc::MSG_TRUNC {
            0 => copied,
            _ => len,
        });
        if flags & libc::MSG_PEEK != 0 {
            return Some(result);
        }
        for number in 0..count {
            let oldest = queue.pop()?;
            // The call counts once, the datagrams each.
            let is_hit = hit && number == 0;
            self.count_received(result.is_ok(), oldest.len(), is_hit);
            self.count_latency(oldest.arrived_nsec());
            oldest.release(self.pool);
        }
        self.queue_changed(queue);
        Some(result)
    }

    /// Tells of the oldest datagram, which has been copied into the message: what had room for
    /// control data still has it. The kernel has told when it finds that the address has no room.
    fn tell(
        &self,
        queue: &mut ReceiveQueue,
        message: &mut Message<'_>,
        mut room: ControlRoom,
        segment_len: Option<usize>,
    ) {
        let (Some(oldest), Some(facts)) = (queue.datagrams.front(), queue.facts.front_mut()) else {
            return;
        };
        if let Some(headers) = Headers::of(oldest.header(self.pool)) {
            let answers_from = if queue.wants.packet_info() {
                queue.answers.find(&headers, facts.interface())
            } else {
                Ipv4Addr::UNSPECIFIED
            };
            ancillary::put(
                queue.wants,
                facts,
                &headers,
                answers_from,
                segment_len,
                &mut room,
            );
        }
        message.told(&room);
    }

    /// The kernel's socket has told how many datagrams it has lost: others were lost here.
    pub(in crate::udp) fn tell_drops(&self, message: &mut Message<'_>) {
        let mut queue = self.receive.lock();
        if !queue.wants.drops() {
            return;
        }
        let drops = queue.drops;
        let kernel_drops = &mut queue.kernel_drops;
        message.change_item(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, |told| {
            *kernel_drops = u32::from_ne_bytes(told);
            kernel_drops.wrapping_add(drops).to_ne_bytes()
        });
    }
}
