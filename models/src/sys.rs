//! What stands for `crate::sys` of the engine.

use std::cell::Cell;
use std::time::Duration;

use crate::sync::AtomicU32;

pub(crate) fn cycle_counter() -> u64 {
    0
}

pub(crate) fn futex_wait(_word: &AtomicU32, _expected: u32, _limit: Duration) {}

pub(crate) fn futex_wake_all(_word: &AtomicU32) {
    WAKES.set(WAKES.get() + 1);
}

thread_local! {
    /// loom runs all threads of a model in one.
    static WAKES: Cell<u32> = const { Cell::new(0) };
}

/// How often somebody was woken since this was asked last.
pub(crate) fn take_wakes() -> u32 {
    WAKES.take()
}
