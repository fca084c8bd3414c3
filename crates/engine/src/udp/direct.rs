//! Receiving without a queue: the thread that polls is the one that waits for the datagram.

use dev_core::Backend;
use libc::c_int;

use crate::sockets::message::Message;
use crate::sys::Errno;
use crate::udp::{Received, UdpSocket};

/// A receive call that polls and takes the first datagram for its socket.
pub(crate) struct DirectReceive<'call, 'message, B: Backend> {
    socket: &'static UdpSocket<B>,
    message: &'call mut Message<'message>,
    flags: c_int,
    generation: u32,
    /// Count the call as one that polling satisfied.
    hit: bool,
    result: Option<Result<usize, Errno>>,
}

impl<'call, 'message, B: Backend> DirectReceive<'call, 'message, B> {
    #[inline]
    pub(super) fn new(
        socket: &'static UdpSocket<B>,
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

    /// Takes a datagram if it is for this call. `false`: it is to be queued.
    #[inline]
    pub(crate) fn takes(&mut self, socket: &UdpSocket<B>, received: &Received) -> bool {
        if self.result.is_some() || !std::ptr::eq(socket, self.socket) {
            return false;
        }
        self.result = socket.receive_at_once(
            received,
            self.message,
            self.flags,
            self.generation,
            self.hit,
        );
        self.result.is_some()
    }

    /// The result of the call, if a datagram came.
    #[inline]
    pub(super) fn result(self) -> Option<Result<usize, Errno>> {
        self.result
    }
}
