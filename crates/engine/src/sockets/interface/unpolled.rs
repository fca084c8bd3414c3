//! Rings that nobody polls: what has come is taken in before the ring is full, although the program does something else.

use std::sync::atomic::Ordering;

use super::Interface;
use crate::sockets::stack::Stack;
use crate::sys;

impl<S: Stack> Interface<S> {
    /// Takes in what has come, unless a call of the program has received since this was last called; a packet more than `max` is
    /// left if it comes after a batch. Returns whether anybody has received.
    pub(crate) fn take_unpolled(&self, max: usize) -> bool {
        let received = self.stats.rx_packets.value();
        if self.received_before.swap(received, Ordering::Relaxed) != received {
            return true;
        }
        // The lock is the program's as long as there is nothing to do.
        if self.is_lost() || !self.has_waiting() {
            return false;
        }
        let mut count = 0;
        while count < max {
            match self.poll() {
                0 => break,
                batch => count += batch,
            }
        }
        let received = self.stats.rx_packets.value();
        self.received_before.store(received, Ordering::Relaxed);
        count > 0
    }

    fn has_waiting(&self) -> bool {
        self.wait_fds().any(|fd| {
            let mut polled = [libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            }];
            sys::poll_now(&mut polled).is_ok() && polled[0].revents & libc::POLLIN != 0
        })
    }
}
