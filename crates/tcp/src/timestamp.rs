//! Values of the timestamps option (RFC 7323 §3): a clock of milliseconds modulo 2^32.

use crate::Instant;

/// The timestamps option with its padding, in octets.
pub(crate) const TIMESTAMPS_LEN: u16 = 12;

/// `TSval` at `now`, for a connection whose timestamps are `offset` ahead of the caller's clock
/// (RFC 7323 §5.4).
#[inline]
pub(crate) const fn value_at(now: Instant, offset: u32) -> u32 {
    now.wrapping_millis().wrapping_add(offset)
}

/// Whether `one` is the earlier of two timestamps. They are compared as sequence numbers are (RFC
/// 7323 §5.2).
#[inline]
pub(crate) const fn is_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}
