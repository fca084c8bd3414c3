//! Round-trip times in constant memory.

use hdrhistogram::Histogram;

use crate::error::Error;

/// Round-trip times: exact sums and extremes, and a histogram with a resolution of 1:10000.
#[derive(Debug)]
pub struct RoundTrips {
    /// All times, in nanoseconds.
    pub histogram: Histogram<u64>,
    /// Number of samples.
    pub count: u64,
    /// Sum of the times.
    pub sum_nsec: u128,
    /// Sum of the squares of the times.
    pub sum_nsec_squared: u128,
    /// Shortest time.
    pub min_nsec: u64,
    /// Longest time.
    pub max_nsec: u64,
}

impl RoundTrips {
    /// No samples.
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            histogram: Self::histogram(SIGNIFICANT_DIGITS)?,
            count: 0,
            sum_nsec: 0,
            sum_nsec_squared: 0,
            min_nsec: u64::MAX,
            max_nsec: 0,
        })
    }

    /// Adds the samples of another thread.
    pub fn add(&mut self, other: &Self) {
        // Cannot fail: all of them have the same range.
        self.histogram.add(&other.histogram).ok();
        self.count += other.count;
        self.sum_nsec += other.sum_nsec;
        self.sum_nsec_squared = self.sum_nsec_squared.saturating_add(other.sum_nsec_squared);
        self.min_nsec = self.min_nsec.min(other.min_nsec);
        self.max_nsec = self.max_nsec.max(other.max_nsec);
    }

    /// An empty histogram of nanoseconds.
    pub fn histogram(significant_digits: u8) -> Result<Histogram<u64>, Error> {
        Histogram::new_with_max(LONGEST_NSEC, significant_digits)
            .map_err(|error| Error::NoResult(format!("cannot make the histogram: {error}")))
    }

    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, rtt_nsec: u64) {
        self.histogram.saturating_record(rtt_nsec);
        self.count += 1;
        self.sum_nsec += u128::from(rtt_nsec);
        self.sum_nsec_squared = self
            .sum_nsec_squared
            .saturating_add(u128::from(rtt_nsec) * u128::from(rtt_nsec));
        self.min_nsec = self.min_nsec.min(rtt_nsec);
        self.max_nsec = self.max_nsec.max(rtt_nsec);
    }
}

/// Longer times are counted as this long in the percentiles; the maximum stays exact.
const LONGEST_NSEC: u64 = 100_000_000_000;
/// Values below 32.768 us have their own nanosecond, longer ones a resolution of 1:10000 or better.
const SIGNIFICANT_DIGITS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_long_round_trip_is_kept() {
        let mut round_trips = RoundTrips::new().unwrap();
        round_trips.record(u64::MAX / 2);
        assert_eq!(round_trips.max_nsec, u64::MAX / 2);
        assert_eq!(round_trips.histogram.len(), 1);
    }
}
