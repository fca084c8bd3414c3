//! What the calls that wait have in common: times, signal masks, how many descriptors are many.

use engine::user_memory::is_readable;
use libc::{c_int, sigset_t, timespec};

pub(super) const NSEC_PER_SEC: u64 = 1_000_000_000;

/// More descriptors than most programs wait for.
pub(super) const MANY: usize = 4096;

/// The timeout of `poll(2)` and `epoll_wait(2)`.
pub(super) fn msec_to_nsec(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|msec| msec * 1_000_000)
}

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
    let timeout = unsafe { timeout.read_unaligned() };
    let (sec, nsec) = (
        u64::try_from(timeout.tv_sec),
        u64::try_from(timeout.tv_nsec),
    );
    match (sec, nsec) {
        (Ok(sec), Ok(nsec)) if nsec < NSEC_PER_SEC => {
            Ok(Some(sec.saturating_mul(NSEC_PER_SEC).saturating_add(nsec)))
        }
        _ => Err(()),
    }
}

/// Whether a signal mask is one that the kernel will refuse.
pub(super) fn is_bad_mask(mask: *const sigset_t) -> bool {
    // The kernel's has 64 bits.
    !mask.is_null() && !is_readable(mask, size_of::<u64>())
}
