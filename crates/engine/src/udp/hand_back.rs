//! Gives datagrams that were received past the kernel back to the kernel's socket, when that is where the program will look
//! for them.

use std::sync::atomic::Ordering;

use dev_core::Backend;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::reason::Reason;
use crate::udp::UdpSocket;
use crate::udp::charge::charge_bytes;

impl<B: Backend> UdpSocket<B> {
    /// Sends the queued datagrams, as they came, to ourselves: through a raw socket and the loopback interface they reach the
    /// kernel's socket with the addresses that they had. What does not fit there, or cannot be sent, stays in the queue, where
    /// receive calls find it first.
    pub(crate) fn give_queue_to_kernel(&self, host: &Host<B>) {
        if self.readiness.now() & events::IN == 0 {
            return;
        }
        let Some(raw) = host.return_socket() else {
            return;
        };
        let mut room = self.receive_limit_bytes();
        self.drain_packets(|packet| {
            let cost = charge_bytes(packet.len());
            let given = cost <= room && raw.send_to_self(packet);
            if given {
                room -= cost;
            }
            given
        });
        self.shadow.readable_hint.store(true, Ordering::Relaxed);
    }

    /// Leaves the socket to the kernel until it follows the kernel again. Under the engine's control lock.
    pub(crate) fn lend_to_kernel(&self, host: &Host<B>, reason: Reason) {
        self.drop_flows();
        self.give_queue_to_kernel(host);
        self.release();
        self.set_reason(reason);
        self.interfaces_changed();
    }
}
