//! `poll(2)` and `epoll(7)`: which of a call's descriptors are ours.

use std::ptr;

use dev_core::Backend;
use libc::{c_int, epoll_event};
use links::reason::Reason;
use sys::Errno;

use crate::engine::{Engine, EpollSet, PolledSockets};

use crate::engine::kinds::Object;
use crate::mux::{self, MuxCall, MuxOutcome};
use crate::sockets::stack::{Described, Stack};

impl<B: Backend> Engine<B> {
    /// Finds our sockets among the descriptors of a `poll(2)`. `None`: there is none, the call is
    /// for the kernel.
    pub fn polled_sockets(&self, fds: &[libc::pollfd]) -> Option<PolledSockets<B>> {
        mux::poll::PolledSockets::new(fds.iter().enumerate().filter_map(|(index, polled)| {
            let object = self.look_up(polled.fd)?;
            if let Object::Epoll(set) = object {
                // The kernel cannot see from outside that a set of ours is ready.
                set.leave_sockets_to_kernel(self, Reason::NestedEpoll);
            }
            let socket = object.socket()?;
            (!socket.core().is_left_to_kernel()).then_some((index, socket))
        }))
    }

    /// One attempt at a `poll(2)` with sockets of ours in it.
    pub fn poll(
        &self,
        call: &mut MuxCall,
        fds: &mut [libc::pollfd],
        polled: &PolledSockets<B>,
    ) -> MuxOutcome {
        let outcome = polled.poll(self, call, fds);
        let counters = if call.is_select {
            &self.select_counters
        } else {
            &self.poll_counters
        };
        counters.count(call, &outcome);
        outcome
    }

    /// One attempt at an `epoll_wait(2)` on a set with sockets of ours in it.
    pub fn epoll_wait(
        &self,
        set: &'static EpollSet<B>,
        call: &mut MuxCall,
        events: &mut [epoll_event],
    ) -> MuxOutcome {
        set.wait(self, call, events)
    }

    /// A thread is about to wait for a set in the kernel, as [`EpollSet::enter_kernel_wait`] says.
    /// `false`: it must not, as there is memory to look at, too.
    #[inline]
    pub fn enters_kernel_wait(&self, set: &'static EpollSet<B>) -> bool {
        if !set.enter_kernel_wait() {
            return false;
        }
        let hears_peers = self.peers.is_active();
        if hears_peers {
            set.leave_kernel_wait();
        }
        !hears_peers
    }

    /// `epoll_create(2)` has returned the descriptor. A child of `vfork(2)` has our memory, but
    /// other descriptors.
    pub fn epoll_created(&self, fd: c_int) {
        if !self.is_other_process() {
            mux::epoll_created(fd);
        }
    }

    /// Whether what becomes of a descriptor in epoll sets is the library's to know.
    #[inline]
    pub fn follows_in_epoll(&self, fd: c_int) -> bool {
        match self.look_up(fd) {
            None => false,
            Some(Object::Udp(socket)) => !socket.is_any_descriptor(),
            Some(Object::Tcp(socket)) => socket.is_local() || !socket.is_any_descriptor(),
            Some(Object::Epoll(_)) => true,
        }
    }

    /// An `epoll_ctl(2)` that needs no system call. `None`: the kernel does it.
    #[inline]
    pub fn epoll_control(
        &self,
        epfd: c_int,
        operation: c_int,
        fd: c_int,
        event: Option<epoll_event>,
    ) -> Option<Result<(), Errno>> {
        let socket = self.look_up(fd)?.socket()?;
        if !socket.core().is_silent() {
            return None;
        }
        match self.look_up(epfd)? {
            Object::Epoll(set) => set.control_lazily(socket, operation, fd, event),
            _ => None,
        }
    }

    /// What the kernel is to be given in place of `event` when a descriptor comes into a set, if it
    /// is to be given something else: of some sockets it would tell what is not so, at once, to who
    /// waits. [`Engine::epoll_added`] has to be told.
    #[inline]
    pub fn event_for_kernel(&self, fd: c_int, event: epoll_event) -> Option<epoll_event> {
        let is_silent = self.look_up(fd)?.socket()?.core().is_silent();
        is_silent.then(|| mux::silent::silent_event(event))
    }

    /// The kernel has done an `epoll_ctl(2)`; follow it. `event`: what was given, if anything was.
    pub fn epoll_changed(
        &self,
        epfd: c_int,
        operation: c_int,
        fd: c_int,
        event: Option<epoll_event>,
    ) {
        match event.filter(|_| operation == libc::EPOLL_CTL_ADD) {
            Some(event) => self.epoll_added(epfd, fd, event, false),
            None => self.epoll_modified(epfd, operation, fd, event),
        }
    }

    /// The same of `EPOLL_CTL_ADD`. `is_silent`: the kernel has got what
    /// [`Engine::event_for_kernel`] says.
    pub fn epoll_added(&self, epfd: c_int, fd: c_int, event: epoll_event, is_silent: bool) {
        let socket = match self.look_up(fd) {
            Some(Object::Epoll(inner)) => {
                // The outer set is the kernel's: it cannot see what is ready in user space.
                inner.leave_sockets_to_kernel(self, Reason::NestedEpoll);
                return;
            }
            Some(object) => object.socket(),
            None => None,
        };
        let set = socket.and_then(|_| self.epoll_set(epfd));
        let (Some(socket), Some(set)) = (socket, set) else {
            if is_silent {
                let _ = sys::epoll_modify(epfd, fd, event);
            }
            if let Some(socket) = socket {
                // Nobody would tell the kernel's set of what comes past it.
                self.leave_to_kernel(socket, Reason::NestedEpoll);
            }
            return;
        };
        if let Some(reason) = set.left_for() {
            self.leave_to_kernel(socket, reason);
        }
        set.add(socket, fd, event, is_silent);
    }

    fn epoll_modified(&self, epfd: c_int, operation: c_int, fd: c_int, event: Option<epoll_event>) {
        let Some(object) = self.look_up(fd) else {
            return;
        };
        let Some(socket) = object.socket() else {
            return;
        };
        match operation {
            libc::EPOLL_CTL_MOD => {
                if let Some(event) = event
                    && let Some(Object::Epoll(set)) = self.look_up(epfd)
                {
                    set.modify(socket, fd, event);
                }
            }
            libc::EPOLL_CTL_DEL => {
                if let Some(Object::Epoll(set)) = self.look_up(epfd) {
                    set.remove(socket, fd);
                }
            }
            _ => {}
        }
    }

    /// The set behind an epoll descriptor, made if it was the kernel's alone so far.
    fn epoll_set(&self, epfd: c_int) -> Option<&'static EpollSet<B>> {
        let _control = self.control();
        if let Some(object) = self.look_up(epfd) {
            return match object {
                Object::Epoll(set) => Some(set),
                _ => None,
            };
        }
        if !mux::prepare_eviction() {
            return None;
        }
        let object = self
            .epolls
            .take(|| Object::Epoll(mux::epoll::EpollSet::new()));
        let Object::Epoll(set) = object else {
            return None;
        };
        set.open(epfd);
        if self.table.insert(epfd, object).is_err() {
            self.epolls.give(object);
            return None;
        }
        set.show_counters(self.segment.claim_multiplexer());
        if mux::is_unshared(epfd) {
            return Some(set);
        }
        // The descriptor may have been copied while the set was the kernel's alone.
        let Some(others) = mux::other_epolls(epfd) else {
            set.leave_for(Reason::NestedEpoll);
            return Some(set);
        };
        let is_passed = mux::is_passed(epfd) || others.copies.iter().any(|it| mux::is_passed(*it));
        for copy in others.copies {
            // What the table still says of the number is out of date.
            self.forget(copy);
            if self.table.insert(copy, object).is_ok() {
                set.descriptor_added();
            }
        }
        if is_passed {
            set.leave_for(Reason::Passed);
        } else if others.contain_it {
            set.leave_for(Reason::NestedEpoll);
        }
        Some(set)
    }

    /// Whether a descriptor stands for a set, as far as the library knows.
    pub fn may_stand_for(&self, fd: c_int, set: &'static EpollSet<B>) -> bool {
        matches!(self.look_up(fd), Some(Object::Epoll(other)) if ptr::eq(other, set))
    }

    /// The set whose event of the library's own is among what the kernel has reported to a thread.
    /// `copy`: the number that it waited under, which stands for the set then, if it stands for
    /// nothing yet.
    pub fn called_back_by(
        &self,
        events: &[epoll_event],
        copy: Option<c_int>,
    ) -> Option<&'static EpollSet<B>> {
        let _control = self.control();
        let of = |fd| match self.table.get(fd)? {
            object @ Object::Epoll(set) if set.has_called_back(events) => Some((object, set)),
            _ => None,
        };
        let (object, set) = self.table.range(0, u32::MAX).find_map(of)?;
        if let Some(copy) = copy
            && self.table.get(copy).is_none()
            && self.table.insert(copy, object).is_ok()
        {
            set.descriptor_added();
        }
        Some(set)
    }
}
