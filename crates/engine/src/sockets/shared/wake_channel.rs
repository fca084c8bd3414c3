//! How a process wakes the one that has a socket past the kernel which both have inherited, or
//! which it has opened itself: a pair of connected sockets, both ends with the opener and all its
//! descendants.
//!
//! Several processes may listen, each for other sockets. One that is woken looks after its own,
//! waits a moment so that the others wake, too, and only then takes the messages. Who wakes them
//! goes on until it has what it wants.

use libc::c_int;

use super::channel_end::{ChannelEnd, take_messages};

/// Both ends.
#[derive(Debug)]
pub(crate) struct WakeChannel {
    listening: ChannelEnd,
    waking: ChannelEnd,
}

impl WakeChannel {
    /// `None`: no descriptors are to be had.
    pub(crate) fn new() -> Option<Self> {
        let (listening, waking) = sys::lasting_message_pair().ok()?;
        Some(Self {
            listening: ChannelEnd::new(listening)?,
            waking: ChannelEnd::new(waking)?,
        })
    }

    /// Becomes readable when somebody wakes the others. `None`: it does not any more.
    pub(crate) fn fd(&self) -> Option<c_int> {
        self.listening.fd()
    }

    /// Wakes those who listen. `false`: nobody can be woken.
    pub(crate) fn wake(&self) -> bool {
        self.waking.send_message()
    }

    /// Takes the messages.
    pub(crate) fn drain(&self) {
        if let Some(fd) = self.fd() {
            take_messages(fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(fd: c_int) -> bool {
        sys::poll_one(fd, libc::POLLIN).is_ok_and(|ready| ready != 0)
    }

    #[test]
    fn it_is_readable_until_it_is_drained() {
        let channel = WakeChannel::new().unwrap();
        let fd = channel.fd().unwrap();
        assert!(!is_readable(fd));
        (0..2000).for_each(|_| assert!(channel.wake()));
        assert!(is_readable(fd));
        channel.drain();
        assert!(!is_readable(fd));
    }

    #[test]
    fn a_number_that_is_another_file_now_is_left_alone() {
        let other = WakeChannel::new().unwrap();
        let mut channel = WakeChannel::new().unwrap();
        channel.waking.pretend_to_be(&other.waking);
        channel.listening.pretend_to_be(&other.listening);
        assert!(!channel.wake() && channel.fd().is_none());
    }
}
