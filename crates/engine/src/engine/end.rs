//! The end of the process.

use std::time::Duration;

use dev_core::Backend;
use links::reason::Reason;

use crate::engine::Engine;
use crate::sockets::interrupt;

/// How long datagrams with a rate, or a time, may hold up the process's end. The kernel sends them
/// when the process is gone.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

impl<B: Backend> Engine<B> {
    /// `SIGINT` with `VMA_HANDLE_SIGINTR`: no call waits any more. Async-signal-safe.
    pub fn interrupt_all(&self) {
        if !self.is_other_process() {
            interrupt::interrupt_all();
        }
    }

    /// The process ends: sends what waits, removes the statistics file, and leaves to the kernel
    /// what descendants still have.
    pub fn process_ends(&self) {
        if !self.is_other_process() {
            self.links.start_waiting();
            self.segment.unlink();
            self.leave_shared_to_kernel();
            self.wait_for_returns();
            self.leave_streams_to_kernel(Reason::Passed);
            self.pacers.leave(PATIENCE);
            self.links.process_ends();
        }
    }

    /// The same in a signal handler, which takes no lock: the internal thread does it, if there is
    /// one and it is not held up. Async-signal-safe.
    pub fn process_ends_by_signal(&self) {
        if self.is_other_process() {
            return;
        }
        // One that does not run yet looks for requests first.
        if self.internal_thread.is_started() {
            self.end.ask_and_wait(|| self.internal_thread.call());
        }
        self.segment.unlink();
    }

    /// In the internal thread: a signal handler may have asked for the process's end.
    pub(crate) fn end_if_asked(&self) {
        if self.end.is_asked() {
            self.process_ends();
            self.end.done();
        }
    }
}
