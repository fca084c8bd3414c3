//! Gives datagrams that were received past the kernel back to the kernel's socket, when that is where the program will look
//! for them.

use std::sync::atomic::Ordering;

use ring::Backend;

use crate::engine::Engine;
use crate::reason::Reason;
use crate::udp::UdpSocket;

/// What the kernel charges to the receive buffer for a packet, rounded up: a buffer from its power-of-two caches, which holds
/// `struct skb_shared_info` and head room, too, and `struct sk_buff` (`skb->truesize`).
fn kernel_cost_bytes(packet: &[u8]) -> usize {
    (packet.len() + 400).next_power_of_two() + 320
}

impl<B: Backend> UdpSocket<B> {
    /// Sends the queued datagrams, as they came, to ourselves: through a raw socket and the loopback interface they reach the
    /// kernel's socket with the addresses that they had. What does not fit there, or cannot be sent, stays in the queue, where
    /// receive calls find it first.
    pub(crate) fn give_queue_to_kernel(&self, engine: &Engine<B>) {
        if self.pending() == 0 {
            return;
        }
        let Some(raw) = engine.way_back() else {
            return;
        };
        let mut room = self.receive_limit_bytes();
        self.drain_packets(|packet| {
            let cost = kernel_cost_bytes(packet);
            let given = cost <= room && raw.send_to_self(packet);
            if given {
                room -= cost;
            }
            given
        });
        self.shadow.readable_hint.store(true, Ordering::Relaxed);
    }

    /// Leaves the socket to the kernel until it follows the kernel again. Under the engine's control lock.
    pub(crate) fn lend_to_kernel(&self, engine: &Engine<B>, reason: Reason) {
        self.drop_flows();
        self.give_queue_to_kernel(engine);
        self.release();
        self.set_reason(reason);
        self.interfaces_changed();
    }
}
