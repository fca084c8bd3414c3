//! What waiting calls count for readers of the statistics.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use stats::{MultiplexerSlot, MultiplexerStats, Shares};

use crate::mux::call::{MuxCall, MuxOutcome};
use crate::mux::polling_time::PollingTime;

/// The counters of `poll(2)`, of `select(2)`, or of one epoll set. Any number of threads may count,
/// each in its own share.
#[derive(Debug)]
pub(crate) struct MuxCounters {
    slot: Mutex<Option<MultiplexerSlot>>,
    /// Those of the slot, or some that nobody sees.
    counters: AtomicPtr<MultiplexerStats>,
    overflow: &'static MultiplexerStats,
    shares: Shares,
    polling_time: PollingTime,
}

impl MuxCounters {
    pub(crate) fn new() -> Self {
        let overflow: &'static MultiplexerStats = Box::leak(Box::default());
        Self {
            slot: Mutex::new(None),
            counters: AtomicPtr::new(ptr::from_ref(overflow).cast_mut()),
            overflow,
            shares: Shares::new(),
            polling_time: PollingTime::default(),
        }
    }

    /// Shows the counters from here on.
    pub(crate) fn show(&self, slot: MultiplexerSlot) {
        self.shares.clear();
        if let Some(counters) = slot.lasting() {
            self.counters
                .store(ptr::from_ref(counters).cast_mut(), Ordering::Relaxed);
        }
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
    }

    /// The set is gone.
    pub(crate) fn hide(&self) {
        self.counters
            .store(ptr::from_ref(self.overflow).cast_mut(), Ordering::Relaxed);
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Counts what became of an attempt.
    #[inline]
    pub(crate) fn count(&self, call: &mut MuxCall, outcome: &MuxOutcome) {
        // SAFETY: the pointer comes from `&'static MultiplexerStats` (see `new` and `show`).
        let counters = unsafe { &*self.counters.load(Ordering::Relaxed) };
        if matches!(outcome, MuxOutcome::Again) {
            return;
        }
        if let Some(since) = call.polls_since_nsec
            && let Some(percent) = self.polling_time.add(since, sys::now_nsec())
        {
            counters.polling_cpu.set(percent);
        }
        let share = self.shares.of_thread(dev_core::lock::thread_token());
        if share.is_new() {
            counters.thread.set(sys::thread_id().cast_unsigned());
        }
        let counters = &counters.shares[share.index()];
        match outcome {
            MuxOutcome::Again => {}
            MuxOutcome::Sleep(_) => {
                if !std::mem::replace(&mut call.has_slept, true) {
                    share.add(&counters.poll_miss, 1);
                }
            }
            MuxOutcome::Fail(_) => share.add(&counters.errors, 1),
            MuxOutcome::Done(0) => share.add(&counters.timeouts, 1),
            MuxOutcome::Done(ready) => {
                let found = if call.found_by_kernel {
                    &counters.rx_os_ready
                } else {
                    &counters.rx_ready
                };
                share.add(found, *ready as u64);
                if !call.has_slept {
                    share.add(&counters.poll_hit, 1);
                }
            }
        }
    }
}
