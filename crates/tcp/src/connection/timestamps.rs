//! Timestamps and PAWS (RFC 7323 §3 to §5).

use wire::tcp::Timestamps;

use crate::Instant;
use crate::time::Nanos;

/// The timestamp state of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimestampState {
    pub(super) is_on: bool,
    /// Added to the clock (RFC 7323 §5.4).
    pub(super) offset: u32,
    /// `TS.Recent`.
    pub(super) recent: u32,
    recent_at: Instant,
}

impl TimestampState {
    pub(super) fn new(offset: u32) -> Self {
        Self {
            is_on: false,
            offset,
            recent: 0,
            recent_at: Instant::ZERO,
        }
    }

    /// `TSval`: a clock of milliseconds (RFC 7323 §5.4: "between 1 ms and 1 sec per tick").
    #[inline]
    pub(super) fn value(&self, now: Instant) -> u32 {
        timestamp_value(now, self.offset)
    }

    /// The option for an outgoing segment.
    #[inline]
    pub(super) fn option(&self, now: Instant) -> Option<Timestamps> {
        self.is_on.then(|| Timestamps {
            value: self.value(now),
            echo: self.recent,
        })
    }

    /// The round-trip time that an echo proves; its resolution is a millisecond.
    #[inline]
    pub(super) fn round_trip(&self, now: Instant, echo: u32) -> Option<Nanos> {
        if echo == 0 {
            return None;
        }
        let elapsed = self.value(now).wrapping_sub(echo);
        (elapsed < MAX_ROUND_TRIP_MS)
            .then(|| Nanos::new(u64::from(elapsed.max(1)).saturating_mul(1_000_000)))
    }

    /// RFC 7323 §5.3 R1: the segment's timestamp is older than what was seen, and that is not itself too old to compare with.
    #[inline]
    pub(super) fn is_old(&self, now: Instant, value: u32) -> bool {
        // One tick of tolerance, `TCP_PAWS_WINDOW`.
        is_before(value.wrapping_add(PAWS_WINDOW), self.recent)
            && now.nanos_since(self.recent_at) < PAWS_OUTDATED
            && self.recent != 0
    }

    /// Older than `TS.Recent`, whatever that is worth.
    #[inline]
    pub(super) fn is_before_recent(&self, value: u32) -> bool {
        is_before(value, self.recent)
    }

    /// RFC 7323 §4.3: takes the timestamp of a segment that is at the left edge of what was acknowledged last.
    #[inline]
    pub(super) fn update(&mut self, now: Instant, value: u32) {
        if !is_before(value, self.recent)
            || now.nanos_since(self.recent_at) >= PAWS_OUTDATED
            || self.recent == 0
        {
            self.recent = value;
            self.recent_at = now;
        }
    }
}

/// The clock of a connection whose offset is `offset`.
#[inline]
pub(crate) fn timestamp_value(now: Instant, offset: u32) -> u32 {
    now.wrapping_millis().wrapping_add(offset)
}

#[inline]
fn is_before(left: u32, right: u32) -> bool {
    left.wrapping_sub(right).cast_signed() < 0
}

/// `TCP_PAWS_WINDOW`, in ticks.
const PAWS_WINDOW: u32 = 1;
/// RFC 7323 §5.5: "24 days", in nanoseconds.
const PAWS_OUTDATED: u64 = 24 * 24 * 3600 * 1_000_000_000;
/// An echo that claims more was made up.
const MAX_ROUND_TRIP_MS: u32 = 600_000;
