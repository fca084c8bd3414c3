//! Atomics that `models/` replaces to try every order of what uses them.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
