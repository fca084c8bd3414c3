//! Points in time, as the caller's clock gives them.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point on the caller's monotonic clock, in nanoseconds from an origin of its choice.
///
/// Inside it is one more, so that an `Option` of it is as small: a connection has a dozen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self::from_nanos(0);

    /// `nanos` after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get().wrapping_sub(1)
    }

    /// Time since `earlier`; zero if that is later (a clock that steps back must not do harm).
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// Milliseconds since the clock's origin, modulo 2^32.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    pub(crate) const fn wrapping_millis(self) -> u32 {
        (self.as_nanos() / 1_000_000) as u32
    }

    /// As [`Self::saturating_since`], in nanoseconds.
    #[must_use]
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the clock's end, 584 years away.
    fn add(self, duration: Duration) -> Self {
        self + Nanos::from(duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// As [`Self::saturating_since`].
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;

    fn add(self, nanos: Nanos) -> Self {
        Self(self.0.saturating_add(nanos.get()))
    }
}

impl Add<Span> for Instant {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.nanos()))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Instant")
            .field(&self.as_nanos())
            .finish()
    }
}

/// A span of time in nanoseconds: half the size of a [`Duration`], which has seconds apart, and
/// cheaper to reckon with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nanos(NonZeroU64);

impl Nanos {
    pub(crate) const ZERO: Self = Self::new(0);

    /// One more inside, as with [`Instant`].
    pub(crate) const fn new(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    pub(crate) const fn get(self) -> u64 {
        self.0.get().wrapping_sub(1)
    }

    pub(crate) const fn duration(self) -> Duration {
        Duration::from_nanos(self.get())
    }
}

impl Default for Nanos {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.duration().fmt(formatter)
    }
}

impl From<Duration> for Nanos {
    /// Saturates at 584 years.
    #[inline]
    fn from(duration: Duration) -> Self {
        let nanos = duration
            .as_secs()
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::from(duration.subsec_nanos()));
        Self::new(nanos)
    }
}

/// A span of time in half the size of [`Nanos`]: at most 274 seconds, where it saturates, in steps
/// of 64 ns, of which a millisecond has a whole number.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(u32);

impl Span {
    pub(crate) const ZERO: Self = Self(0);
    const STEP_LOG2: u32 = 6;

    #[inline]
    pub(crate) const fn nanos(self) -> u64 {
        (self.0 as u64) << Self::STEP_LOG2
    }

    pub(crate) const fn duration(self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    pub(crate) fn doubled(self) -> Self {
        Self(self.0.saturating_mul(2))
    }

    /// Rounds up: something does not become nothing.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "at most `most`")]
    pub(crate) fn from_nanos(nanos: u64) -> Self {
        let most = Self(u32::MAX).nanos();
        let steps = nanos.min(most).next_multiple_of(1 << Self::STEP_LOG2) >> Self::STEP_LOG2;
        Self(steps as u32)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.duration().fmt(formatter)
    }
}

impl From<Nanos> for Span {
    #[inline]
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.get())
    }
}

impl From<Duration> for Span {
    #[inline]
    fn from(duration: Duration) -> Self {
        Nanos::from(duration).into()
    }
}

const _: () = assert!(size_of::<Option<Instant>>() == 8 && size_of::<Option<Nanos>>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_keeps_whole_milliseconds_and_saturates() {
        for millis in [1, 40, 200, 120_000, 274_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(Span::from(duration).duration(), duration);
        }
        assert!(Span::from_nanos(1) > Span::ZERO);
        let longest = Span::from(Duration::from_secs(300));
        assert_eq!(longest, Span::from_nanos(u64::MAX));
        assert!(longest.duration() > Duration::from_secs(274));
        assert_eq!(longest.doubled(), longest);
    }

    #[test]
    fn a_clock_that_steps_back_gives_no_time() {
        let later = Instant::ZERO + Duration::from_millis(1);
        assert_eq!(Instant::ZERO - later, Duration::ZERO);
        assert_eq!(later - Instant::ZERO, Duration::from_millis(1));
    }
}
