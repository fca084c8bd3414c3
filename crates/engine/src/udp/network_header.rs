//! The headers of what a connected socket sends.

use wire::UdpTemplate;

use crate::sockets::host::Host;
use crate::udp::destination::Way;
use crate::udp::socket::{UdpSocket, UdpStack};

impl<S: UdpStack> UdpSocket<S> {
    /// As an empty datagram to the peer has them. `None`: there is no peer, or no way to it past
    /// the kernel at present.
    pub(crate) fn network_header(&'static self, host: &Host<S>) -> Option<Vec<u8>> {
        for is_resolved in [false, true] {
            let mut send = self.send.lock();
            let peer = send.peer?;
            if let Some(destination) = send.find(&peer) {
                let (Way::Link(link) | Way::Paced(link)) = &destination.way else {
                    return None;
                };
                let mut frame = [0; UdpTemplate::MAX_HEADER_LEN];
                let len = link.template.emit_one(&mut frame, 0, &[])?;
                return Some(frame[..len].to_vec());
            }
            if is_resolved || !self.sends_past_kernel() {
                return None;
            }
            self.resolve(host, send, peer, None).ok()?;
        }
        None
    }
}
