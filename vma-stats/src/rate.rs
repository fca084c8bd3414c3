//! Totals and rates with one set of formatting code.

use std::time::Duration;

/// How counters are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    Total,
    /// Counters are differences over this time and are shown per second.
    Over(Duration),
}

impl Rate {
    pub(crate) fn count(self, value: u64) -> u64 {
        match self {
            Self::Total => value,
            Self::Over(time) if time.is_zero() => value,
            Self::Over(time) => per_second(value, time),
        }
    }

    /// In units of 1024 bytes, rounded down.
    pub(crate) fn kbytes(self, bytes: u64) -> u64 {
        self.count(bytes) / 1024
    }

    /// What follows the unit in a heading.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Total => "",
            Self::Over(_) => "/s",
        }
    }
}

/// Rounded to the nearest. Whole nanoseconds, so that large counters keep every digit.
fn per_second(value: u64, time: Duration) -> u64 {
    let nanoseconds = time.as_nanos();
    // 2^64 × 10^9 fits into 128 bits.
    let rate = (u128::from(value) * 1_000_000_000 + nanoseconds / 2) / nanoseconds;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_divides_by_the_true_time() {
        let rate = Rate::Over(Duration::from_millis(2500));
        assert_eq!(rate.count(1000), 400);
        assert_eq!(rate.kbytes(2560 * 1024), 1024);
        assert_eq!(
            Rate::Over(Duration::from_secs(2)).count(3),
            2,
            "rounds to the nearest"
        );
        assert_eq!(
            Rate::Over(Duration::from_millis(500)).count(u64::MAX),
            u64::MAX
        );
    }

    #[test]
    fn total_is_the_counter() {
        assert_eq!(Rate::Total.count(u64::MAX), u64::MAX);
        assert_eq!(Rate::Total.kbytes(2047), 1);
    }
}
