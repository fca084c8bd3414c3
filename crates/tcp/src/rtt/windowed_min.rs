//! The least of the samples in a sliding window, in constant space.

use core::time::Duration;

use crate::Instant;

/// Tracks the best, second best and third best sample, each from a later part of the window than the one before, so that a
/// successor is at hand when the best one expires. (Kathleen Nichols' algorithm; Linux: lib/win_minmax.c.)
///
/// The value is one of the window's samples and not above the latest. When the best expires it is the least of the samples
/// since its successor, which can be above the least of the whole window.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMin {
    window: Duration,
    best: Option<[Sample; 3]>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    value: Duration,
}

impl WindowedMin {
    #[must_use]
    pub const fn new(window: Duration) -> Self {
        Self { window, best: None }
    }

    #[must_use]
    pub fn value(&self) -> Option<Duration> {
        self.best.map(|[first, ..]| first.value)
    }

    pub fn update(&mut self, now: Instant, value: Duration) {
        let sample = Sample { at: now, value };
        let Some([first, second, third]) = &mut self.best else {
            self.best = Some([sample; 3]);
            return;
        };
        if value <= first.value || now - third.at > self.window {
            // A new minimum, or nothing left in the window.
            self.best = Some([sample; 3]);
            return;
        }
        if value <= second.value {
            *second = sample;
            *third = sample;
        } else if value <= third.value {
            *third = sample;
        }
        self.expire(sample);
    }

    fn quarter(&self) -> Duration {
        self.window.checked_div(4).unwrap_or_default()
    }

    fn expire(&mut self, sample: Sample) {
        let quarter = self.quarter();
        let Some([first, second, third]) = &mut self.best else {
            return;
        };
        let age = sample.at - first.at;
        if age > self.window {
            // The best has expired; so may have the second.
            (*first, *second, *third) = (*second, *third, sample);
            if sample.at - first.at > self.window {
                (*first, *second) = (*second, sample);
            }
        } else if second.at == first.at && age > quarter {
            // A quarter has passed without a second: take it from the second quarter.
            *second = sample;
            *third = sample;
        } else if third.at == second.at && age > quarter.saturating_mul(2) {
            *third = sample;
        }
    }
}

#[cfg(test)]
mod tests {

    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    #[test]
    fn nothing_is_known_before_the_first_sample() {
        assert_eq!(WindowedMin::new(WINDOW).value(), None);
    }

    #[test]
    fn a_minimum_is_forgotten_after_the_window() {
        let mut minimum = WindowedMin::new(WINDOW);
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
            let mut minimum = WindowedMin::new(WINDOW);
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
