//! The sockets of an epoll set that may have something to report.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mux::MuxStack;
use crate::mux::registration::Registration;
use crate::sockets::stack::Stack;

/// Stale entries that the list may always have.
const STALE_MIN: usize = 64;

/// Whoever makes a socket ready puts its registration here, once; whoever reports takes it out and
/// looks at the socket.
#[derive(Debug)]
pub(super) struct ReadyList<S: Stack> {
    entries: Mutex<VecDeque<Arc<Registration<S>>>>,
    /// How many there are, readable without the lock.
    count: AtomicU32,
    /// Entries of registrations that are not in the set any more. Under the lock.
    stale: AtomicU32,
}

/// What becomes of an entry that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// It is in the list no longer.
    Leaves,
    /// It is the last from here on.
    Stays,
    /// It was not looked at, and no other is to be.
    End,
}

impl<S: Stack> ReadyList<S> {
    pub(super) fn new() -> Self {
        Self {
            entries: Mutex::new(VecDeque::new()),
            count: AtomicU32::new(0),
            stale: AtomicU32::new(0),
        }
    }

    /// Whether nothing is ready, without the lock.
    #[inline]
    pub(super) fn seems_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The number of entries: what a sleeper must ask after it has registered.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn push(&self, registration: Arc<Registration<S>>) {
        let mut entries = self.lock();
        entries.push_back(registration);
        self.changed(&entries);
    }

    /// Shows the entries that are there now, oldest first, to `look`, which says what becomes of
    /// each and calls nobody who has to do with the list. Those that stay come behind the others.
    pub(super) fn visit(&self, mut look: impl FnMut(&Arc<Registration<S>>) -> Visit) {
        let mut entries = self.lock();
        for _ in 0..entries.len() {
            let Some(first) = entries.front() else {
                break;
            };
            match look(first) {
                Visit::End => break,
                Visit::Leaves => drop(entries.pop_front()),
                // Mostly there is one.
                Visit::Stays if entries.len() == 1 => {}
                Visit::Stays => entries.rotate_left(1),
            }
        }
        self.changed(&entries);
    }

    pub(super) fn clear(&self) {
        let mut entries = self.lock();
        entries.clear();
        self.changed(&entries);
        self.stale.store(0, Ordering::Relaxed);
    }

    fn changed(&self, entries: &VecDeque<Arc<Registration<S>>>) {
        self.count.store(entries.len() as u32, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Registration<S>>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: MuxStack> ReadyList<S> {
    /// One more entry is of a registration that is gone. A program that never waits must not make
    /// the list grow, and the list is not searched for each, so they are taken out when they are
    /// many.
    pub(super) fn forget_stale(&self) {
        let mut entries = self.lock();
        let stale = self.stale.load(Ordering::Relaxed) + 1;
        if (stale as usize) < STALE_MIN.max(entries.len() / 2) {
            self.stale.store(stale, Ordering::Relaxed);
            return;
        }
        entries.retain(|registration| !registration.is_removed());
        self.stale.store(0, Ordering::Relaxed);
        self.changed(&entries);
    }
}
