//! What the library costs, measured: run by themselves.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cost;
mod herd;
mod many;
mod readers;
mod shared_cpu;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whoever measures has it: none of the others does meanwhile.
fn turn() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
