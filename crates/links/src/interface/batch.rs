//! Sockets that leave something to the end of a batch: what they send then stands for all that they
//! have received, and may call the kernel, which nothing does under the ring's lock.

use std::sync::atomic::{AtomicBool, Ordering};

use dev_core::{Lock, ThreadMode};

use crate::receiver::Receiver;

/// Those of one interface. The memory of the list is used again.
#[derive(Debug)]
pub(super) struct Batch<S> {
    sockets: Lock<Vec<S>>,
    has_some: AtomicBool,
}

impl<S: Receiver> Batch<S> {
    pub(super) fn new(mode: ThreadMode) -> Self {
        Self {
            sockets: Lock::new(mode, Vec::new()),
            has_some: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn add(&self, socket: S) {
        let mut sockets = self.sockets.lock();
        sockets.push(socket);
        self.has_some.store(true, Ordering::Relaxed);
    }

    /// Has [`Receiver::end_batch`] called for each that was added. No lock may be held.
    #[inline]
    pub(super) fn end(&self, polled: u32) {
        if self.has_some.load(Ordering::Relaxed) {
            self.end_of_some(polled);
        }
    }

    fn end_of_some(&self, polled: u32) {
        let mut list = self.sockets.lock();
        self.has_some.store(false, Ordering::Relaxed);
        let mut sockets = std::mem::take(&mut *list);
        drop(list);
        for socket in sockets.drain(..) {
            socket.end_batch(polled);
        }
        let mut list = self.sockets.lock();
        // Another thread has begun a list meanwhile, perhaps.
        if list.capacity() == 0 {
            *list = sockets;
        }
    }
}
