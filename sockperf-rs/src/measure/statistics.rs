//! Summary statistics of a set of round-trip times.
//!
//! Mean, standard deviation and extremes are exact. Percentiles and the statistics derived from
//! them have the resolution of the histogram: a nanosecond below 32 us, 1:10000 above.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::measure::round_trips::RoundTrips;

/// The percentiles of the report, highest first.
pub const PERCENTILES: [f64; 8] = [99.999, 99.99, 99.9, 99.0, 90.0, 75.0, 50.0, 25.0];

/// All times in microseconds: half the round trip, or all of it with `--full-rtt`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Statistics {
    /// Number of samples, at least one.
    pub observations: u64,
    /// Arithmetic mean.
    pub mean_usec: f64,
    /// Sample standard deviation (divisor n - 1).
    pub std_dev_usec: f64,
    /// Mean absolute deviation from the mean.
    pub mean_ad_usec: f64,
    /// Median absolute deviation from the median, scaled to estimate a standard deviation.
    pub median_ad_usec: f64,
    /// Half the distance between the quartiles.
    pub siqr_usec: f64,
    /// Standard deviation over mean.
    pub coefficient_of_variation: f64,
    /// Standard error of the mean.
    pub std_error_usec: f64,
    /// Significance level of the confidence interval in percent.
    pub confidence_level_percent: f64,
    /// Bounds of the confidence interval of the mean.
    pub confidence_interval_usec: [f64; 2],
    /// Shortest.
    pub min_usec: f64,
    /// Longest.
    pub max_usec: f64,
    /// The values of [`PERCENTILES`].
    pub percentiles_usec: Percentiles,
}

/// Value per percentile, highest first. A percentile for which there are too few samples is absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles(pub Vec<(f64, f64)>);

impl Statistics {
    /// The statistics of the samples; `None` when there are none.
    pub fn new(round_trips: &RoundTrips, full_rtt: bool, confidence_level: u8) -> Option<Self> {
        if round_trips.count == 0 {
            return None;
        }
        let usec_per_nsec = if full_rtt { 1e-3 } else { 0.5e-3 };
        let count = round_trips.count as f64;
        let mean_nsec = round_trips.sum_nsec as f64 / count;
        let std_dev_nsec = standard_deviation(round_trips);
        let values = values(round_trips);
        let percentile = |percent| value_at(&values, rank(percent, round_trips.count));
        let quantile_usec = |percent| percentile(percent).unwrap_or(0.0) * usec_per_nsec;
        let std_error_nsec = std_dev_nsec / count.sqrt();
        let margin_nsec = normal_quantile(confidence_level) * std_error_nsec;
        Some(Self {
            observations: round_trips.count,
            mean_usec: mean_nsec * usec_per_nsec,
            std_dev_usec: std_dev_nsec * usec_per_nsec,
            mean_ad_usec: mean_absolute_deviation(&values, mean_nsec, count) * usec_per_nsec,
            median_ad_usec: median_absolute_deviation(&values, round_trips.count) * usec_per_nsec,
            siqr_usec: (quantile_usec(75.0) - quantile_usec(25.0)) / 2.0,
            coefficient_of_variation: if mean_nsec > 0.0 {
                std_dev_nsec / mean_nsec
            } else {
                0.0
            },
            std_error_usec: std_error_nsec * usec_per_nsec,
            confidence_level_percent: f64::from(confidence_level),
            confidence_interval_usec: [
                (mean_nsec - margin_nsec) * usec_per_nsec,
                (mean_nsec + margin_nsec) * usec_per_nsec,
            ],
            min_usec: round_trips.min_nsec as f64 * usec_per_nsec,
            max_usec: round_trips.max_nsec as f64 * usec_per_nsec,
            percentiles_usec: Percentiles(
                PERCENTILES
                    .into_iter()
                    .filter_map(|percent| Some((percent, percentile(percent)? * usec_per_nsec)))
                    .collect(),
            ),
        })
    }
}

impl Serialize for Percentiles {
    /// An object with keys like `p99.9`, lowest first.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (percent, value) in self.0.iter().rev() {
            map.serialize_entry(&format!("p{percent}"), value)?;
        }
        map.end()
    }
}

fn standard_deviation(round_trips: &RoundTrips) -> f64 {
    if round_trips.count < 2 {
        return 0.0;
    }
    let count = u128::from(round_trips.count);
    let sum = round_trips.sum_nsec;
    // n * sum of squares - square of sum, in integers as long as it fits: no cancellation.
    let scaled = match (
        count.checked_mul(round_trips.sum_nsec_squared),
        sum.checked_mul(sum),
    ) {
        (Some(squares), Some(square)) => squares.saturating_sub(square) as f64,
        _ => {
            let sum = sum as f64;
            (count as f64 * round_trips.sum_nsec_squared as f64 - sum * sum).max(0.0)
        }
    };
    let count = round_trips.count as f64;
    (scaled / count / (count - 1.0)).sqrt()
}

/// Round-trip times in order, to look percentiles up.
#[derive(Clone, Debug)]
pub struct Sorted {
    values: Vec<(f64, u64)>,
    count: u64,
}

impl Sorted {
    /// Goes through the histogram, once.
    pub fn new(round_trips: &RoundTrips) -> Self {
        Self {
            values: values(round_trips),
            count: round_trips.count,
        }
    }

    /// A percentile in nanoseconds; `None` when there are too few for it.
    pub fn percentile_nsec(&self, percent: f64) -> Option<f64> {
        value_at(&self.values, rank(percent, self.count))
    }
}

/// The distinct values with their counts, ascending. Single extremes are exact.
fn values(round_trips: &RoundTrips) -> Vec<(f64, u64)> {
    let RoundTrips {
        histogram,
        min_nsec,
        max_nsec,
        ..
    } = round_trips;
    let mut values: Vec<(f64, u64)> = histogram
        .iter_recorded()
        .map(|step| {
            let middle = histogram.median_equivalent(step.value_iterated_to());
            (
                middle.clamp(*min_nsec, *max_nsec) as f64,
                step.count_at_value(),
            )
        })
        .collect();
    if let Some((value, 1)) = values.first_mut() {
        *value = *min_nsec as f64;
    }
    if let Some((value, 1)) = values.last_mut() {
        *value = *max_nsec as f64;
    }
    values
}

/// The 1-based position of a percentile among `count` sorted samples: the nearest rank, 0 if none.
fn rank(percent: f64, count: u64) -> u64 {
    // Between 0 and count.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float-to-integer casts saturate, and the product is not negative"
    )]
    let rank = (0.5 + percent / 100.0 * count as f64) as u64;
    rank.min(count)
}

/// The value at a 1-based position; `None` at position 0.
fn value_at(values: &[(f64, u64)], rank: u64) -> Option<f64> {
    let mut passed = 0;
    values
        .iter()
        .find(|(_, count)| {
            passed += count;
            passed >= rank
        })
        .filter(|_| rank > 0)
        .map(|&(value, _)| value)
}

fn mean_absolute_deviation(values: &[(f64, u64)], mean: f64, count: f64) -> f64 {
    values
        .iter()
        .map(|&(value, times)| (value - mean).abs() * times as f64)
        .sum::<f64>()
        / count
}

fn median_absolute_deviation(values: &[(f64, u64)], count: u64) -> f64 {
    /// 1 / (75 % quantile of the standard normal distribution).
    const SCALE: f64 = 1.482_602_218_51;
    let Some(median) = value_at(values, rank(50.0, count)) else {
        return 0.0;
    };
    let mut deviations: Vec<(f64, u64)> = values
        .iter()
        .map(|&(value, times)| ((value - median).abs(), times))
        .collect();
    deviations.sort_by(|left, right| left.0.total_cmp(&right.0));
    value_at(&deviations, rank(50.0, count)).unwrap_or(0.0) * SCALE
}

/// The quantile z with which mean ± z * standard error covers `level` percent.
///
/// Abramowitz and Stegun, formula 26.2.23; the error is below 4.5e-4.
fn normal_quantile(level: u8) -> f64 {
    let tail = (1.0 - f64::from(level) / 100.0) / 2.0;
    let t = (-2.0 * tail.ln()).sqrt();
    t - (2.515_517 + t * (0.802_853 + t * 0.010_328))
        / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips(samples: impl IntoIterator<Item = u64>) -> RoundTrips {
        let mut round_trips = RoundTrips::new().unwrap();
        samples
            .into_iter()
            .for_each(|sample| round_trips.record(sample));
        round_trips
    }

    #[track_caller]
    fn assert_near(actual: f64, expected: f64) {
        assert!(
            (actual - expected).abs() <= 1e-3 * expected.abs() + 1e-9,
            "{actual} is not {expected}"
        );
    }

    #[test]
    fn no_samples_no_statistics() {
        assert_eq!(Statistics::new(&round_trips([]), false, 99), None);
    }

    #[test]
    fn known_series() {
        // 2, 4, 4, 4, 5, 5, 7, 9 us: mean 5, sum of squared deviations 32.
        let samples = [2, 4, 4, 4, 5, 5, 7, 9].map(|usec| usec * 1000);
        let statistics = Statistics::new(&round_trips(samples), true, 99).unwrap();
        assert_eq!(statistics.observations, 8);
        assert_near(statistics.mean_usec, 5.0);
        assert_near(statistics.std_dev_usec, (32.0_f64 / 7.0).sqrt());
        assert_near(statistics.mean_ad_usec, 12.0 / 8.0);
        // Median by nearest rank: the 4th of 8 is 4; deviations 0 0 0 1 1 2 3 5, the 4th is 1.
        assert_near(statistics.median_ad_usec, 1.482_602_218_51);
        // The 6th and the 2nd: 5 and 4.
        assert_near(statistics.siqr_usec, 0.5);
        assert_near(statistics.std_error_usec, (32.0_f64 / 7.0 / 8.0).sqrt());
        assert_near(
            statistics.coefficient_of_variation,
            (32.0_f64 / 7.0).sqrt() / 5.0,
        );
        let [low, high] = statistics.confidence_interval_usec;
        assert_near(high - low, 2.0 * 2.5758 * (32.0_f64 / 7.0 / 8.0).sqrt());
        assert_eq!((statistics.min_usec, statistics.max_usec), (2.0, 9.0));
    }

    #[test]
    fn latency_is_half_of_the_round_trip() {
        let statistics = Statistics::new(&round_trips([10_000, 20_000]), false, 95).unwrap();
        assert_near(statistics.mean_usec, 7.5);
        assert_near(statistics.std_dev_usec, 5.0 / 2.0_f64.sqrt());
        assert_eq!((statistics.min_usec, statistics.max_usec), (5.0, 10.0));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let statistics = Statistics::new(&round_trips(1..=1000), true, 99).unwrap();
        let values: Vec<f64> = statistics
            .percentiles_usec
            .0
            .iter()
            .map(|&(_, usec)| usec)
            .collect();
        for (value, expected) in values
            .iter()
            .zip([1.0, 1.0, 0.999, 0.99, 0.9, 0.75, 0.5, 0.25])
        {
            assert_near(*value, expected);
        }
        assert_eq!(values.len(), 8);
    }

    #[test]
    fn percentile_without_enough_samples_is_absent() {
        // int(0.5 + 0.25 * 1) = 0: there is no 25th percentile of one sample.
        let statistics = Statistics::new(&round_trips([7_000]), true, 99).unwrap();
        assert_eq!(statistics.percentiles_usec.0.len(), 7);
        assert_eq!(statistics.percentiles_usec.0.last(), Some(&(50.0, 7.0)));
        assert_eq!(statistics.std_dev_usec, 0.0);
    }

    #[test]
    fn long_times_keep_their_resolution() {
        let statistics = Statistics::new(&round_trips((1..=1000).map(|n| n * 1_000_003)), true, 99);
        let statistics = statistics.unwrap();
        assert_eq!(statistics.percentiles_usec.0[0].1, statistics.max_usec);
        let (_, p50) = statistics.percentiles_usec.0[6];
        assert!((p50 / 500_001.5 - 1.0).abs() < 1e-4, "{p50}");
        assert_near(statistics.std_dev_usec, 288_819.4e0 * 1.000_003);
    }

    #[test]
    fn variance_of_large_equal_times_is_zero() {
        let statistics = Statistics::new(&round_trips([99_999_999_999; 1000]), true, 99).unwrap();
        assert_eq!(statistics.std_dev_usec, 0.0);
    }

    #[test]
    fn normal_quantile_matches_tables() {
        for (level, expected) in [
            (50, 0.674_490),
            (90, 1.644_854),
            (95, 1.959_964),
            (99, 2.575_829),
        ] {
            let actual = normal_quantile(level);
            assert!((actual - expected).abs() < 4.5e-4, "{level}: {actual}");
        }
    }

    #[test]
    fn percentiles_serialize_with_their_names() {
        let percentiles = Percentiles(vec![(99.999, 3.5), (50.0, 2.0)]);
        assert_eq!(
            serde_json::to_string(&percentiles).unwrap(),
            r#"{"p50":2.0,"p99.999":3.5}"#
        );
    }
}
