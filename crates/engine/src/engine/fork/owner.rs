//! The side of the process whose sockets they are.

use dev_core::Backend;
use libc::c_int;
use links::reason::Reason;

use crate::engine::kinds::{AnySocket, Object};

use crate::engine::Engine;
use crate::engine::end;
use crate::sockets::hand_over;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::{Described, MayOpen, Stack};

impl<B: Backend> Engine<B> {
    /// The internal thread has been started.
    pub fn internal_thread_started(&self) {
        self.internal_thread.starts();
        let can_notify = self.sharing.recall_channel.is_some();
        self.sharing.set_heard(can_notify);
    }

    /// Called before `fork(2)`. The sockets stay accelerated if the child can ask for them.
    pub fn before_fork(&self) {
        self.sharing.count_fork();
        if !self.sharing.is_heard() {
            self.leave_all_to_kernel(|_| true);
        }
    }

    /// Leaves every socket to the kernel that a child may have.
    pub fn leave_shared_to_kernel(&self) {
        self.leave_all_to_kernel(|socket| self.may_be_shared(socket));
    }

    /// Leaves every accelerated socket to the kernel: a child is about to take the process's place.
    pub fn leave_everything_to_kernel(&self) {
        if !self.is_other_process() {
            self.leave_all_to_kernel(|_| true);
        }
    }

    /// A descriptor is about to be used for more than sending: what a descendant has adopted of it
    /// is the kernel's first.
    pub fn recall_from_descendants(&self, fd: c_int) {
        match self.look_up(fd) {
            Some(Object::Epoll(set)) => {
                if let Ok(members) = set.try_members() {
                    let sockets: Vec<_> = members.registrations().map(|it| it.socket()).collect();
                    drop(members);
                    sockets
                        .iter()
                        .for_each(|it| it.core().recall_from_descendants());
                }
            }
            Some(object) => {
                if let Some(socket) = object.socket() {
                    socket.core().recall_from_descendants();
                }
            }
            None => {}
        }
    }

    /// Descendants have woken this process: the sockets that they ask for become the kernel's.
    pub(crate) fn answer_descendants(&self) {
        if let Some(recall_channel) = &self.sharing.recall_channel {
            recall_channel.answer();
        }
        let control = self.control();
        for (_, socket) in self.sockets() {
            let core = socket.core();
            if core.is_requested() {
                if !core.readiness.is_watched()
                    && let Some((shared, generation)) = core.shared()
                {
                    shared.offer(generation);
                }
                hand_over::hand_over(self, socket, Reason::Forked, "");
            }
        }
        drop(control);
        self.check_ports();
        self.leave_wanted_interfaces();
    }

    /// In the internal thread: interfaces that a descendant has a use for, and this process has
    /// none for any more, are the descendant's.
    pub(crate) fn leave_wanted_interfaces(&self) {
        if !self.sharing.are_interfaces_wanted() {
            return;
        }
        let _control = self.control();
        if self.links.leave_unused() {
            self.sharing.interfaces_are_left();
        }
    }

    /// In the internal thread, twice a second: interfaces of which this process makes no use any
    /// more are anybody's.
    pub(crate) fn leave_idle_interfaces(&self) {
        if !self.links.has_idle() {
            return;
        }
        let control = self.control();
        let only_sends =
            |(_, socket): (_, AnySocket<B>)| socket.core().reason() == Reason::ReceiverRule;
        if self.sockets().any(only_sends) || !self.links.leave_idle() {
            return;
        }
        drop(control);
        // What is sent from here on opens it again.
        self.network_changed(false);
        if self.sharing.are_interfaces_wanted() {
            self.sharing.interfaces_are_left();
        }
    }

    /// In the internal thread: what a descendant has come to use while it waits for its interface
    /// is the kernel's for good. Nobody was woken for that, as nothing of it was here.
    pub(crate) fn leave_used_while_held(&self) {
        let is_used = |(_, socket): &(c_int, AnySocket<B>)| {
            let core = socket.core();
            core.is_held() && core.is_requested()
        };
        for (_, socket) in self.sockets().filter(is_used) {
            let _control = self.control();
            hand_over::hand_over(self, socket, Reason::Forked, "");
        }
    }

    /// Descendants cannot ask for sockets any more: one of them has shut the channel down.
    pub(crate) fn descendants_are_deaf(&self) {
        self.sharing.stop_listening();
        self.leave_everything_to_kernel();
    }

    /// Whether a descendant may have the socket: it was open at a fork.
    pub(crate) fn may_be_shared(&self, socket: &SocketCore<AnySocket<B>>) -> bool {
        socket.forks_before() != self.sharing.forks()
    }

    fn leave_all_to_kernel(&self, wanted: impl Fn(&SocketCore<AnySocket<B>>) -> bool) {
        self.links.start_waiting();
        let _control = self.control();
        for (_, socket) in self.sockets() {
            let core = socket.core();
            if core.is_or_may_be_offloaded() && wanted(core) {
                hand_over::hand_over(self, socket, Reason::Forked, "");
            }
        }
    }

    /// Called before `execve(2)` in the process itself: what waits in user space, in either
    /// direction, would end with it. The sockets that survive become the kernel's, for as long as
    /// [`exec_failed`](Self::exec_failed) does not say otherwise.
    pub fn before_exec(&self) {
        if self.is_other_process() {
            return;
        }
        self.links.start_waiting();
        // Also those that the new program does not have: their peers are to be told of the end.
        self.leave_streams_to_kernel(Reason::Passed);
        self.pacers.leave(end::PATIENCE);
        let _control = self.control();
        for (fd, socket) in self.sockets() {
            if socket.core().is_offloaded() && !sys::closes_on_exec(fd) {
                hand_over::hand_over_for_now(self, socket, Reason::Passed);
            }
        }
    }

    /// The program goes on, after [`before_exec`](Self::before_exec).
    pub fn exec_failed(&self) {
        if self.is_other_process() {
            return;
        }
        let _control = self.control();
        for (_, socket) in self.sockets() {
            if socket.core().reason() == Reason::Passed {
                // Its interfaces were open before.
                socket.follow_kernel(self, MayOpen::No);
            }
        }
    }
}
