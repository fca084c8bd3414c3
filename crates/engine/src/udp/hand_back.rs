//! Gives datagrams that were received past the kernel back to the kernel's socket, when that is where the program will look
//! for them.

use std::sync::atomic::Ordering;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::udp::UdpSocket;
use crate::udp::charge::charge_bytes;

/// Where an IPv4 packet has the first byte of its destination.
const DESTINATION: usize = 16;

impl<S: Stack> UdpSocket<S> {
    /// Sends the queued datagrams, as they came, to ourselves: through a raw socket and the loopback interface they reach the
    /// kernel's socket with the addresses that they had. What does not fit there, cannot be sent, or is for a group stays in the queue, where
    /// receive calls find it first.
    pub(crate) fn give_queue_to_kernel(&self, host: &Host<S>) {
        // Nobody would ask for it any more.
        let _ = self.take_postponed_error();
        if self.readiness.now() & events::IN == 0 {
            return;
        }
        let Some(raw) = host.return_socket() else {
            return;
        };
        let mut room = self.receive_limit_bytes();
        self.drain_packets(|packet| {
            // To a group it would go out to the network, and to other members once more.
            let is_multicast = packet.get(DESTINATION).is_some_and(|byte| byte >> 4 == 0xe);
            let cost = charge_bytes(packet.len());
            let given = !is_multicast && cost <= room && raw.send(packet);
            if given {
                room -= cost;
            }
            given
        });
        self.shadow.readable_hint.store(true, Ordering::Relaxed);
    }
}
