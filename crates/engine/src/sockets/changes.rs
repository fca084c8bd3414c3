//! Numbers that change when sockets come and go between the library and the kernel: who looks at
//! many asks again when they have.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How often a kernel socket has begun to tell the truth, or has ceased to.
static SILENCE_CHANGES: AtomicU32 = AtomicU32::new(0);

/// A number that is another one when connections have gone to the kernel's sockets, or have come
/// from there.
#[inline]
pub fn silence_changes() -> u32 {
    SILENCE_CHANGES.load(Ordering::Acquire)
}

/// How often a socket of the process has come to be the kernel's for good.
static COMMITS: AtomicU64 = AtomicU64::new(0);

/// That number: as long as it stays the same, no other one is.
pub(crate) fn commits() -> u64 {
    COMMITS.load(Ordering::Acquire)
}

/// Some have gone or come.
pub(super) fn note_silence_change() {
    SILENCE_CHANGES.fetch_add(1, Ordering::Release);
}

/// One has come to be the kernel's for good.
pub(super) fn note_commit() {
    COMMITS.fetch_add(1, Ordering::Release);
}
