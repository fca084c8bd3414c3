//! All queues of the process, for the internal thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use links::Receiver;
use links::internal_thread::InternalThread;

use crate::sockets::pacing::polling_nsec;
use crate::sockets::pacing::queue::{NEVER, PacedQueue};

/// So long the internal thread polls the clock at a time before it looks after other things.
const TURN_NSEC: u64 = 1_000_000;

/// The queues that there are.
#[derive(Debug)]
pub(crate) struct Pacers<S: Receiver> {
    queues: Mutex<Vec<Arc<PacedQueue<S>>>>,
    /// When the internal thread looks next; 0: it is looking.
    looks_at: AtomicU64,
    internal_thread: Arc<InternalThread>,
}

impl<S: Receiver> Pacers<S> {
    pub(crate) fn new(internal_thread: Arc<InternalThread>) -> Self {
        Self {
            queues: Mutex::default(),
            looks_at: AtomicU64::new(NEVER),
            internal_thread,
        }
    }

    pub(crate) fn add(&self, queue: Arc<PacedQueue<S>>) {
        self.lock().push(queue);
    }

    /// Whether there is somebody who lets packets leave.
    pub(crate) fn are_looked_after(&self) -> bool {
        self.internal_thread.is_started()
    }

    /// A packet of some queue is to leave at this time.
    pub(crate) fn wait_until(&self, nsec: u64) {
        if nsec < self.looks_at.load(Ordering::SeqCst) {
            self.internal_thread.call();
        }
    }

    /// In the internal thread: lets packets leave whose time has come, or is about to. Returns when
    /// to look again.
    pub(crate) fn run(&self, polls: bool) -> Option<Duration> {
        self.looks_at.store(0, Ordering::SeqCst);
        let poll_nsec = polling_nsec(polls);
        let end = sys::now_nsec() + TURN_NSEC;
        loop {
            let next = self.release();
            let now = sys::now_nsec();
            if next > now + poll_nsec || now > end {
                let wakes_at = next.saturating_sub(poll_nsec);
                self.looks_at.store(wakes_at, Ordering::SeqCst);
                // Who has come since has seen this, or is seen.
                if self.next() >= next {
                    let is_empty = next == NEVER;
                    return (!is_empty).then(|| Duration::from_nanos(wakes_at.saturating_sub(now)));
                }
                self.looks_at.store(0, Ordering::SeqCst);
            }
            while sys::now_nsec() < next.min(end) {
                std::hint::spin_loop();
            }
        }
    }

    /// The process ends, or becomes another program: what waits leaves first, at its rate as long
    /// as that takes no more than `patience`.
    pub(crate) fn leave(&self, patience: Duration) {
        let deadline = sys::now_nsec() + patience.as_nanos() as u64;
        loop {
            let next = self.release();
            let now = sys::now_nsec();
            if next == NEVER {
                return;
            }
            if next > deadline || now > deadline {
                break;
            }
            std::thread::sleep(Duration::from_nanos(next.saturating_sub(now)));
        }
        self.lock().iter().for_each(|queue| queue.flush());
    }

    fn next(&self) -> u64 {
        let queues = self.lock();
        let times = queues.iter().map(|queue| queue.next_for_internal_thread());
        times.min().unwrap_or(NEVER)
    }

    /// Returns when the next packet is to leave.
    fn release(&self) -> u64 {
        let mut queues = self.lock();
        let now = sys::now_nsec();
        let mut next = NEVER;
        for queue in &*queues {
            if queue.next_for_internal_thread() <= now {
                queue.release();
            }
            next = next.min(queue.next_for_internal_thread());
        }
        // Of sockets that are closed, or have no rate any more.
        queues.retain(|queue| Arc::strong_count(queue) > 1 || !queue.is_empty());
        next
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<PacedQueue<S>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
