//! Counts what the kernel did for a socket, and why it was the kernel.

use links::interface::Interface;
use links::reason::Reason;
use sys::Errno;

use crate::sockets::stack::Stack;
use crate::udp::socket::UdpSocket;

/// IPv4 and UDP headers of a packet.
const HEADER_BYTES: usize = 28;

impl<S: Stack> UdpSocket<S> {
    /// Counts a receive call that the kernel answered, each message of a `recvmmsg(2)` by itself.
    pub fn count_os_receive(&self, result: Result<usize, Errno>) {
        let counters = self.counters();
        match result {
            Ok(len) => {
                counters.rx_os_packets.add_contended(1);
                counters.rx_os_bytes.add_contended(len as u64);
                let reason = self.reason_of_os_receive(len);
                counters.rx_os_reasons.count(reason as u32);
            }
            Err(Errno(libc::EAGAIN)) => counters.rx_os_eagain.add_contended(1),
            Err(_) => counters.rx_os_errors.add_contended(1),
        }
    }

    /// Counts a send call that the kernel answered because the whole socket is the kernel's.
    pub fn count_os_send(&self, result: Result<usize, Errno>) {
        self.count_os_send_for(self.reason(), result);
    }

    /// Counts a send call that the kernel answered because of this datagram.
    pub fn count_os_send_for(&self, reason: Reason, result: Result<usize, Errno>) {
        let counters = self.counters();
        match result {
            Ok(len) => {
                counters.tx_os_packets.add_contended(1);
                counters.tx_os_bytes.add_contended(len as u64);
                counters.tx_os_reasons.count(reason as u32);
            }
            Err(Errno(libc::EAGAIN)) => counters.tx_os_eagain.add_contended(1),
            Err(_) => counters.tx_os_errors.add_contended(1),
        }
    }

    fn reason_of_os_receive(&self, len: usize) -> Reason {
        match self.reason() {
            Reason::Offloaded => {
                let packet = len + HEADER_BYTES;
                let exceeds_all = |limit: fn(&Interface<S>) -> u32| {
                    let mut interfaces = self.interfaces.iter();
                    interfaces.all(|interface| packet > limit(interface) as usize)
                };
                if exceeds_all(|interface| interface.spec().mtu) {
                    Reason::TooLarge
                } else if exceeds_all(Interface::mtu_max) {
                    Reason::LargerThanFrame
                } else {
                    Reason::AnotherWay
                }
            }
            reason => reason,
        }
    }
}
