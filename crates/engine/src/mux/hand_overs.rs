//! What the kernel's set tells of connections that are not the kernel's. While its socket gets one
//! it is closed for a moment, and from TIME-WAIT on it has ended; the kernel tells of errors and
//! hang-ups of every socket in a set, whatever is asked of it.

use std::sync::atomic::{Ordering, fence};

use libc::epoll_event;

use crate::mux::MuxStack;
use crate::mux::epoll::EpollSet;
use crate::mux::registration::Registration;
use crate::sockets::{changes, events};

/// What is told of a socket that is closed.
const UNTRUE: u32 = events::HUP | events::ERR;

impl<S: MuxStack> EpollSet<S> {
    /// Takes out what the kernel has told of sockets that it knows nothing of; returns how many
    /// events are left. `silence_before`: [`silence_changes`](changes::silence_changes) before the
    /// kernel was asked.
    #[inline]
    pub(super) fn take_out_untrue(&self, events: &mut [epoll_event], silence_before: u32) -> usize {
        let is_suspect = |event: &epoll_event| event.events & UNTRUE != 0;
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
        let mut kept = 0;
        for index in 0..events.len() {
            let mut event = events[index];
            let data = event.u64;
            if event.events & UNTRUE != 0 && members.with_data(data).any(|it| is_untrue(it)) {
                event.events &= !UNTRUE;
            }
            if event.events != 0 {
                events[kept] = event;
                kept += 1;
            }
        }
        kept
    }
}

/// Whether the kernel tells of an error or a hang-up still.
fn is_closed(fd: libc::c_int) -> bool {
    let ready = sys::poll_one(fd, 0).unwrap_or(0);
    u32::from(ready.cast_unsigned()) & UNTRUE != 0
}
