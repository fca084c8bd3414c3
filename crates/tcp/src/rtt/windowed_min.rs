//! The least of the samples in a sliding window, in constant space.

use core::time::Duration;

use crate::Instant;

/// Tracks the best, second best and third best sample, each from a later part of the window than
/// the one before, so that a successor is at hand when the best one expires. (Kathleen Nichols'
/// algorithm; Linux: lib/win_minmax.c.)
///
/// The value is one of the window's samples and not above the latest. When the best expires it is
/// the least of the samples since its successor, which can be above the least of the whole window.
///
/// Times are kept in milliseconds and samples in microseconds, modulo 2^32 and up to it: a
/// connection has one of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowedMin<const WINDOW_MILLIS: u32> {
    best: Option<[Sample; 3]>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at_millis: u32,
    micros: u32,
}

impl Sample {
    fn age_millis(&self, earlier: &Self) -> u32 {
        self.at_millis.wrapping_sub(earlier.at_millis)
    }
}

impl<const WINDOW_MILLIS: u32> WindowedMin<WINDOW_MILLIS> {
    #[must_use]
    pub fn value(&self) -> Option<Duration> {
        self.best
            .map(|[first, ..]| Duration::from_micros(u64::from(first.micros)))
    }

    pub fn update(&mut self, now: Instant, value: Duration) {
        let sample = Sample {
            at_millis: now.wrapping_millis(),
            micros: u32::try_from(value.as_micros()).unwrap_or(u32::MAX),
        };
        let Some([first, second, third]) = &mut self.best else {
            self.best = Some([sample; 3]);
            return;
        };
        if sample.micros <= first.micros || sample.age_millis(third) > WINDOW_MILLIS {
            // A new minimum, or nothing left in the window.
            self.best = Some([sample; 3]);
            return;
        }
        if sample.micros <= second.micros {
            *second = sample;
            *third = sample;
        } else if sample.micros <= third.micros {
            *third = sample;
        }
        self.expire(sample);
    }

    fn expire(&mut self, sample: Sample) {
        let Some([first, second, third]) = &mut self.best else {
            return;
        };
        let age = sample.age_millis(first);
        if age > WINDOW_MILLIS {
            // The best has expired; so may have the second.
            (*first, *second, *third) = (*second, *third, sample);
            if sample.age_millis(first) > WINDOW_MILLIS {
                (*first, *second) = (*second, sample);
            }
        } else if second.at_millis == first.at_millis && age > WINDOW_MILLIS / 4 {
            // A quarter has passed without a second: take it from the second quarter.
            *second = sample;
            *third = sample;
        } else if third.at_millis == second.at_millis && age > WINDOW_MILLIS / 2 {
            *third = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const WINDOW_MILLIS: u32 = 10_000;
    const WINDOW: Duration = Duration::from_secs(10);

    #[test]
    fn nothing_is_known_before_the_first_sample() {
        assert_eq!(WindowedMin::<WINDOW_MILLIS>::default().value(), None);
    }

    #[test]
    fn a_minimum_is_forgotten_after_the_window() {
        let mut minimum = WindowedMin::<WINDOW_MILLIS>::default();
        for (at, value, expected) in [
            (0, 5, 5),
            (1, 9, 5),
            (3, 8, 5),
            (6, 7, 5),
            (10, 20, 5),
            (11, 20, 7),
            (17, 20, 20),
        ] {
            minimum.update(
                Instant::ZERO + Duration::from_secs(at),
                Duration::from_millis(value),
            );
            assert_eq!(
                minimum.value(),
                Some(Duration::from_millis(expected)),
                "at {at} s"
            );
        }
    }

    proptest! {
        #[test]
        fn the_value_is_a_sample_of_the_window_not_above_the_latest(
            samples in prop::collection::vec((0_u64..4_000, 1_u64..1_000), 1..200)
        ) {
            let mut minimum = WindowedMin::<WINDOW_MILLIS>::default();
            let mut now = Instant::ZERO;
            let mut window = VecDeque::new();
            for (gap_millis, value) in samples {
                now = now + Duration::from_millis(gap_millis);
                let value = Duration::from_micros(value);
                minimum.update(now, value);
                window.push_back((now, value));
                // What the filter keeps may be as old as the window, never older.
                window.retain(|(at, _)| now - *at <= WINDOW);
                let result = minimum.value().unwrap();
                prop_assert!(window.iter().any(|(_, value)| *value == result));
                prop_assert!(result <= value);
            }
        }
    }
}
