//! What a connection knows of timestamps (RFC 7323 §3 to §5).

use core::num::NonZeroU32;

use wire::tcp::Timestamps;

use crate::Instant;
use crate::time::Nanos;
use crate::timestamp::{self, is_before};

/// The timestamp state of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimestampState {
    /// Added to the clock (RFC 7323 §5.4).
    pub(super) offset: u32,
    /// `TS.Recent`.
    pub(super) recent: u32,
    /// Nothing if timestamps were not negotiated.
    recent_at: Option<Epoch>,
}

/// A time to about eight seconds, which is enough to tell 24 days by and half as large as an
/// [`Instant`]: its nanoseconds divided by 2^32, made odd so that there is no zero.
#[derive(Clone, Copy, Debug)]
struct Epoch(NonZeroU32);

impl Epoch {
    #[inline]
    fn of(at: Instant) -> Self {
        Self(NonZeroU32::MIN | units(at.as_nanos()))
    }

    #[inline]
    fn since(self, earlier: Self) -> u32 {
        self.0.get().saturating_sub(earlier.0.get())
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half of 64 bits")]
const fn units(nanos: u64) -> u32 {
    (nanos >> 32) as u32
}

impl TimestampState {
    pub(super) fn new(offset: u32) -> Self {
        Self {
            offset,
            recent: 0,
            recent_at: None,
        }
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.recent_at.is_some()
    }

    /// Both sides sent the option with their SYNs.
    pub(super) fn turn_on(&mut self) {
        self.recent_at = Some(Epoch::of(Instant::ZERO));
    }

    /// RFC 7323 §5.5: whether `TS.Recent` is too old to compare with.
    #[inline]
    fn is_outdated(&self, now: Instant) -> bool {
        self.recent_at
            .is_none_or(|at| Epoch::of(now).since(at) >= PAWS_OUTDATED)
    }

    /// `TSval`: a clock of milliseconds (RFC 7323 §5.4: "between 1 ms and 1 sec per tick").
    #[inline]
    pub(super) fn value(&self, now: Instant) -> u32 {
        timestamp::value_at(now, self.offset)
    }

    /// The option for an outgoing segment.
    #[inline]
    pub(super) fn option(&self, now: Instant) -> Option<Timestamps> {
        self.is_on().then(|| Timestamps {
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

    /// RFC 7323 §5.3 R1: the segment's timestamp is older than what was seen, and that is not
    /// itself too old to compare with.
    #[inline]
    pub(super) fn is_old(&self, now: Instant, value: u32) -> bool {
        // One tick of tolerance, `TCP_PAWS_WINDOW`.
        is_before(value.wrapping_add(PAWS_WINDOW), self.recent)
            && !self.is_outdated(now)
            && self.recent != 0
    }

    /// Older than `TS.Recent`, whatever that is worth.
    #[inline]
    pub(super) fn is_before_recent(&self, value: u32) -> bool {
        is_before(value, self.recent)
    }

    /// RFC 7323 §4.3: takes the timestamp of a segment that is at the left edge of what was
    /// acknowledged last.
    #[inline]
    pub(super) fn update(&mut self, now: Instant, value: u32) {
        if !is_before(value, self.recent) || self.is_outdated(now) || self.recent == 0 {
            self.recent = value;
            self.recent_at = Some(Epoch::of(now));
        }
    }
}

/// `TCP_PAWS_WINDOW`, in ticks.
const PAWS_WINDOW: u32 = 1;
/// RFC 7323 §5.5: "24 days", by the difference of two [`Epoch`]s.
const PAWS_OUTDATED: u32 = units(24 * 24 * 3600 * 1_000_000_000);
/// An echo that claims more was made up.
const MAX_ROUND_TRIP_MS: u32 = 600_000;
