//! What stands for the crate `sys` where the engine's files are modelled.

use std::cell::Cell;
use std::time::Duration;

use loom::sync::atomic::AtomicU32;

pub fn cycle_counter() -> u64 {
    0
}

pub fn futex_wait(_word: &AtomicU32, _expected: u32, _limit: Duration) {}

pub fn futex_wake_all(_word: &AtomicU32) {
    WAKES.set(WAKES.get() + 1);
}

thread_local! {
    /// loom runs all threads of a model in one.
    static WAKES: Cell<u32> = const { Cell::new(0) };
}

/// How often somebody was woken since this was asked last.
pub fn take_wakes() -> u32 {
    WAKES.take()
}
