//! What stands for `crate::sync`.

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use loom::sync::{Mutex, MutexGuard};
