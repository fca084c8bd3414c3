//! Frames in sending rings of which the devices are told later, and who looks after them.

use std::sync::atomic::Ordering;

use crate::interface::Interface;
use crate::links::Links;
use crate::receiver::Receiver;

impl<S: Receiver> Links<S> {
    /// Whether the internal thread looks after frames that wait in a sending ring.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.internal_thread.runs()
    }

    /// A frame was left to a later kick.
    #[inline]
    pub fn frames_wait(&self) {
        if !self.frames_wait.load(Ordering::Relaxed) {
            self.frames_wait.store(true, Ordering::Relaxed);
        }
    }

    /// Makes every device send what was left to a later kick.
    #[inline]
    pub fn start_waiting(&self) {
        if self.frames_wait.load(Ordering::Relaxed) {
            self.frames_wait.store(false, Ordering::Relaxed);
            self.states.for_each_open(Interface::start_waiting);
        }
    }

    /// A frame was left to a later kick, and nobody looks after it yet: calls the internal thread.
    #[cold]
    pub fn watch_senders(&self) {
        self.frames_wait();
        self.internal_thread.call();
    }

    /// Looks after senders that have stopped. Returns whether to look again soon.
    pub fn look_after_senders(&self) -> bool {
        let open = self.states.open();
        let again = |interface: &&&Interface<S>| interface.look_after_waiting();
        open.iter().filter(again).count() > 0
    }
}
