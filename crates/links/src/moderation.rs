//! Wake-ups by a stream of packets that nobody answers (`VMA_CQ_MODERATION_*`).
//!
//! A wake-up costs a thread more than ten packets do. Where packets come faster than they pay for
//! one each, a thread that would sleep until the next naps for a while instead, and takes what has
//! come together. Whoever waits for an answer has no use for that: such traffic is not moderated.

use std::time::Duration;

/// How long a thread that sleeps leaves packets alone; zero of either for never.
#[derive(Clone, Copy, Debug)]
pub struct Moderation {
    /// `VMA_CQ_MODERATION_PERIOD_USEC`: at most so long.
    pub period: Duration,
    /// `VMA_CQ_MODERATION_COUNT`: until about so many wait.
    pub packets: u32,
}

/// So many packets have to be expected of a nap.
const PACKETS_MIN: u64 = 2;

impl Moderation {
    /// None: each packet wakes.
    pub const NONE: Self = Self {
        period: Duration::ZERO,
        packets: 0,
    };

    /// How long to nap where a packet comes every `gap_nsec`; 0 for one that is not a stream.
    pub fn nap_nsec(self, gap_nsec: u64) -> Option<u64> {
        let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        let nap = period.min(gap_nsec.saturating_mul(self.packets.into()));
        (gap_nsec > 0 && nap >= gap_nsec.saturating_mul(PACKETS_MIN)).then_some(nap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nap_ends_with_the_period_or_the_packets() {
        let moderation = Moderation {
            period: Duration::from_micros(50),
            packets: 48,
        };
        assert_eq!(moderation.nap_nsec(0), None);
        assert_eq!(moderation.nap_nsec(7_500), Some(50_000));
        assert_eq!(moderation.nap_nsec(25_000), Some(50_000));
        assert_eq!(moderation.nap_nsec(25_001), None, "a packet by itself");
        assert_eq!(moderation.nap_nsec(1_000), Some(48_000));
        assert_eq!(Moderation::NONE.nap_nsec(1_000), None);
    }
}
