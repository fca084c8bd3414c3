//! Receiving without a queue: the thread that polls is the one that waits for the datagram.

use dev_core::Frame;
use libc::c_int;

use crate::sockets::delivery::{Parsed, Taker};
use crate::sockets::message::Message;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sys::Errno;
use crate::udp::UdpSocket;
use crate::udp::datagram::Arrived;

/// A receive call that polls and takes the first datagram for its socket.
pub(super) struct DirectReceive<'call, 'message, S: Stack> {
    socket: &'static UdpSocket<S>,
    message: &'call mut Message<'message>,
    flags: c_int,
    generation: u32,
    /// Count the call as one that polling satisfied.
    hit: bool,
    result: Option<Result<usize, Errno>>,
}

impl<'call, 'message, S: Stack> DirectReceive<'call, 'message, S> {
    #[inline]
    pub(super) fn new(
        socket: &'static UdpSocket<S>,
        message: &'call mut Message<'message>,
        flags: c_int,
        generation: u32,
        hit: bool,
    ) -> Self {
        Self {
            socket,
            message,
            flags,
            generation,
            hit,
            result: None,
        }
    }

    /// The result of the call, if a datagram came.
    #[inline]
    pub(super) fn result(self) -> Option<Result<usize, Errno>> {
        self.result
    }
}

impl<S: Stack> Taker<S> for DirectReceive<'_, '_, S> {
    /// Takes a datagram if it is for this call.
    #[inline]
    fn takes(&mut self, socket: S, packet: &Parsed, frame: &Frame, arrived_nsec: u64) -> bool {
        let Parsed::Udp(datagram) = packet;
        let own: &SocketCore<S> = self.socket;
        if self.result.is_some() || !std::ptr::eq(socket.core(), own) {
            return false;
        }
        self.result = self.socket.receive_at_once(
            &Arrived {
                frame,
                datagram,
                nsec: arrived_nsec,
            },
            self.message,
            self.flags,
            self.generation,
            self.hit,
        );
        self.result.is_some()
    }
}
