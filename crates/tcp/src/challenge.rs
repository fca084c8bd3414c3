//! How often segments outside of the window are answered (RFC 5961 §7, "ACK throttling").

use core::num::NonZeroU32;
use core::time::Duration;

use crate::Instant;

/// When one connection last answered such a segment, in milliseconds modulo 2^32
/// (`last_oow_ack_time` of Linux).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastChallenge(Option<NonZeroU32>);

impl LastChallenge {
    /// Whether there was no answer within the last `interval`, so that one may be sent. Then it
    /// counts as the last.
    pub(crate) fn allows_another(&mut self, now: Instant, interval: Duration) -> bool {
        let millis = NonZeroU32::new(now.wrapping_millis()).unwrap_or(NonZeroU32::MIN);
        let has_passed = |last: NonZeroU32| {
            u128::from(millis.get().wrapping_sub(last.get())) >= interval.as_millis()
        };
        let is_allowed = self.0.is_none_or(has_passed);
        if is_allowed {
            self.0 = Some(millis);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_an_interval_apart_also_where_the_clock_wraps() {
        let interval = Duration::from_millis(500);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        for start in [0, 1, (1 << 32) - 100, 1 << 32] {
            let mut last = LastChallenge::default();
            assert!(last.allows_another(at(start), interval));
            assert!(!last.allows_another(at(start + 499), interval));
            // Zero stands for no answer, so an answer at zero counts as one at the first
            // millisecond.
            assert!(last.allows_another(at(start + 501), interval));
            assert!(!last.allows_another(at(start + 1000), interval));
        }
    }
}
