//! Receiving without a queue: the thread that polls is the one that waits for the packet.

use std::ptr;

use dev_core::{Frame, FramePool};
use libc::c_int;
use links::DirectCall;
use links::delivery::{Arrival, Parsed};
use sys::Errno;

use crate::sockets::message::Message;
use crate::sockets::payload::Received;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

/// A receive call that polls, and has the first packet for its socket put straight into its
/// buffers.
pub struct DirectReceive<'call, 'message, S: Stack> {
    socket: &'static SocketCore<S>,
    pub(crate) message: &'call mut Message<'message>,
    pub(crate) flags: c_int,
    /// The life of the socket that the call began in.
    pub(crate) generation: u32,
    /// Count the call as one that polling satisfied.
    pub(crate) hit: bool,
    /// Where the payload lies in the frame, and how long it is, if that is to stay there.
    pub(crate) kept: Option<(u16, u16)>,
    /// The result of the call, if a packet came for it.
    pub(crate) result: Option<Result<usize, Errno>>,
}

impl<'call, 'message, S: Stack> DirectReceive<'call, 'message, S> {
    #[inline]
    pub(crate) fn new(
        socket: &'static SocketCore<S>,
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
            kept: None,
            result: None,
        }
    }
}

impl<S: Stack> DirectCall<S> for DirectReceive<'_, '_, S> {
    #[inline]
    fn waits_for(&self, socket: S) -> bool {
        self.result.is_none() && ptr::eq(socket.core(), self.socket)
    }

    #[inline]
    fn receive(&mut self, socket: S, packet: &Parsed, frame: &Frame, arrival: Arrival) -> bool {
        socket.receive_at_once(self, packet, frame, arrival);
        self.result.is_some()
    }

    #[inline]
    fn keep(&mut self, pool: &'static FramePool, frame: Frame) -> Result<(), Frame> {
        let Some((start, len)) = self.kept else {
            return Err(frame);
        };
        let packet = Received::in_frame(pool, frame, start, len);
        if let Some(sink) = self.message.sink() {
            sink.push(packet);
        }
        Ok(())
    }
}
