//! The application's set, which is the kernel's: what it reports, and the places that our sockets
//! have in it.

use std::sync::atomic::{Ordering, fence};

use libc::epoll_event;
use sys::Errno;

use crate::mux::registration::Registration;
use crate::mux::{MuxStack, silent};

use crate::sockets::{changes, events};

use crate::mux::epoll::{EPOLLONESHOT, EpollSet};

impl<S: MuxStack> EpollSet<S> {
    /// Threads wait for the set in the kernel: brings them out.
    pub fn evict_kernel_waiters(&self) {
        self.eviction.begin(self.epfd.load(Ordering::Relaxed));
    }

    /// What brings threads out of the kernel has another number, perhaps.
    pub(crate) fn follow_alarm(&self) {
        self.eviction
            .follow_alarm(self.epfd.load(Ordering::Relaxed));
    }

    /// Takes the library's own events out of what the kernel reported; returns how many are left.
    /// `others_wait`: whether threads still wait in the kernel, under whatever number. It is asked
    /// under a lock.
    pub fn take_out_eviction(
        &self,
        events: &mut [epoll_event],
        others_wait: impl FnOnce() -> bool,
    ) -> usize {
        let epfd = self.epfd.load(Ordering::Relaxed);
        let count = self.eviction.take_out(epfd, events, others_wait);
        silent::take_out(&mut events[..count])
    }

    /// Whether these events bring a thread out of the kernel that waited for this set.
    pub(crate) fn has_called_back(&self, events: &[epoll_event]) -> bool {
        self.eviction.is_among(events)
    }

    /// A thread is about to wait in the kernel. `false`: it must not, or
    /// [`EpollSet::refresh_interfaces`] has to be asked first. If something comes past the kernel
    /// later, the thread is called back by an event of the library's own. It says that it is back
    /// with [`EpollSet::leave_kernel_wait`]. Takes no lock.
    #[inline]
    pub fn enter_kernel_wait(&self) -> bool {
        // Either this thread sees what has changed, or who has changed it sees the thread.
        self.kernel_waiters.fetch_add(1, Ordering::SeqCst);
        let is_for_kernel =
            self.knows_interfaces() && self.interfaces.is_empty() && self.ready.seems_empty();
        if !is_for_kernel {
            self.kernel_waiters.fetch_sub(1, Ordering::SeqCst);
        }
        is_for_kernel
    }

    /// A thread is back from the kernel.
    #[inline]
    pub fn leave_kernel_wait(&self) {
        self.kernel_waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether such threads are in the kernel.
    #[inline]
    pub fn has_kernel_waiters(&self) -> bool {
        self.kernel_waiters.load(Ordering::SeqCst) > 0
    }

    /// The kernel has reported these events to such a thread; returns how many of them are the
    /// program's. `others_wait`: as for [`EpollSet::take_out_eviction`]; `silence_before`:
    /// [`silence_changes`](changes::silence_changes) before the kernel was asked.
    pub fn kernel_has_reported(
        &self,
        events: &mut [epoll_event],
        silence_before: u32,
        others_wait: impl FnOnce() -> bool,
    ) -> usize {
        let count = self.take_out_eviction(events, others_wait);
        let count = self.take_out_untrue(&mut events[..count], silence_before);
        if self.has_one_shots.load(Ordering::Relaxed) {
            for event in &mut events[..count] {
                self.kernel_reported(event);
            }
        }
        count
    }

    /// Calls threads back that wait in the kernel.
    pub(in crate::mux) fn call_back(&self) {
        fence(Ordering::SeqCst);
        if self.has_kernel_waiters() {
            self.evict_kernel_waiters();
        }
    }

    /// What the kernel's part of the set reports.
    pub(in crate::mux) fn kernel_events(&self, events: &mut [epoll_event]) -> Result<usize, Errno> {
        // Before the question: what comes after it is not in the answer.
        let asked_nsec = sys::tick_nsec();
        let silence_before = changes::silence_changes();
        let reported = sys::epoll_now(self.epfd.load(Ordering::Relaxed), events)?;
        let found = self.take_out_eviction(&mut events[..reported], || true);
        let found = self.take_out_untrue(&mut events[..found], silence_before);
        for event in &mut events[..found] {
            self.kernel_reported(event);
        }
        if reported < events.len() {
            // After the sockets know.
            self.kernel_told_nsec.store(asked_nsec, Ordering::Release);
        }
        Ok(found)
    }

    /// Takes the kernel's part of a one-shot registration out of service until the next
    /// `EPOLL_CTL_MOD`.
    pub(in crate::mux) fn disarm_in_kernel(&self, registration: &Registration<S>) {
        let data = registration.data.load(Ordering::Relaxed);
        let event = epoll_event {
            events: EPOLLONESHOT,
            u64: data,
        };
        let _ = sys::epoll_modify(self.epfd.load(Ordering::Relaxed), registration.fd, event);
    }

    /// Takes the kernel's part of a registration out of the kernel's set.
    pub(in crate::mux) fn remove_from_kernel(&self, registration: &Registration<S>) {
        sys::epoll_remove(self.epfd.load(Ordering::Relaxed), registration.fd);
    }

    /// Has the kernel report what the program has asked it for, as far as it knows that, or nothing
    /// of a socket of which it does not know.
    pub(in crate::mux) fn follow_silence(&self, registration: &Registration<S>, is_silent: bool) {
        let is_spent = registration.disabled.load(Ordering::Relaxed);
        let event = epoll_event {
            events: match is_silent || is_spent {
                true => EPOLLONESHOT,
                false => registration.asked_of_kernel(),
            },
            u64: match is_silent {
                true => silent::data(),
                false => registration.data.load(Ordering::Relaxed),
            },
        };
        let epfd = self.epfd.load(Ordering::Relaxed);
        if registration.is_exclusive() {
            // The kernel changes none of these.
            sys::epoll_remove(epfd, registration.fd);
            sys::epoll_add(epfd, registration.fd, event);
        } else if sys::epoll_modify(epfd, registration.fd, event) == Err(Errno(libc::EBADF))
            && !is_silent
        {
            // Under a number that is closed, while others stand for the socket, nothing can be
            // changed any more.
            sys::epoll_add(epfd, registration.socket.core().fd(), event);
        }
    }

    /// The kernel's part of the registrations with the event's data has reported it: its sockets
    /// have something to read, and a one-shot registration is spent. Of that the program learns all
    /// there is to say.
    fn kernel_reported(&self, event: &mut epoll_event) {
        let members = self.members();
        let data = event.u64;
        if event.events & !events::OUT != 0 {
            members.with_data(data).for_each(|member| {
                member
                    .socket
                    .core()
                    .kernel_socket
                    .readable_hint
                    .store(true, Ordering::Relaxed)
            });
        }
        // Several with the same data cannot be told apart, and one report too many does less harm
        // than one too few.
        let mut candidates = members.with_data(data);
        if let (Some(member), None) = (candidates.next(), candidates.next())
            && member.events.load(Ordering::Relaxed) & EPOLLONESHOT != 0
            && !member.disabled.swap(true, Ordering::Relaxed)
        {
            event.events |= member.socket.core().readiness.report(member.wanted());
        }
    }
}
