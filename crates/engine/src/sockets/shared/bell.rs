//! How a process gets the attention of the one that has a socket past the kernel which both have inherited, or which it has opened
//! itself: a pair of connected sockets, both ends with the opener and all its descendants.
//!
//! Several processes may listen, each for other sockets. One that hears it looks after its own, waits a moment so that the others
//! hear it, too, and only then takes the messages. Who rings goes on until it has what it wants.

use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use libc::c_int;

use crate::sys;

/// Both ends.
#[derive(Debug)]
pub(crate) struct Bell {
    heard: End,
    rung: End,
}

/// What the number must stand for: a process may have closed it in a way that no hook sees.
#[derive(Debug)]
struct End {
    socket: OwnDescriptor,
    file: sys::FileId,
}

impl End {
    fn new(socket: OwnDescriptor) -> Option<Self> {
        let file = sys::file_id(socket.as_raw_fd())?;
        Some(Self { socket, file })
    }

    fn fd(&self) -> Option<c_int> {
        let fd = self.socket.as_raw_fd();
        (sys::file_id(fd) == Some(self.file)).then_some(fd)
    }
}

/// More than the kernel queues for such a socket by default (`net.unix.max_dgram_qlen`).
const TAKEN_AT_ONCE: u32 = 1024;

impl Bell {
    /// `None`: no descriptors are to be had.
    pub(crate) fn new() -> Option<Self> {
        let (heard, rung) = sys::lasting_message_pair().ok()?;
        Some(Self {
            heard: End::new(heard)?,
            rung: End::new(rung)?,
        })
    }

    /// Becomes readable when somebody has rung. `None`: it does not any more.
    pub(crate) fn fd(&self) -> Option<c_int> {
        self.heard.fd()
    }

    /// Calls those who listen. `false`: nobody can hear it.
    pub(crate) fn ring(&self) -> bool {
        let sent = self.rung.fd().map(sys::send_message);
        // A full queue has rung already.
        matches!(sent, Some(Ok(()) | Err(sys::Errno(libc::EAGAIN))))
    }

    /// Takes the messages, of somebody who never stops only some.
    pub(crate) fn quiet(&self) {
        if let Some(fd) = self.heard.fd() {
            let take = |_: &u32| sys::take_message(fd);
            (0..TAKEN_AT_ONCE).take_while(take).for_each(drop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(fd: c_int) -> bool {
        let mut polled = [libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        }];
        sys::poll_now(&mut polled) == Ok(1)
    }

    #[test]
    fn it_is_heard_until_it_is_quiet() {
        let bell = Bell::new().unwrap();
        let fd = bell.fd().unwrap();
        assert!(!is_readable(fd));
        (0..2000).for_each(|_| assert!(bell.ring()));
        assert!(is_readable(fd));
        bell.quiet();
        assert!(!is_readable(fd));
    }

    #[test]
    fn a_number_that_is_another_file_now_is_left_alone() {
        let other = Bell::new().unwrap();
        let mut bell = Bell::new().unwrap();
        bell.rung.file = other.rung.file;
        bell.heard.file = other.heard.file;
        assert!(!bell.ring() && bell.fd().is_none());
    }
}
