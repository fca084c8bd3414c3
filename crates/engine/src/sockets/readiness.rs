//! What a socket is ready for, who has to know when that changes, and who sleeps until it does: all
//! that `poll(2)`, `select(2)` and `epoll(7)` read of a socket. `models/src/readiness_model.rs`
//! tries every order.
//!
//! The bits are those of `poll(2)` (see `events`). They are read without a lock and change under
//! the socket's own, which guards what they tell of: so a packet's way has no locked instruction
//! for them. Who registers, as a sleeper or as a watcher, looks at them afterwards, once, under
//! that lock (`Stack::look`); then either it sees what has come, or whoever makes the socket ready
//! later sees it.

use std::sync::{Arc, PoisonError};

use links::wait::WaitQueue;

use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering};

/// Who is told of what happens to a socket: its place in an epoll set.
pub trait Watcher {
    /// Something of this has become possible, or more of it. Whether it still is shows the socket's
    /// readiness.
    fn became_ready(self: &Arc<Self>, events: u32);
}

/// The readiness of one socket.
#[derive(Debug)]
pub(crate) struct Readiness<W> {
    bits: AtomicU32,
    /// What the kernel's own socket reports: it goes along with other bits, and nobody is told of
    /// it here.
    kernels: AtomicU32,
    watcher_count: AtomicU32,
    watchers: Mutex<Vec<Arc<W>>>,
    pub(crate) sleepers: WaitQueue,
}

impl<W: Watcher> Readiness<W> {
    /// Of a socket that is ready for nothing but what the kernel reports (`kernels`).
    pub(crate) fn new(kernels: u32) -> Self {
        Self {
            bits: AtomicU32::new(0),
            kernels: AtomicU32::new(kernels),
            watcher_count: AtomicU32::new(0),
            watchers: Mutex::new(Vec::new()),
            sleepers: WaitQueue::default(),
        }
    }

    /// What the socket is ready for in user space.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        self.bits.load(Ordering::Acquire)
    }

    /// What to report to who wants this, if the socket is ready for any of it.
    #[inline]
    pub(crate) fn report(&self, wanted: u32) -> u32 {
        let bits = self.now();
        if bits & wanted == 0 {
            return 0;
        }
        (bits | self.kernels.load(Ordering::Relaxed)) & wanted
    }

    /// What the kernel's own socket reports from here on.
    pub(crate) fn set_kernels(&self, events: u32) {
        self.kernels.store(events, Ordering::Relaxed);
    }

    /// What to report along with something else: also what the kernel would by itself.
    pub(crate) fn report_along(&self, wanted: u32) -> u32 {
        (self.now() | self.kernels.load(Ordering::Relaxed)) & wanted
    }

    /// The socket is ready for `events`. Under its lock; [`announce`](Self::announce) follows
    /// without it.
    #[inline]
    pub(crate) fn set(&self, events: u32) {
        let bits = self.bits.load(Ordering::Relaxed);
        self.bits.store(bits | events, Ordering::Release);
    }

    /// The socket is not ready for `events` any more. Under its lock.
    #[inline]
    pub(crate) fn clear(&self, events: u32) {
        let bits = self.bits.load(Ordering::Relaxed);
        self.bits.store(bits & !events, Ordering::Release);
    }

    /// Tells watchers and sleepers that the socket has become ready for `events`, or for more of
    /// them, after [`set`](Self::set). Costs two loads if there is nobody.
    #[inline]
    pub(crate) fn announce(&self, events: u32) {
        if self.watcher_count.load(Ordering::Relaxed) != 0 {
            self.tell(events);
        }
        self.sleepers.wake_all();
    }

    fn tell(&self, events: u32) {
        self.lock()
            .iter()
            .for_each(|watcher| watcher.became_ready(events));
    }

    /// Has a watcher told of everything from here on. Of what has come before it learns by a look
    /// at the socket.
    pub(crate) fn add_watcher(&self, watcher: Arc<W>) {
        let mut watchers = self.lock();
        watchers.push(watcher);
        self.count(&watchers);
    }

    /// Forgets a watcher.
    pub(crate) fn remove_watcher(&self, watcher: &Arc<W>) {
        let mut watchers = self.lock();
        watchers.retain(|other| !Arc::ptr_eq(other, watcher));
        self.count(&watchers);
    }

    /// Whether there are any; also in a descendant, of before the fork.
    pub(crate) fn is_watched(&self) -> bool {
        self.watcher_count.load(Ordering::Relaxed) != 0
    }

    /// The latest of the watchers' times. 0 if there are no watchers.
    pub(crate) fn latest_of_watchers(&self, nsec: impl Fn(&W) -> u64) -> u64 {
        match self.is_watched() {
            true => self.lock().iter().map(|watcher| nsec(watcher)).max(),
            false => None,
        }
        .unwrap_or(0)
    }

    /// All watchers.
    pub(crate) fn watchers(&self) -> Vec<Arc<W>> {
        self.lock().clone()
    }

    /// Forgets all watchers; returns those that there were.
    pub(crate) fn take_watchers(&self) -> Vec<Arc<W>> {
        let mut watchers = self.lock();
        let taken = std::mem::take(&mut *watchers);
        self.count(&watchers);
        taken
    }

    fn count(&self, watchers: &[Arc<W>]) {
        self.watcher_count
            .store(watchers.len() as u32, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<W>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
