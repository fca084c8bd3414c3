//! What stands for `crate::sockets::wait` of the engine: its queue, and sleepers without a descriptor.

#[path = "../../../crates/engine/src/sockets/wait/queue.rs"]
mod queue;

use crate::sync::{AtomicBool, Ordering};
pub(crate) use queue::WaitQueue;

#[derive(Debug, Default)]
pub(crate) struct Waiter {
    pub(crate) is_woken: AtomicBool,
}

impl Waiter {
    pub(crate) fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
    }
}
