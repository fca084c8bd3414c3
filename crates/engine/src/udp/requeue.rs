//! Gives datagrams that were received past the kernel back to the kernel's socket, when that is
//! where the program will look for them.

use std::sync::atomic::Ordering;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::udp::socket::UdpSocket;
use crate::udp::truesize::truesize;

/// Whether a packet is for a group, and could go out to the network, or is from or to a link-local
/// address of IPv6, which says nothing without the interface that it came in on.
fn stays(packet: &[u8]) -> bool {
    let byte = |place: usize| packet.get(place).copied().unwrap_or(0);
    let is_link_local = |place: usize| byte(place) == 0xfe && byte(place + 1) & 0xc0 == 0x80;
    match byte(0) >> 4 {
        4 => byte(16) >> 4 == 0xe,
        _ => byte(24) == 0xff || is_link_local(8) || is_link_local(24),
    }
}

impl<S: Stack> UdpSocket<S> {
    /// Sends the queued datagrams, as they came, to ourselves: through a raw socket and the
    /// loopback interface they reach the kernel's socket with the addresses that they had. What
    /// does not fit there, cannot be sent, or is for a group or of a link-local address stays in
    /// the queue, where receive calls find it first.
    pub(crate) fn hand_over_queue(&self, host: &Host<S>) {
        // Nobody would ask for it any more.
        let _ = self.take_postponed_error();
        self.show_nothing_more();
        if self.readiness.now() & events::IN == 0 {
            return;
        }
        let Some(raw) = host.return_socket() else {
            return;
        };
        let mut room = self.receive_limit_bytes();
        self.drain_packets(|packet| {
            // To a group it would go out to the network, and to other members once more.
            let cost = truesize(packet.len());
            let given = !stays(packet) && cost <= room && raw.send(packet, 0);
            if given {
                room -= cost;
            }
            given
        });
        self.kernel_socket
            .readable_hint
            .store(true, Ordering::Relaxed);
    }
}
