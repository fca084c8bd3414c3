//! A descendant has bound a socket to a port that its ancestors may have accelerated
//! (`SO_REUSEADDR`): they look who has it now, and the descendant waits until they have.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use dev_core::Backend;

use crate::engine::Engine;
use crate::process::recall_channel::Notified;
use crate::udp::look_after_shared_ports;

/// How long a descendant waits at most.
const PATIENCE_NSEC: u64 = 100_000_000;
/// How often it looks meanwhile whether the owner still lives.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

impl<B: Backend> Engine<B> {
    /// In a descendant: the sockets of the engine's process are the kernel's, as far as another has
    /// their port now.
    pub fn inherited_port_is_bound(&self) {
        let Some(counter) = self.sharing.port_checks() else {
            return;
        };
        let channel = self.sharing.recall_channel.as_ref();
        let deadline = sys::now_nsec() + PATIENCE_NSEC;
        fence(Ordering::SeqCst);
        let target = end_of_next(counter.load(Ordering::Acquire));
        loop {
            let count = counter.load(Ordering::Acquire);
            if count.wrapping_sub(target).cast_signed() >= 0 {
                return;
            }
            let notified = channel.map(|channel| channel.notify());
            if notified != Some(Notified::Delivered) || sys::now_nsec() >= deadline {
                return;
            }
            sys::futex_wait(counter, count, LOOK_INTERVAL);
        }
    }

    /// In the owner: descendants may have bound sockets.
    pub(super) fn check_ports(&self) {
        let counter = self.sharing.port_checks();
        let step = |counter: &AtomicU32| {
            counter.fetch_add(1, Ordering::AcqRel);
            fence(Ordering::SeqCst);
        };
        counter.iter().for_each(|counter| step(counter));
        look_after_shared_ports(self);
        counter.iter().for_each(|counter| {
            step(counter);
            sys::futex_wake_all(counter);
        });
    }
}

/// The count after the next check that has not begun yet. It is odd during a check.
fn end_of_next(count: u32) -> u32 {
    let at_rest = count.wrapping_add(count & 1);
    at_rest.wrapping_add(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_has_begun_does_not_count() {
        assert_eq!(end_of_next(4), 6);
        assert_eq!(end_of_next(5), 8);
        assert_eq!(end_of_next(u32::MAX), 2);
    }
}
