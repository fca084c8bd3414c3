//! What the calls that wait have in common: timeouts, signal masks, how many descriptors are many.

use engine::calls::nsec_of_timespec;
use engine::user_memory::is_readable;
use libc::{sigset_t, timespec};

/// More descriptors than most programs wait for.
pub(super) const MANY: usize = 4096;

/// A timeout of the caller's, in nanoseconds. `Err`: not a time; the kernel says what it thinks of
/// it.
///
/// # Safety
/// What it leads to must be the caller's own.
pub(super) unsafe fn timespec_at(timeout: *const timespec) -> Result<Option<u64>, ()> {
    if timeout.is_null() {
        return Ok(None);
    }
    if !is_readable(timeout, size_of::<timespec>()) {
        return Err(());
    }
    // SAFETY: readable (checked above), and the caller's own.
    let time = unsafe { timeout.read_unaligned() };
    nsec_of_timespec(time).map(Some).ok_or(())
}

/// Whether a signal mask is one that the kernel will refuse.
pub(super) fn is_bad_mask(mask: *const sigset_t) -> bool {
    // The kernel's has 64 bits.
    !mask.is_null() && !is_readable(mask, size_of::<u64>())
}
