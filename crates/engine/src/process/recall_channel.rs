//! How a descendant gets the attention of the process that owns a socket: a pair of connected
//! sockets, one end with the owner alone, the other with all its descendants.

use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use libc::c_int;

use crate::sockets::shared::{ChannelEnd, take_messages};

/// What `poll(2)` says of the owner's end once a descendant has shut the channel down, beside
/// [`libc::POLLIN`] for ever.
pub(crate) const SHUT_DOWN: libc::c_short = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;

/// Both ends.
#[derive(Debug)]
pub(crate) struct RecallChannel {
    /// A forked child closes it, so that a descendant finds out when the owner is gone.
    owner_end: OwnDescriptor,
    descendant_end: ChannelEnd,
}

/// What a notification came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    /// The owner will see it.
    Delivered,
    /// The owner is gone, or out of reach.
    NoOwner,
}

impl RecallChannel {
    /// `None`: no descriptors are to be had.
    pub(crate) fn new() -> Option<Self> {
        let (owner_end, descendant_end) = sys::message_pair().ok()?;
        Some(Self {
            owner_end,
            descendant_end: ChannelEnd::new(descendant_end)?,
        })
    }

    /// Becomes readable when a descendant has notified.
    pub(crate) fn fd(&self) -> c_int {
        self.owner_end.as_raw_fd()
    }

    /// Takes the notifications, of a descendant that never stops only some.
    pub(crate) fn answer(&self) {
        take_messages(self.owner_end.as_raw_fd());
    }

    /// Notifies the owner, in a descendant.
    pub(crate) fn notify(&self) -> Notified {
        if self.descendant_end.send_message() {
            Notified::Delivered
        } else {
            Notified::NoOwner
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
    fn it_is_readable_until_it_is_answered() {
        let recall_channel = RecallChannel::new().unwrap();
        assert!(!is_readable(recall_channel.fd()));
        for _ in 0..2000 {
            assert_eq!(recall_channel.notify(), Notified::Delivered);
        }
        assert!(is_readable(recall_channel.fd()));
        recall_channel.answer();
        assert!(!is_readable(recall_channel.fd()));
    }

    #[test]
    fn an_answer_ends_while_a_descendant_goes_on_and_on() {
        let recall_channel = RecallChannel::new().unwrap();
        let ends = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    recall_channel.notify();
                }
            });
            (0..100).for_each(|_| recall_channel.answer());
            ends.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn an_answer_ends_though_a_descendant_has_shut_the_channel_down() {
        let recall_channel = RecallChannel::new().unwrap();
        // SAFETY: integers.
        let result =
            unsafe { libc::shutdown(recall_channel.descendant_end.fd().unwrap(), libc::SHUT_RDWR) };
        assert_eq!(result, 0);
        recall_channel.answer();
        let events = libc::POLLIN | libc::POLLRDHUP;
        let ready = sys::poll_one(recall_channel.fd(), events).unwrap();
        assert_ne!(ready & SHUT_DOWN, 0);
    }

    #[test]
    fn a_number_that_is_another_file_now_is_left_alone() {
        let mut recall_channel = RecallChannel::new().unwrap();
        let other = RecallChannel::new().unwrap();
        recall_channel
            .descendant_end
            .pretend_to_be(&other.descendant_end);
        assert_eq!(recall_channel.notify(), Notified::NoOwner);
        assert!(!is_readable(recall_channel.fd()));
    }
}
