//! Gives datagrams that were received past the kernel back to the kernel's socket, when that is where the program will look
//! for them.

use std::sync::atomic::Ordering;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::udp::UdpSocket;
use crate::udp::charge::charge_bytes;

/// Whether a packet of IPv4 is for a group: it could go out to the network. One of IPv6 never came to a queue.
fn is_to_group(packet: &[u8]) -> bool {
    const DESTINATION: usize = 16;
    let is_v4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
    is_v4 && packet.get(DESTINATION).is_some_and(|byte| byte >> 4 == 0xe)
}

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
            let cost = charge_bytes(packet.len());
            let given = !is_to_group(packet) && cost <= room && raw.send(packet);
            if given {
                room -= cost;
            }
            given
        });
        self.shadow.readable_hint.store(true, Ordering::Relaxed);
    }
}
