//! How much time the internal thread spends on what descendants ask for: each look goes through the
//! sockets under the control lock, and a descendant may have been given to another user who asks
//! without end.

use std::time::Duration;

use tcp::Instant;

/// How much of a period looks may take.
const BUDGET: Duration = Duration::from_millis(4);
/// A descendant waits five times as long before it gives up.
const PERIOD: Duration = Duration::from_millis(20);

/// The looks of one period.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    begun: Option<Instant>,
    spent: Duration,
}

impl Throttle {
    /// A look has been taken from `begun` until `ended`.
    pub(crate) fn looked(&mut self, begun: Instant, ended: Instant) {
        if self.begun.is_none_or(|period| begun >= period + PERIOD) {
            (self.begun, self.spent) = (Some(begun), Duration::ZERO);
        }
        self.spent += ended.saturating_since(begun);
    }

    /// Until when to look no more; `None`: now is fine.
    pub(crate) fn pause(&self, now: Instant) -> Option<Instant> {
        let end = self.begun? + PERIOD;
        (self.spent >= BUDGET && now < end).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time spent of a second in which somebody asks all the time.
    fn spent(look: Duration) -> Duration {
        let mut throttle = Throttle::default();
        let begun = Instant::ZERO;
        let (mut now, mut spent) = (begun, Duration::ZERO);
        while now < begun + Duration::from_secs(1) {
            match throttle.pause(now) {
                Some(end) => now = end,
                None => {
                    throttle.looked(now, now + look);
                    spent += look;
                    now = now + look;
                }
            }
        }
        assert_eq!(throttle.pause(now), None);
        spent
    }

    #[test]
    fn looks_take_a_fifth_of_the_time() {
        for usec in [1, 10, 250] {
            let looks = spent(Duration::from_micros(usec));
            assert!(looks >= Duration::from_millis(190), "{usec}: {looks:?}");
            assert!(looks <= Duration::from_millis(220), "{usec}: {looks:?}");
        }
    }

    #[test]
    fn a_child_that_takes_many_sockets_back_does_not_wait() {
        let mut throttle = Throttle::default();
        let begun = Instant::ZERO;
        let look = Duration::from_micros(10);
        for number in 0..300 {
            let now = begun + look * number;
            assert_eq!(throttle.pause(now), None);
            throttle.looked(now, now + look);
        }
    }
}
