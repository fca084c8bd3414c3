//! Sockets in epoll sets of which the kernel knows nothing: `epoll_ctl(2)` without a system call.
//!
//! Programs change what they wait for with every request. The kernel's part of such a registration
//! reports nothing, whatever is asked of it, so it stays in the kernel's set as it is, also when
//! the program takes it out ("parked") and, most probably, adds it again. It leaves as soon as the
//! kernel's socket has something to tell, or could stay behind under another descriptor.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use libc::{c_int, epoll_event};
use sys::Errno;

use crate::mux::MuxStack;
use crate::mux::epoll::EpollSet;
use crate::mux::members::Key;
use crate::mux::registration::Registration;

/// What a program may ask for here; the kernel knows more.
const KNOWN_EVENTS: u32 = !(libc::EPOLLEXCLUSIVE | libc::EPOLLWAKEUP).cast_unsigned();

impl<S: MuxStack> EpollSet<S> {
    /// Does what `epoll_ctl(2)` asks for with a socket that the kernel tells nothing of. `None`:
    /// the kernel does it.
    pub(crate) fn control_lazily(
        &self,
        socket: S,
        operation: c_int,
        fd: c_int,
        event: Option<epoll_event>,
    ) -> Option<Result<(), Errno>> {
        let key = Key::of(socket.core(), fd);
        let registration = Arc::clone(self.members().get(key)?);
        let is_parked = registration.parked.load(Ordering::Relaxed);
        if event.is_some_and(|event| event.events & !KNOWN_EVENTS != 0) {
            self.drop_parked(&registration);
            return None;
        }
        if operation == libc::EPOLL_CTL_MOD && !is_parked && registration.is_exclusive() {
            // Its half in the kernel is an ordinary one.
            return Some(Err(Errno(libc::EINVAL)));
        }
        match (operation, event, is_parked) {
            (libc::EPOLL_CTL_ADD, Some(event), true)
            | (libc::EPOLL_CTL_MOD, Some(event), false) => {
                self.unpark(&registration, is_parked)?;
                let registration = self.change(key, event)?;
                // Either this sees that the kernel has the socket, or who gives it to the kernel
                // sees the event.
                fence(Ordering::SeqCst);
                if !socket.core().is_silent() {
                    self.follow_silence(&registration, false);
                }
                registration.armed();
                Some(Ok(()))
            }
            (libc::EPOLL_CTL_DEL, _, false) => self.park(&registration),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, _, true) => Some(Err(Errno(libc::ENOENT))),
            _ => None,
        }
    }

    /// `None`: another thread was faster.
    fn unpark(&self, registration: &Registration<S>, was_parked: bool) -> Option<()> {
        let _members = self.members();
        (registration.parked.swap(false, Ordering::Relaxed) == was_parked).then_some(())
    }

    /// `EPOLL_CTL_DEL`. `None`: the kernel takes the registration out.
    fn park(&self, registration: &Arc<Registration<S>>) -> Option<Result<(), Errno>> {
        let core = registration.socket.core();
        let mut members = self.members();
        // Under a lock, so that none of two threads that take it out is told the same.
        if registration.parked.swap(true, Ordering::Relaxed) {
            return Some(Err(Errno(libc::ENOENT)));
        }
        registration.disabled.store(true, Ordering::Relaxed);
        members.forget_data(registration.key());
        drop(members);
        fence(Ordering::SeqCst);
        // A descriptor that is closed while others stand for the socket would leave it behind in
        // the kernel's set.
        if !core.is_silent() || core.attachment().descriptors != 1 {
            self.drop_parked(registration);
        }
        Some(Ok(()))
    }

    /// Takes a parked registration out of the kernel's set, too. `false`: it is none.
    pub(super) fn drop_parked(&self, registration: &Arc<Registration<S>>) -> bool {
        let mut members = self.members();
        if !registration.parked.swap(false, Ordering::Relaxed) {
            return false;
        }
        sys::epoll_remove(self.epfd().load(Ordering::Relaxed), registration.fd);
        let removed = members.remove_if(registration.key(), |_| true);
        drop(members);
        self.end_removed(removed);
        true
    }
}
