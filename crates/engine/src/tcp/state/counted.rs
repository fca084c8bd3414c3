//! How many connections and listeners are in user space.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One of the connections or listeners in user space.
#[derive(Debug)]
pub(in crate::tcp) struct Counted(pub(in crate::tcp) Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
