//! Where connections wait after their end, and how many the kernel takes.

use std::time::Duration;

use ::tcp::Instant;

/// What becomes of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) enum Wait {
    /// Nothing was decided.
    #[default]
    Open,
    /// The same; it is one of those that may go to the kernel.
    Granted,
    /// The kernel waits.
    Kernels,
    /// The kernel cannot, or others wait there that are enough: the connection does, for as long as
    /// somebody has it.
    Here,
}

/// How many connections may go to the kernel for TIME-WAIT: about so many a second, after a burst
/// of as many.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Allowance {
    left: u32,
    /// Until when what was earned is counted.
    at: Instant,
}

/// A second's. A fortieth of a CPU's time.
const ALLOWED: u32 = 1000;
const EARNED_EVERY: Duration = Duration::from_micros(1_000_000 / ALLOWED as u64);

impl Allowance {
    pub(in crate::tcp) fn new(now: Instant) -> Self {
        Self {
            left: ALLOWED,
            at: now,
        }
    }

    /// Takes one, if there is one.
    pub(in crate::tcp) fn take(&mut self, now: Instant) -> bool {
        let earned = now.saturating_since(self.at).as_nanos() / EARNED_EVERY.as_nanos();
        let earned = u32::try_from(earned).unwrap_or(u32::MAX).min(ALLOWED);
        if earned == ALLOWED {
            self.at = now;
        } else {
            self.at = self.at + EARNED_EVERY * earned;
        }
        self.left = (self.left + earned).min(ALLOWED);
        let has_one = self.left > 0;
        self.left -= u32::from(has_one);
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_second_after_a_burst() {
        let begin = Instant::from_nanos(5);
        let mut allowance = Allowance::new(begin);
        let mut taken_at = |at: Instant| (0..3 * ALLOWED).filter(|_| allowance.take(at)).count();
        assert_eq!(taken_at(begin), 1000);
        assert_eq!(taken_at(begin + Duration::from_micros(999)), 0);
        // Parts of what earns one are not lost.
        assert_eq!(taken_at(begin + Duration::from_micros(1_500)), 1);
        assert_eq!(taken_at(begin + Duration::from_millis(10)), 9);
        assert_eq!(taken_at(begin + Duration::from_secs(3600)), 1000);
        assert_eq!(taken_at(begin + Duration::from_secs(3600)), 0);
    }
}
