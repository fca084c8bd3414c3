//! Atomics that `models/` replaces to try every interleaving of what uses them.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
