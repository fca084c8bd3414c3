//! How a descendant gets the attention of the process that owns a socket: a pair of connected sockets, one end with the owner
//! alone, the other with all its descendants.

use libc::c_int;

use crate::sys;

/// Both ends.
#[derive(Debug)]
pub(super) struct RecallLine {
    /// A forked child closes it, so that the button finds out when the owner is gone.
    bell: sys::OwnedFd,
    button: sys::OwnedFd,
    /// What the button's number must stand for: a child may have closed it in a way that no hook sees.
    button_file: sys::FileId,
}

/// What ringing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// The owner will hear it.
    Heard,
    /// The owner is gone, or out of reach.
    Nobody,
}

impl RecallLine {
    /// `None`: no descriptors are to be had.
    pub(super) fn new() -> Option<Self> {
        let (bell, button) = sys::message_pair().ok()?;
        let button_file = sys::file_id(button.raw())?;
        Some(Self {
            bell,
            button,
            button_file,
        })
    }

    /// Becomes readable when it was rung.
    pub(super) fn fd(&self) -> c_int {
        self.bell.raw()
    }

    /// Takes note of all that rang.
    pub(super) fn answer(&self) {
        while sys::take_message(self.bell.raw()) {}
    }

    /// Rings, in a descendant.
    pub(super) fn ring(&self) -> Rung {
        let button = self.button.raw();
        if sys::file_id(button) != Some(self.button_file) {
            return Rung::Nobody;
        }
        match sys::send_message(button) {
            // A full queue has rung already.
            Ok(()) | Err(sys::Errno(libc::EAGAIN)) => Rung::Heard,
            Err(_) => Rung::Nobody,
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
    fn it_rings_until_it_is_answered() {
        let recall_line = RecallLine::new().unwrap();
        assert!(!is_readable(recall_line.fd()));
        for _ in 0..2000 {
            assert_eq!(recall_line.ring(), Rung::Heard);
        }
        assert!(is_readable(recall_line.fd()));
        recall_line.answer();
        assert!(!is_readable(recall_line.fd()));
    }

    #[test]
    fn a_number_that_is_another_file_now_is_left_alone() {
        let mut recall_line = RecallLine::new().unwrap();
        let other = RecallLine::new().unwrap();
        recall_line.button_file = other.button_file;
        assert_eq!(recall_line.ring(), Rung::Nobody);
        assert!(!is_readable(recall_line.fd()));
    }
}
