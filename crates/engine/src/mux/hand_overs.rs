//! What the kernel's set tells of connections that are not the kernel's. While its socket gets one
//! it is closed for a moment, and from TIME-WAIT on it has ended; the kernel tells of errors and
//! hang-ups of every socket in a set, whatever is asked of it.

use std::sync::atomic::{Ordering, fence};

use libc::epoll_event;

use crate::mux::MuxStack;
use crate::mux::epoll::EpollSet;
use crate::mux::registration::Registration;
use crate::mux::silent::{ALWAYS_TOLD, retain};
use crate::sockets::changes;

impl<S: MuxStack> EpollSet<S> {
    /// Takes out what the kernel has told of sockets that it knows nothing of; returns how many
    /// events are left. `silence_before`: [`silence_changes`](changes::silence_changes) before the
    /// kernel was asked.
    #[inline]
    pub(super) fn take_out_untrue(&self, events: &mut [epoll_event], silence_before: u32) -> usize {
        let is_suspect = |event: &epoll_event| event.events & ALWAYS_TOLD != 0;
        if events.iter().any(is_suspect) {
            return self.without_untrue(events, silence_before);
        }
        events.len()
    }

    #[cold]
    fn without_untrue(&self, events: &mut [epoll_event], silence_before: u32) -> usize {
        let members = self.members();
        let is_untrue = |member: &Registration<S>| {
            let core = member.socket.core();
            if core.is_silent() {
                // Of what has ended past the kernel, or was ended from outside, the ready list
                // tells.
                return true;
            }
            fence(Ordering::Acquire);
            // It may have arrived since.
            changes::silence_changes() != silence_before
                && core.is_committed()
                && !is_closed(member.fd)
        };
        retain(events, |event| {
            let data = event.u64;
            if event.events & ALWAYS_TOLD != 0 && members.with_data(data).any(|it| is_untrue(it)) {
                event.events &= !ALWAYS_TOLD;
            }
            event.events != 0
        })
    }
}

/// Whether the kernel tells of an error or a hang-up still.
fn is_closed(fd: libc::c_int) -> bool {
    let ready = sys::poll_one(fd, 0).unwrap_or(0);
    u32::from(ready.cast_unsigned()) & ALWAYS_TOLD != 0
}
