//! How much of something is allowed in a time.

use std::time::{Duration, Instant};

/// Fills at a rate up to a size; each use takes one.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: u32,
    size: u32,
    tokens: u32,
    filled: Instant,
}

impl TokenBucket {
    /// A full one.
    pub fn new(per_second: u32, size: u32, now: Instant) -> Self {
        Self {
            per_second,
            size,
            tokens: size,
            filled: now,
        }
    }

    /// Takes one if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        self.fill(now);
        let taken = self.tokens.checked_sub(1);
        self.tokens = taken.unwrap_or(0);
        taken.is_some()
    }

    /// When there will be the next one, if there is none now.
    pub fn next(&self) -> Option<Instant> {
        (self.tokens == 0).then(|| self.filled + self.interval())
    }

    /// The time that one takes to come.
    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.per_second.max(1)
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled);
        let interval = self.interval();
        let due = elapsed.as_nanos() / interval.as_nanos().max(1);
        let missing = self.size - self.tokens;
        match u32::try_from(due) {
            Ok(due) if due < missing => {
                self.tokens += due;
                self.filled += interval * due;
            }
            _ if due > 0 || missing == 0 => {
                self.tokens = self.size;
                self.filled = now;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_then_the_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(10, 3, start);
        assert_eq!((0..5).filter(|_| bucket.take(start)).count(), 3);
        let next = bucket.next().unwrap();
        assert_eq!(next, start + Duration::from_millis(100));
        assert!(!bucket.take(next - Duration::from_millis(1)));
        assert!(bucket.take(next));
        assert!(!bucket.take(next));
        let later = next + Duration::from_secs(60);
        assert_eq!((0..5).filter(|_| bucket.take(later)).count(), 3);
    }

    #[test]
    fn the_rate_holds_over_many_small_steps() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(1000, 10, start);
        let steps = (0..10_000).map(|step| start + Duration::from_micros(300) * step);
        let taken = steps.filter(|now| bucket.take(*now)).count();
        // 3 seconds.
        assert!((2990..=3012).contains(&taken), "{taken}");
    }
}
