//! Sending at a rate (`SO_MAX_PACING_RATE`, and what congestion control wants): when the next
//! segment may leave.

use core::time::Duration;

use crate::Instant;
use crate::time::Nanos;

/// No rate (`SO_MAX_PACING_RATE` as it is by default).
pub const UNLIMITED: u64 = u64::MAX;

/// What may leave at once, as time at the rate: about what timers resolve. Linux's
/// `sk_pacing_shift` gives the same.
const BURST: Nanos = Nanos::new(1_000_000);
const BURSTS_PER_SECOND: u64 = 1000;

/// Paces one connection, by the generic cell rate algorithm (ITU-T I.371): the time at which what
/// was sent would have left at exactly the rate may be ahead of the clock by a burst.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    octets_per_second: u64,
    /// What was sent has left by then, at the rate.
    busy_until: Instant,
    /// What whole nanoseconds have left over: octets times 10^9, below the rate.
    remainder: u64,
    burst: Nanos,
    /// A segment was held back: who was to send it may come late.
    is_holding: bool,
    /// By so much.
    lateness: Nanos,
}

/// By so much a timer may be late without a loss of rate: the socket layer's resolve a millisecond.
/// (Linux makes up for the lateness of its timers as well, `tcp_update_skb_after_send`.)
const LATENESS: Nanos = Nanos::new(2_000_000);

impl Default for Pacer {
    fn default() -> Self {
        Self {
            octets_per_second: UNLIMITED,
            busy_until: Instant::ZERO,
            remainder: 0,
            burst: BURST,
            is_holding: false,
            lateness: LATENESS,
        }
    }
}

impl Pacer {
    /// One that lets no more than `burst` octets leave together, and makes up for so much that who
    /// was to send what it held back was late: for [`next_whole_at`](Self::next_whole_at).
    #[must_use]
    pub fn exact(octets_per_second: u64, burst: u32, lateness: Duration) -> Self {
        let mut pacer = Self {
            lateness: Nanos::from(lateness),
            ..Self::default()
        };
        pacer.set_rate_and_burst(octets_per_second, burst);
        pacer
    }

    /// Sets the rate in octets a second; [`UNLIMITED`] for none. Zero stands for one octet a
    /// second. Two segments of `mss` octets may always leave together, for the sake of delayed
    /// acknowledgements.
    pub fn set_rate(&mut self, octets_per_second: u64, mss: u32) {
        self.octets_per_second = octets_per_second.max(1);
        self.remainder = 0;
        let (two_segments, _) = self.time_for(mss.saturating_mul(2));
        self.burst = Nanos::from(two_segments).max(BURST);
    }

    /// The same with so many octets that may leave together.
    #[inline]
    pub fn set_rate_and_burst(&mut self, octets_per_second: u64, octets: u32) {
        let octets_per_second = octets_per_second.max(1);
        if octets_per_second != self.octets_per_second {
            self.octets_per_second = octets_per_second;
            self.remainder = 0;
            self.burst = Nanos::from(self.time_for(octets).0);
        }
    }

    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.octets_per_second != UNLIMITED
    }

    /// In octets a second.
    #[must_use]
    pub const fn rate(&self) -> u64 {
        self.octets_per_second
    }

    /// `octets` leave at `now`.
    #[inline]
    pub fn on_sent(&mut self, octets: u32, now: Instant) {
        if self.is_limited() {
            let (time, remainder) = self.time_for(octets);
            let lateness = if self.is_holding {
                self.lateness.get()
            } else {
                0
            };
            let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(lateness));
            self.busy_until = self.busy_until.max(earliest) + time;
            // What was late has been made up for.
            self.is_holding &= self.busy_until < now;
            self.remainder = remainder;
        }
    }

    /// What may be sent in one piece: about a burst (`tcp_tso_autosize`), but two segments of `mss`
    /// octets.
    #[inline]
    #[must_use]
    pub fn burst_octets(&self, mss: u32) -> u32 {
        let burst = self.octets_per_second / BURSTS_PER_SECOND;
        u32::try_from(burst)
            .unwrap_or(u32::MAX)
            .max(mss.saturating_mul(2))
    }

    /// When the next segment may leave, which is there; `None` for at once.
    #[inline]
    #[must_use]
    pub fn hold(&mut self, now: Instant) -> Option<Instant> {
        let next = self.next_at(now);
        // Until it leaves.
        self.is_holding |= next.is_some();
        next
    }

    /// When a packet of so many octets may leave, all of which are within the burst, if they are
    /// no more than that; `None` for at once.
    #[must_use]
    pub fn next_whole_at(&mut self, octets: u32, now: Instant) -> Option<Instant> {
        if !self.is_limited() {
            return None;
        }
        let own = self.time_for(octets).0;
        let ahead = self.busy_until.saturating_since(now);
        let room = self.burst.duration().saturating_sub(own);
        let excess = ahead.saturating_sub(room);
        self.is_holding |= !excess.is_zero();
        (!excess.is_zero()).then(|| now + excess)
    }

    /// What was sent has left so much later. Nothing is made up for of that.
    pub fn postpone(&mut self, by: Duration) {
        self.busy_until = self.busy_until + by;
    }

    /// There is nothing to be sent: nobody is late.
    pub fn rest(&mut self) {
        self.is_holding = false;
    }

    #[inline]
    fn next_at(&self, now: Instant) -> Option<Instant> {
        if !self.is_limited() {
            return None;
        }
        // A segment may begin while less than a burst is ahead of the clock.
        let ahead = self.busy_until.saturating_since(now);
        let excess = ahead.saturating_sub(self.burst.duration());
        (!excess.is_zero()).then(|| now + excess)
    }

    /// How long `octets` take at the rate, and what is left over.
    fn time_for(&self, octets: u32) -> (Duration, u64) {
        if !self.is_limited() {
            return (Duration::ZERO, 0);
        }
        let dividend = u64::from(octets)
            .saturating_mul(1_000_000_000)
            .saturating_add(self.remainder);
        let nanos = dividend.checked_div(self.octets_per_second).unwrap_or(0);
        let remainder = dividend.checked_rem(self.octets_per_second).unwrap_or(0);
        (Duration::from_nanos(nanos), remainder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets that leave within `time` if there is always a segment to send.
    fn sent_within(pacer: &mut Pacer, time: Duration, len: u32) -> u64 {
        let (mut now, mut sent) = (Instant::ZERO, 0);
        while now <= Instant::ZERO + time {
            match pacer.hold(now) {
                Some(at) => now = at,
                None => {
                    pacer.on_sent(len, now);
                    sent += u64::from(len);
                }
            }
        }
        sent
    }

    #[test]
    fn without_a_rate_everything_leaves_at_once() {
        let mut pacer = Pacer::default();
        pacer.on_sent(u32::MAX, Instant::ZERO);
        assert_eq!(pacer.next_at(Instant::ZERO), None);
        assert!(!pacer.is_limited());
    }

    #[test]
    fn the_rate_is_kept_to_a_burst() {
        for (rate, millis) in [
            (10_000, 5_000),
            (1_000_000, 2_000),
            (125_000_000, 100),
            (12_500_000_000, 20),
        ] {
            let mut pacer = Pacer::default();
            pacer.set_rate(rate, 1448);
            let sent = sent_within(&mut pacer, Duration::from_millis(millis), 1448);
            let exact = rate * millis / 1000;
            let burst = (rate / 1000).max(2 * 1448) + 1448;
            assert!(sent >= exact, "{sent} at {rate}");
            assert!(sent <= exact + burst, "{sent} at {rate}");
        }
    }

    /// A timer of a millisecond's resolution is late by up to that.
    #[test]
    fn a_late_timer_costs_no_rate_and_idleness_still_saves_no_more_than_a_burst() {
        let rate = 125_000_000;
        let mut pacer = Pacer::default();
        pacer.set_rate_and_burst(rate, 65_536);
        let (mut now, mut sent) = (Instant::ZERO, 0);
        let end = Instant::ZERO + Duration::from_millis(100);
        while now <= end {
            match pacer.hold(now) {
                Some(at) => now = at + Duration::from_micros(900),
                None => {
                    pacer.on_sent(1448, now);
                    sent += 1448;
                }
            }
        }
        let exact = rate / 10;
        assert!(sent + 200_000 >= exact, "{sent} of {exact}");
        assert!(sent <= exact + 65_536 + 1448, "{sent} of {exact}");
        let now = now + Duration::from_secs(1);
        let mut burst = 0;
        // What was held back has left by now.
        pacer.on_sent(1448, now);
        while pacer.next_at(now).is_none() {
            pacer.on_sent(1448, now);
            burst += 1448;
        }
        assert!(burst <= 65_536 + 250_000 + 1448, "{burst}");
    }

    /// Whoever is late, any stretch of time has the burst and what the rate carries in it.
    #[test]
    fn an_exact_pacer_never_exceeds_its_burst() {
        let (rate, len, burst) = (125_000_000, 1514, 4542);
        let mut pacer = Pacer::exact(rate, burst, Duration::ZERO);
        let (mut now, mut left) = (Instant::ZERO, Vec::new());
        let mut late = 1_u64;
        while left.len() < 2_000 {
            match pacer.next_whole_at(len, now) {
                Some(at) => {
                    late = late.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    now = at + Duration::from_nanos(late >> 48);
                }
                None => {
                    pacer.on_sent(len, now);
                    left.push(now);
                }
            }
        }
        for (first, begin) in left.iter().enumerate() {
            for (count, end) in left[first..].iter().enumerate().take(50) {
                let octets = u64::from(len) * (count as u64 + 1);
                let time = end.as_nanos() - begin.as_nanos();
                let allowed = u64::from(burst) + rate * time / 1_000_000_000 + 1;
                assert!(octets <= allowed, "{octets} in {time} ns");
            }
        }
        let mut prompt = Pacer::exact(rate, burst, Duration::ZERO);
        let mut now = Instant::ZERO;
        for _ in 0..1_000 {
            while let Some(at) = prompt.next_whole_at(len, now) {
                now = at;
            }
            prompt.on_sent(len, now);
        }
        let exact = 1_000 * u64::from(len) * 1_000_000_000 / rate;
        let behind = u64::from(burst) * 1_000_000_000 / rate;
        assert!(
            now.as_nanos() <= exact && now.as_nanos() + behind >= exact,
            "{now:?}"
        );
    }

    #[test]
    fn idleness_saves_up_a_burst_and_no_more() {
        let mut pacer = Pacer::default();
        pacer.set_rate(1_000_000, 1000);
        pacer.on_sent(1000, Instant::ZERO);
        let now = Instant::ZERO + Duration::from_secs(100);
        for _ in 0..3 {
            assert_eq!(pacer.next_at(now), None);
            pacer.on_sent(1000, now);
        }
        // Three milliseconds' worth, of which two are the burst.
        assert_eq!(pacer.next_at(now), Some(now + Duration::from_millis(1)));
    }

    #[test]
    fn a_rate_can_be_taken_back() {
        let mut pacer = Pacer::default();
        pacer.set_rate(0, 1000);
        assert_eq!(pacer.rate(), 1);
        pacer.on_sent(100_000, Instant::ZERO);
        assert!(pacer.next_at(Instant::ZERO).is_some());
        pacer.set_rate(UNLIMITED, 1000);
        assert_eq!(pacer.next_at(Instant::ZERO), None);
    }
}
