//! The library leaves the process for good: a filter of system calls is about to come that forbids
//! what it needs, or a call that takes a process of one thread. Everything is the kernel's before,
//! and the internal thread has ended.

use std::time::Duration;

use dev_core::Backend;
use links::reason::Reason;

use crate::engine::kinds::{AnySocket, Object};

use crate::engine::Engine;
use crate::process::thread_request::END;
use crate::sockets::hand_over;

/// How long is waited at most for the internal thread to be gone when it has answered.
const PATIENCE_NSEC: u64 = 200_000_000;

impl<B: Backend> Engine<B> {
    /// Leaves every socket to the kernel for good and ends the internal thread. The caller sees to
    /// it that no call comes here any more. No lock may be held.
    pub fn retire(&self, reason: Reason, about: &str) {
        if self.is_other_process() {
            return;
        }
        self.note_process("retired", &format!("{}: {about}", reason.text()));
        self.links.end_opener();
        self.links.start_waiting();
        {
            let _control = self.control();
            for (_, socket) in self.sockets() {
                hand_over::hand_over(self, socket, reason, about);
            }
        }
        // Also those that nobody has any more.
        self.leave_streams_to_kernel_about(reason, about);
        self.wait_for_returns();
        {
            let _control = self.control();
            for (_, socket) in self.sockets() {
                if let AnySocket::Tcp(socket) = socket {
                    socket.give_up_returning();
                }
            }
            for fd in self.table.range(0, u32::MAX) {
                if let Some(Object::Epoll(set)) = self.look_up(fd) {
                    set.library_leaves();
                }
            }
            self.links.leave_unused();
        }
        self.end_internal_thread();
    }

    /// The process ends that has retired it. A file is left behind where calls are not allowed that
    /// would remove it.
    pub fn retired_ends(&self) {
        let calls = [libc::SYS_getpid, libc::SYS_newfstatat, libc::SYS_unlinkat];
        if calls.into_iter().all(sys::may_call) && !self.is_other_process() {
            self.segment.unlink();
        }
    }

    fn end_internal_thread(&self) {
        self.sharing.stop_listening();
        let Some(thread) = self.internal_thread.id() else {
            return;
        };
        let wake = || self.internal_thread.call();
        if !self.thread_requests.ask(END, wake) {
            log::warn!("the internal thread does not end: it is held up");
            return;
        }
        let deadline = sys::now_nsec() + PATIENCE_NSEC;
        while sys::has_thread(thread) && sys::now_nsec() < deadline {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}
