//! Sends that send nothing: with messages that are rare, the next one finds its way, its ring and
//! its frame in the cache.

use sys::Errno;

use crate::sockets::message::Message;
use crate::sockets::stack::Stack;
use crate::udp::destination::{Link, Way};
use crate::udp::send::SendOutcome;
use crate::udp::socket::UdpSocket;

/// Bytes of the message, as many as the original's.
const BYTES: usize = 264;

impl<S: Stack> UdpSocket<S> {
    /// A message that is not sent.
    #[cold]
    pub(super) fn send_dummy(&self, message: &Message<'_>) -> SendOutcome {
        if !self.sends_past_kernel() {
            return SendOutcome::Fail(Errno(libc::EINVAL));
        }
        self.dummy_send_one();
        match message.sent_dummy() {
            Ok(len) => SendOutcome::Done(len),
            Err(errno) => SendOutcome::Fail(errno),
        }
    }

    /// All of a send to the connected peer but the sending (`VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME`).
    /// `false`: the socket has sent nothing to one past the kernel so far.
    pub fn dummy_send_one(&self) -> bool {
        if !self.sends_past_kernel() {
            return false;
        }
        let mut send = self.send.lock();
        let Some(peer) = send.peer else {
            return false;
        };
        if let Some(destination) = send.find(&peer)
            && let Way::Link(link) | Way::Paced(link) = &destination.way
        {
            let Link {
                sender, template, ..
            } = link;
            sender.send_dummy(template, &[0; BYTES]);
            self.counters().tx_dummy.add_contended(1);
            return true;
        }
        false
    }
}
