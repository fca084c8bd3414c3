//! What waiting calls count for readers of the statistics.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use stats::{MultiplexerSlot, MultiplexerStats};

use crate::mux::call::{MuxCall, MuxOutcome};
use crate::sys;

/// The counters of `poll(2)`, of `select(2)`, or of one epoll set. Any number of threads may count.
#[derive(Debug)]
pub(crate) struct MuxCounters {
    slot: Mutex<Option<MultiplexerSlot>>,
    /// Those of the slot, or some that nobody sees.
    counters: AtomicPtr<MultiplexerStats>,
    unseen: &'static MultiplexerStats,
    /// The thread that called last.
    caller: AtomicUsize,
}

impl MuxCounters {
    pub(crate) fn new() -> Self {
        let unseen: &'static MultiplexerStats = Box::leak(Box::default());
        Self {
            slot: Mutex::new(None),
            counters: AtomicPtr::new(ptr::from_ref(unseen).cast_mut()),
            unseen,
            caller: AtomicUsize::new(0),
        }
    }

    /// Shows the counters from here on.
    pub(crate) fn show(&self, slot: MultiplexerSlot) {
        if let Some(counters) = slot.lasting() {
            self.counters
                .store(ptr::from_ref(counters).cast_mut(), Ordering::Relaxed);
        }
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
    }

    /// The set is gone.
    pub(crate) fn hide(&self) {
        self.counters
            .store(ptr::from_ref(self.unseen).cast_mut(), Ordering::Relaxed);
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Counts what became of an attempt.
    #[inline]
    pub(crate) fn count(&self, call: &mut MuxCall, outcome: &MuxOutcome) {
        // SAFETY: the pointer comes from `&'static MultiplexerStats` (see `new` and `show`).
        let counters = unsafe { &*self.counters.load(Ordering::Relaxed) };
        match outcome {
            MuxOutcome::Again => return,
            MuxOutcome::Sleep(_) => {
                if !std::mem::replace(&mut call.has_slept, true) {
                    counters.poll_miss.add_contended(1);
                }
                return;
            }
            MuxOutcome::Fail(_) => counters.errors.add_contended(1),
            MuxOutcome::Done(0) => counters.timeouts.add_contended(1),
            MuxOutcome::Done(ready) => {
                let found = if call.found_by_kernel {
                    &counters.rx_os_ready
                } else {
                    &counters.rx_ready
                };
                found.add_contended(*ready as u64);
                if !call.has_slept {
                    counters.poll_hit.add_contended(1);
                }
            }
        }
        let token = dev_core::lock::thread_token();
        if self.caller.load(Ordering::Relaxed) != token {
            self.caller.store(token, Ordering::Relaxed);
            counters.thread.set(sys::thread_id().cast_unsigned());
        }
    }
}
