//! What stands for `crate::wait`: its queue, and sleepers without a descriptor.

#[path = "../../../crates/links/src/wait/queue.rs"]
mod queue;

use crate::sync::{AtomicBool, Ordering};
pub use queue::WaitQueue;

#[derive(Debug, Default)]
pub struct Waiter {
    pub is_woken: AtomicBool,
}

impl Waiter {
    pub fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
    }
}
