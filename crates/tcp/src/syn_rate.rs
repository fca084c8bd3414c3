//! How many SYNs a listener answers in a second (`VMA_TCP_MAX_SYN_RATE`).

use crate::Instant;

/// A token bucket. A tenth of a second's SYNs may come at once, at least one.
#[derive(Clone, Copy, Debug)]
pub struct SynRate {
    /// Nanoseconds that a SYN costs; 0 for no limit.
    cost: u64,
    depth: u64,
    /// Nanoseconds saved up, as of `updated`.
    tokens: u64,
    updated: Instant,
}

const SECOND: u64 = 1_000_000_000;

impl SynRate {
    /// `per_second` of 0 sets no limit.
    #[must_use]
    pub fn new(per_second: u32, now: Instant) -> Self {
        let cost = SECOND.checked_div(u64::from(per_second)).unwrap_or(0);
        let depth = cost.max(SECOND / 10);
        Self {
            cost,
            depth,
            tokens: depth,
            updated: now,
        }
    }

    /// Whether a SYN that came at `now` is answered.
    pub fn admits(&mut self, now: Instant) -> bool {
        if self.cost == 0 {
            return true;
        }
        let passed = now.as_nanos().saturating_sub(self.updated.as_nanos());
        self.updated = self.updated.max(now);
        self.tokens = self.tokens.saturating_add(passed).min(self.depth);
        match self.tokens.checked_sub(self.cost) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn admitted(limit: &mut SynRate, offered_per_second: u64, seconds: u64) -> u64 {
        (0..offered_per_second * seconds)
            .map(|index| Instant::from_nanos(index * SECOND / offered_per_second))
            .filter(|&now| limit.admits(now))
            .count() as u64
    }

    #[test]
    fn no_limit_admits_everything() {
        let mut limit = SynRate::new(0, Instant::ZERO);
        assert_eq!(admitted(&mut limit, 10_000, 1), 10_000);
    }

    #[test]
    fn a_flood_is_cut_to_the_rate_and_a_trickle_is_not() {
        for rate in [1, 7, 100, 100_000] {
            let mut limit = SynRate::new(rate, Instant::ZERO);
            let rate = u64::from(rate);
            let flood = admitted(&mut limit, rate * 10, 5);
            assert!(flood >= rate * 5 - 1, "{flood} at {rate}");
            assert!(flood <= rate * 5 + rate / 10 + 1, "{flood} at {rate}");
        }
        let mut limit = SynRate::new(100, Instant::ZERO);
        assert_eq!(admitted(&mut limit, 50, 5), 250);
    }

    #[test]
    fn a_burst_of_a_tenth_second_passes_after_idleness() {
        let mut limit = SynRate::new(100, Instant::ZERO);
        let later = Instant::ZERO + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| limit.admits(later)).count(), 10);
        assert!(
            !limit.admits(Instant::ZERO),
            "a clock that steps back gives nothing"
        );
    }
}
