//! Sending on a fixed schedule (`--mps`).

use std::hint;

use crate::client::dummies::Dummies;
use crate::sys::clock::Clock;
use crate::sys::stop::Stop;

/// An absolute schedule of bursts: a late burst does not move the later ones.
#[derive(Debug)]
pub struct Pacer {
    next_nsec: u64,
    cycle_nsec: u64,
    /// The cycle is `cycle_nsec + cycle_remainder / divisor`, so that the long-term rate is exact.
    cycle_remainder: u64,
    divisor: u64,
    carry: u64,
    ever_waited: bool,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The time.
    pub now_nsec: u64,
    /// When the messages should leave.
    pub due_nsec: u64,
}

impl Pacer {
    /// Bursts of `burst` messages, `messages_per_second` in total, the first one at `start_nsec`.
    pub fn new(start_nsec: u64, burst: u32, messages_per_second: u32) -> Self {
        let divisor = u64::from(messages_per_second.max(1));
        let burst_nsec = 1_000_000_000 * u64::from(burst);
        Self {
            next_nsec: start_nsec,
            cycle_nsec: burst_nsec / divisor,
            cycle_remainder: burst_nsec % divisor,
            divisor,
            carry: 0,
            ever_waited: false,
        }
    }

    /// Spins until the next burst is due, the test ends at `end_nsec` or a stop is requested.
    pub fn wait(
        &mut self,
        clock: &Clock,
        stop: &Stop,
        end_nsec: u64,
        dummies: &mut Option<Dummies<'_>>,
    ) -> Turn {
        let due_nsec = self.next_nsec;
        self.advance();
        let (now_nsec, waited) = spin_until(due_nsec.min(end_nsec), clock, stop, dummies);
        self.ever_waited |= waited;
        Turn { now_nsec, due_nsec }
    }

    /// Whether the schedule was ever kept; if not, the rate is higher than the machine can send.
    pub fn ever_waited(&self) -> bool {
        self.ever_waited
    }

    fn advance(&mut self) {
        self.next_nsec = self.next_nsec.saturating_add(self.cycle_nsec);
        self.carry += self.cycle_remainder;
        if self.carry >= self.divisor {
            self.carry -= self.divisor;
            self.next_nsec = self.next_nsec.saturating_add(1);
        }
    }
}

/// Spins until `due_nsec` or a stop is requested. Returns the time and whether there was any wait.
pub fn spin_until(
    due_nsec: u64,
    clock: &Clock,
    stop: &Stop,
    dummies: &mut Option<Dummies<'_>>,
) -> (u64, bool) {
    let mut waited = false;
    loop {
        let now_nsec = clock.now_nsec();
        if now_nsec >= due_nsec || stop.is_requested() {
            return (now_nsec, waited);
        }
        waited = true;
        if let Some(dummies) = dummies {
            dummies.look(now_nsec);
        }
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_has_no_rounding_drift() {
        let mut pacer = Pacer::new(100, 1, 3);
        let mut due = Vec::new();
        for _ in 0..7 {
            due.push(pacer.next_nsec);
            pacer.advance();
        }
        assert_eq!(due[3], 1_000_000_100);
        assert_eq!(due[6], 2_000_000_100);
    }

    #[test]
    fn burst_stretches_the_cycle() {
        let mut pacer = Pacer::new(0, 10, 1000);
        pacer.advance();
        assert_eq!(pacer.next_nsec, 10_000_000);
    }

    #[test]
    fn wait_keeps_the_schedule_and_ends_with_the_test() {
        let clock = Clock::monotonic();
        let stop = Stop::new();
        let start = clock.now_nsec();
        let mut pacer = Pacer::new(start, 1, 1000);
        pacer.wait(&clock, &stop, u64::MAX, &mut None);
        let turn = pacer.wait(&clock, &stop, u64::MAX, &mut None);
        assert_eq!(turn.due_nsec, start + 1_000_000);
        assert!(turn.now_nsec >= turn.due_nsec);
        assert!(pacer.ever_waited());
        pacer.next_nsec = u64::MAX;
        let end = clock.now_nsec() + 1_000_000;
        assert!(pacer.wait(&clock, &stop, end, &mut None).now_nsec >= end);
    }

    #[test]
    fn wait_ends_on_a_stop_request() {
        let clock = Clock::monotonic();
        let stop = Stop::new();
        stop.request();
        let mut pacer = Pacer::new(u64::MAX, 1, 1);
        pacer.wait(&clock, &stop, u64::MAX, &mut None);
        assert!(!pacer.ever_waited());
    }
}
