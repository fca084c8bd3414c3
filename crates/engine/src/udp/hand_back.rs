//! Gives datagrams that were received past the kernel back to the kernel's socket, when that is where the program will look
//! for them.

use std::sync::atomic::Ordering;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::udp::UdpSocket;
use crate::udp::charge::charge_bytes;

impl<S: Stack> UdpSocket<S> {
    /// Sends the queued datagrams, as they came, to ourselves: through a raw socket and the loopback interface they reach the
    /// kernel's socket with the addresses that they had. What does not fit there, or cannot be sent, stays in the queue, where
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
            let cost = charge_bytes(packet.len());
            let given = cost <= room && raw.send(packet);
            if given {
                room -= cost;
            }
            given
        });
        self.shadow.readable_hint.store(true, Ordering::Relaxed);
    }
}
