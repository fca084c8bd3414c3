//! The clock of a test: nanoseconds since the clock was made.

use std::hint;
use std::time;

use rustix::time::ClockId;

/// A clock that is cheap to read. All stamps of one test come from the same clock.
#[derive(Debug)]
pub struct Clock {
    source: Source,
    name: &'static str,
}

#[derive(Debug)]
enum Source {
    Counter { counter: quanta::Clock, start: u64 },
    Monotonic { start: time::Instant },
}

impl Clock {
    /// The CPU's cycle counter where it runs at a constant rate in every sleep state, else
    /// `CLOCK_MONOTONIC`.
    ///
    /// The counter is calibrated against `CLOCK_MONOTONIC`, which takes up to 200 ms.
    pub fn fastest() -> Self {
        let counter = quanta::Clock::new();
        // Without a usable counter quanta reads CLOCK_MONOTONIC itself, so that its raw value lies
        // between two readings of that clock.
        let before = monotonic_nsec();
        let raw = counter.raw();
        let name = if (before..=monotonic_nsec()).contains(&raw) {
            "monotonic"
        } else {
            "tsc"
        };
        let start = counter.raw();
        Self {
            source: Source::Counter { counter, start },
            name,
        }
    }

    /// `CLOCK_MONOTONIC`.
    pub fn monotonic() -> Self {
        Self {
            source: Source::Monotonic {
                start: time::Instant::now(),
            },
            name: "monotonic",
        }
    }

    /// Nanoseconds since the clock was made.
    #[inline]
    pub fn now_nsec(&self) -> u64 {
        match &self.source {
            Source::Counter { counter, start } => counter.delta_as_nanos(*start, counter.raw()),
            Source::Monotonic { start } => {
                let elapsed = start.elapsed();
                elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
            }
        }
    }

    /// `tsc` or `monotonic`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What one reading costs, in nanoseconds (mean of 1000).
    pub fn cost_nsec(&self) -> f64 {
        const READINGS: u32 = 1000;
        let start = time::Instant::now();
        for _ in 0..READINGS {
            hint::black_box(self.now_nsec());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(READINGS)
    }
}

fn monotonic_nsec() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC counts from boot and is never negative.
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(clock: &Clock) {
        let outer = time::Instant::now();
        let start = clock.now_nsec();
        let inner = time::Instant::now();
        std::thread::sleep(time::Duration::from_millis(50));
        let inner_nsec = inner.elapsed().as_nanos() as f64;
        let measured_nsec = (clock.now_nsec() - start) as f64;
        let outer_nsec = outer.elapsed().as_nanos() as f64;
        // The calibration may be off by a few parts in a thousand on a busy machine.
        assert!(
            measured_nsec >= inner_nsec * 0.99,
            "{} < {}",
            measured_nsec,
            inner_nsec
        );
        assert!(
            measured_nsec <= outer_nsec * 1.01,
            "{} > {}",
            measured_nsec,
            outer_nsec
        );
    }

    #[test]
    fn fastest_clock_counts_nanoseconds() {
        let clock = Clock::fastest();
        assert!(["tsc", "monotonic"].contains(&clock.name()));
        check(&clock);
    }

    #[test]
    fn monotonic_clock_counts_nanoseconds() {
        let clock = Clock::monotonic();
        assert_eq!(clock.name(), "monotonic");
        check(&clock);
        assert!(clock.cost_nsec() > 0.0);
    }
}
