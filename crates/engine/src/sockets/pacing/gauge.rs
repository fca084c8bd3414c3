//! When the next packet may leave.

use std::time::Duration;

use ::tcp::Instant;
use ::tcp::pacing::Pacer;

use crate::sockets::pacing::limit::Rate;

/// What may leave together where nobody has said, as a part of a second: less than threads are
/// late. Up to 0.6 Gbit/s that is no second frame of Ethernet.
const BURSTS_PER_SECOND: u64 = 50_000;
/// By so much threads may be late without a loss of rate, where the program has set no bound to
/// bursts.
const LATENESS: Duration = Duration::from_millis(20);
/// Telling the device takes less than this, unless the thread is held up meanwhile.
const HELD_UP: Duration = Duration::from_micros(20);

/// Keeps a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gauge {
    pacer: Pacer,
    /// What was late is made up for at twice the rate at most, as by fq (`fq_dequeue`).
    peak: Option<Pacer>,
}

impl Gauge {
    pub(super) fn new(rate: Rate) -> Self {
        let octets = rate.octets_per_second;
        if rate.burst != 0 {
            return Self {
                pacer: Pacer::exact(octets, rate.burst, Duration::ZERO),
                peak: None,
            };
        }
        let burst = u32::try_from(octets / BURSTS_PER_SECOND).unwrap_or(u32::MAX);
        let twice = octets.saturating_mul(2);
        Self {
            pacer: Pacer::exact(octets, burst, LATENESS),
            peak: Some(Pacer::exact(twice, burst, Duration::ZERO)),
        }
    }

    /// When a packet of so many octets may leave; `None` for at once.
    pub(super) fn next_at(&mut self, octets: u32, now: Instant) -> Option<Instant> {
        let next = self.pacer.next_whole_at(octets, now);
        let peak = self.peak.as_mut();
        next.max(peak.and_then(|peak| peak.next_whole_at(octets, now)))
    }

    /// It leaves.
    pub(super) fn on_sent(&mut self, octets: u32, now: Instant) {
        self.pacer.on_sent(octets, now);
        if let Some(peak) = &mut self.peak {
            peak.on_sent(octets, now);
        }
    }

    /// The device was told of it so much later.
    pub(super) fn note_telling(&mut self, after: Duration) {
        if after > HELD_UP {
            self.peak
                .as_mut()
                .unwrap_or(&mut self.pacer)
                .postpone(after);
        }
    }

    /// Nothing waits.
    pub(super) fn rest(&mut self) {
        self.pacer.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u32 = 1514;

    fn rate(burst: u32) -> Rate {
        Rate {
            octets_per_second: 12_500_000,
            burst,
        }
    }

    /// When each of so many frames leaves, of which one is held up.
    fn departures(gauge: &mut Gauge, held_up: Duration) -> Vec<Instant> {
        let mut now = Instant::ZERO;
        let mut left = Vec::new();
        while left.len() < 2000 {
            match gauge.next_at(FRAME, now) {
                Some(at) if left.len() == 100 => now = at + held_up,
                Some(at) => now = at,
                None => {
                    gauge.on_sent(FRAME, now);
                    left.push(now);
                }
            }
        }
        left
    }

    #[test]
    fn what_was_late_is_made_up_for_at_twice_the_rate() {
        let mut gauge = Gauge::new(rate(0));
        let left = departures(&mut gauge, Duration::from_millis(3));
        let gaps: Vec<_> = left
            .windows(2)
            .map(|two| two[1].saturating_since(two[0]))
            .collect();
        let least = gaps.iter().min().unwrap();
        assert!((60_500..60_600).contains(&least.as_nanos()), "{least:?}");
        let time = left[1999].saturating_since(left[0]);
        let exact = 1999 * u64::from(FRAME) * 80;
        assert!(time.as_nanos().abs_diff(exact.into()) < 20_000, "{time:?}");
    }

    #[test]
    fn a_bound_to_bursts_is_kept_whoever_is_late() {
        let mut gauge = Gauge::new(rate(2 * FRAME));
        let left = departures(&mut gauge, Duration::from_millis(3));
        for three in left.windows(3) {
            let time = three[2].saturating_since(three[0]);
            assert!(time >= Duration::from_nanos(121_110), "{time:?}");
        }
    }

    #[test]
    fn nothing_is_made_up_for_of_a_time_in_which_nothing_waited() {
        let mut gauge = Gauge::new(rate(0));
        departures(&mut gauge, Duration::from_millis(3));
        let now = Instant::from_nanos(1_000_000_000);
        gauge.rest();
        assert_eq!(gauge.next_at(FRAME, now), None);
        gauge.on_sent(FRAME, now);
        let next = gauge.next_at(FRAME, now).unwrap();
        assert!(
            next.saturating_since(now) > Duration::from_micros(121),
            "{next:?}"
        );
    }
}
