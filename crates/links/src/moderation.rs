//! Wake-ups by a stream of packets that nobody answers (`VMA_CQ_MODERATION_*`).
//!
//! A wake-up costs a thread more than ten packets do. Where packets come faster than they pay for
//! one each, a thread that would sleep until the next naps for a while instead, and takes what has
//! come together. Whoever waits for an answer has no use for that: such traffic is not moderated.

use std::sync::atomic::{AtomicU64, Ordering};
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

/// What a program has said of one ring (`vma_modify_ring`), in microseconds and packets.
#[derive(Debug)]
pub(crate) struct OwnModeration(AtomicU64);

const NOT_SAID: u64 = u64::MAX;

impl Default for OwnModeration {
    fn default() -> Self {
        Self(AtomicU64::new(NOT_SAID))
    }
}

impl OwnModeration {
    pub(crate) fn set(&self, moderation: Moderation) {
        // A period as long as that is more than an hour.
        let usec = u32::try_from(moderation.period.as_micros()).unwrap_or(u32::MAX - 1);
        let said = u64::from(usec.min(u32::MAX - 1)) << 32 | u64::from(moderation.packets);
        self.0.store(said, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Moderation> {
        let said = self.0.load(Ordering::Relaxed);
        (said != NOT_SAID).then(|| Moderation {
            period: Duration::from_micros(said >> 32),
            packets: said as u32,
        })
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

    #[test]
    fn a_ring_has_what_was_said_of_it() {
        let own = OwnModeration::default();
        assert!(own.get().is_none());
        for (usec, packets) in [(0, 0), (50, 48), (u64::from(u32::MAX), u32::MAX)] {
            own.set(Moderation {
                period: Duration::from_micros(usec),
                packets,
            });
            let said = own.get().unwrap();
            let expected = Duration::from_micros(usec.min(u64::from(u32::MAX - 1)));
            assert_eq!((said.period, said.packets), (expected, packets));
        }
    }
}
