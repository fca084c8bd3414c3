//! The time.

use ::tcp::Instant;

/// The time as connections have it.
#[inline]
pub(super) fn now() -> Instant {
    Instant::from_nanos(sys::now_nsec())
}
