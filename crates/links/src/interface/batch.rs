//! Sockets that leave something to the end of a batch: what they send then stands for all that they have received, and may call
//! the kernel, which nothing does under the ring's lock.

use std::sync::atomic::{AtomicBool, Ordering};

use dev_core::{Lock, ThreadMode};

use crate::interface::Interface;
use crate::receiver::Receiver;

/// Those of one interface. The memory of the list is used again.
#[derive(Debug)]
pub(super) struct Batch<S> {
    sockets: Lock<Vec<S>>,
    has_some: AtomicBool,
}

impl<S> Batch<S> {
    pub(super) fn new(mode: ThreadMode) -> Self {
        Self {
            sockets: Lock::new(mode, Vec::new()),
            has_some: AtomicBool::new(false),
        }
    }
}

impl<S: Receiver> Interface<S> {
    /// Has [`Receiver::end_batch`] called for a socket that is receiving from this interface, when the batch is over. Once for each call.
    #[inline]
    pub fn add_to_batch(&self, socket: S) {
        let mut sockets = self.batch.sockets.lock();
        sockets.push(socket);
        self.batch.has_some.store(true, Ordering::Relaxed);
    }

    /// No lock may be held.
    #[inline]
    pub(super) fn end_batch(&self) {
        if self.batch.has_some.load(Ordering::Relaxed) {
            self.end_batch_of_some();
        }
    }

    fn end_batch_of_some(&self) {
        let mut list = self.batch.sockets.lock();
        self.batch.has_some.store(false, Ordering::Relaxed);
        let mut sockets = std::mem::take(&mut *list);
        drop(list);
        for socket in sockets.drain(..) {
            socket.end_batch(self.spec.index);
        }
        let mut list = self.batch.sockets.lock();
        // Another thread has begun a list meanwhile, perhaps.
        if list.capacity() == 0 {
            *list = sockets;
        }
    }
}
