//! Points in time, as the caller's clock gives them.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point on the caller's monotonic clock, in nanoseconds from an origin of its choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);

    /// `nanos` after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if that is later (a clock that steps back must not do harm).
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the clock's end, 584 years away.
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// As [`Self::saturating_since`].
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_gives_no_time() {
        let later = Instant::ZERO + Duration::from_millis(1);
        assert_eq!(Instant::ZERO - later, Duration::ZERO);
        assert_eq!(later - Instant::ZERO, Duration::from_millis(1));
    }
}
