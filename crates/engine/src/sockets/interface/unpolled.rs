//! Rings that nobody polls: what has come is taken in before the ring is full, although the program does something else.

use std::sync::atomic::Ordering;

use super::Interface;
use crate::sockets::stack::Stack;
use crate::sys;

impl<S: Stack> Interface<S> {
    /// Takes in all that has come so far.
    #[inline]
    pub(super) fn poll_all(&self) -> usize {
        let count = self.poll();
        if count < self.poll_batch_max {
            return count;
        }
        count + self.drain()
    }

    /// Takes in what has come, unless a call of the program has received since this was last called; a packet more than `max` is
    /// left if it comes after a batch. Returns whether anybody has received.
    pub(crate) fn take_unpolled(&self, max: usize) -> bool {
        let received = self.stats.rx_packets.value();
        if self.received_before.swap(received, Ordering::Relaxed) != received {
            return true;
        }
        // The lock is the program's as long as there is nothing to do.
        if self.is_lost() || !self.is_readable() {
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

    /// Asks the kernel, which wakes a device that has run out of empty frames.
    fn is_readable(&self) -> bool {
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
