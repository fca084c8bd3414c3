//! How often the internal thread looks what descendants ask for: each look goes through the sockets under the control lock, and a
//! descendant may have been given to another user who asks without end.

use std::time::Duration;

use tcp::Instant;

/// Looks at once, for a child that takes many sockets back one by one.
const LOOKS_AT_ONCE: u32 = 64;
/// How long these last. A descendant waits five times as long before it gives up.
const PERIOD: Duration = Duration::from_millis(20);

/// The looks of one period.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    begun: Option<Instant>,
    looks: u32,
}

impl Throttle {
    /// A look has been taken.
    pub(crate) fn looked(&mut self, now: Instant) {
        match self.begun {
            Some(begun) if now < begun + PERIOD => self.looks += 1,
            _ => (self.begun, self.looks) = (Some(now), 1),
        }
    }

    /// Until when to look no more; `None`: now is fine.
    pub(crate) fn pause(&self, now: Instant) -> Option<Instant> {
        let end = self.begun? + PERIOD;
        (self.looks >= LOOKS_AT_ONCE && now < end).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_few_over_time() {
        let mut throttle = Throttle::default();
        let begun = Instant::ZERO;
        let mut now = begun;
        let mut looks = 0;
        // Somebody asks all the time; a look takes ten microseconds.
        while now < begun + Duration::from_secs(1) {
            match throttle.pause(now) {
                Some(end) => now = end,
                None => {
                    throttle.looked(now);
                    looks += 1;
                    now = now + Duration::from_micros(10);
                }
            }
        }
        assert_eq!(looks, 50 * LOOKS_AT_ONCE);
        assert_eq!(throttle.pause(now), None);
    }
}
