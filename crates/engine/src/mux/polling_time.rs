//! How much of a CPU polling takes (`VMA_CPU_USAGE_STATS`).

use std::sync::atomic::{AtomicU64, Ordering};

/// A share is worked out over at least so long.
const WINDOW_NSEC: u64 = 1_000_000_000;

/// Time that calls have polled, since a window began.
#[derive(Debug, Default)]
pub(super) struct PollingTime {
    window_began_nsec: AtomicU64,
    polled_nsec: AtomicU64,
}

impl PollingTime {
    /// A call has polled. Returns the share of a CPU in percent, more than 100 with several
    /// threads, if a window is over.
    pub(super) fn add(&self, from_nsec: u64, to_nsec: u64) -> Option<u64> {
        let polled = to_nsec.saturating_sub(from_nsec);
        let polled = self.polled_nsec.fetch_add(polled, Ordering::Relaxed) + polled;
        let began = self.window_began_nsec.load(Ordering::Relaxed);
        if began == 0 {
            // Of several threads the last one's stays.
            self.window_began_nsec.store(from_nsec, Ordering::Relaxed);
            return None;
        }
        let window = to_nsec.saturating_sub(began);
        if window < WINDOW_NSEC {
            return None;
        }
        let is_first = self.window_began_nsec.compare_exchange(
            began,
            to_nsec,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        is_first.ok()?;
        self.polled_nsec.fetch_sub(polled, Ordering::Relaxed);
        Some(polled.saturating_mul(100) / window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSEC: u64 = 1_000_000;

    #[test]
    fn the_share_is_that_of_a_window() {
        let time = PollingTime::default();
        let mut shares = Vec::new();
        // A quarter of the time, then all of it.
        for start in 0..25 {
            let from = (1000 + start * 100) * MSEC;
            let len = if start < 10 { 25 } else { 100 };
            shares.extend(time.add(from, from + len * MSEC));
        }
        let [first, second] = shares[..] else {
            panic!("{shares:?}");
        };
        assert!(
            (25..35).contains(&first) && (95..=100).contains(&second),
            "{shares:?}"
        );
    }
}
