//! An end of a pair of connected sockets that processes have in common, by which they wake each
//! other.

use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use libc::c_int;

/// An end that a process may have closed in a way that no hook sees: its number may stand for
/// another file.
#[derive(Debug)]
pub(crate) struct ChannelEnd {
    socket: OwnDescriptor,
    file: sys::FileId,
}

/// More than the kernel queues for such a socket by default (`net.unix.max_dgram_qlen`).
const TAKEN_AT_ONCE: u32 = 1024;

impl ChannelEnd {
    pub(crate) fn new(socket: OwnDescriptor) -> Option<Self> {
        let file = sys::file_id(socket.as_raw_fd())?;
        Some(Self { socket, file })
    }

    /// `None`: the number is not the end's any more.
    pub(crate) fn fd(&self) -> Option<c_int> {
        let fd = self.socket.as_raw_fd();
        (sys::file_id(fd) == Some(self.file)).then_some(fd)
    }

    /// Makes the other end readable. `false`: nobody can see that.
    pub(crate) fn send_message(&self) -> bool {
        let sent = self.fd().map(sys::send_message);
        // A full queue is readable already.
        matches!(sent, Some(Ok(()) | Err(sys::Errno(libc::EAGAIN))))
    }

    #[cfg(test)]
    pub(crate) fn pretend_to_be(&mut self, other: &Self) {
        self.file = other.file;
    }
}

/// Takes the messages at an end, of somebody who never stops only some.
pub(crate) fn take_messages(fd: c_int) {
    let take = |_: &u32| sys::take_message(fd);
    (0..TAKEN_AT_ONCE).take_while(take).for_each(drop);
}
