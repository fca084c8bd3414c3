//! From the time by a device's clock to what a program is told (`VMA_HW_TS_CONVERSION`).

use std::sync::Mutex;

use dev_core::ClockSample;
use vma_config::DeviceTimes;

use crate::interface::stamps::lock;

/// How often the clocks are compared. The rate of either changes less than 100 ns in that.
const COMPARED_EVERY_NSEC: u64 = 1_000_000_000;
/// Clocks that go more differently were set in between: 1 in so many.
const DRIFT_MAX_IN: u64 = 1000;

/// What is known of a device's clock.
#[derive(Debug)]
pub(super) struct DeviceClock {
    told: DeviceTimes,
    compared: Mutex<Compared>,
}

/// The last comparisons of two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Compared {
    last: Option<ClockSample>,
    before: Option<ClockSample>,
}

impl DeviceClock {
    pub(super) fn new(told: DeviceTimes) -> Self {
        Self {
            told,
            compared: Mutex::default(),
        }
    }

    /// Whether programs are told anything.
    pub(super) fn is_told(&self) -> bool {
        self.told != DeviceTimes::Off
    }

    /// Compares the clocks, unless it was done of late.
    pub(super) fn follow(&self, sample: impl FnOnce() -> Option<ClockSample>) {
        let mut compared = lock(&self.compared);
        if compared.is_recent(sys::wall_clock_nsec()) {
            return;
        }
        match sample() {
            Some(sample) => compared.note(sample),
            None => *compared = Compared::default(),
        }
    }

    /// What a program is told of a time by the device's clock.
    pub(super) fn told(&self, device_nsec: u64) -> Option<u64> {
        let compared = *lock(&self.compared);
        told(self.told, compared, device_nsec)
    }
}

fn told(kind: DeviceTimes, compared: Compared, device_nsec: u64) -> Option<u64> {
    let system = || compared.system(device_nsec);
    match kind {
        DeviceTimes::Off => None,
        DeviceTimes::Raw => Some(device_nsec),
        DeviceTimes::BestPossible => system().or(Some(device_nsec)),
        DeviceTimes::System => system(),
        // Drivers tell the time of the clock that can be set.
        DeviceTimes::Ptp => compared.last.map(|_| device_nsec),
    }
}

impl Compared {
    /// A clock that was set back makes it none.
    fn is_recent(&self, system_nsec: u64) -> bool {
        let since = self
            .last
            .and_then(|last| system_nsec.checked_sub(last.system_nsec));
        since.is_some_and(|since| since < COMPARED_EVERY_NSEC)
    }

    fn note(&mut self, sample: ClockSample) {
        self.before = self.last.replace(sample);
    }

    /// The system's time at a time of the device's.
    fn system(&self, device_nsec: u64) -> Option<u64> {
        let last = self.last?;
        let since = i128::from(device_nsec) - i128::from(last.device_nsec);
        let (system, device) = self.rate();
        let since = since * i128::from(system) / i128::from(device);
        u64::try_from(i128::from(last.system_nsec) + since).ok()
    }

    /// How long a time of the device's is, by the system's clock and by its own: never 0.
    fn rate(&self) -> (u64, u64) {
        let spans = self.last.zip(self.before).and_then(|(last, before)| {
            let system = last.system_nsec.checked_sub(before.system_nsec)?;
            let device = last.device_nsec.checked_sub(before.device_nsec)?;
            let is_rate = device > 0 && system.abs_diff(device) <= device / DRIFT_MAX_IN;
            is_rate.then_some((system, device))
        });
        spans.unwrap_or((1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(device_nsec: u64, system_nsec: u64) -> ClockSample {
        ClockSample {
            device_nsec,
            system_nsec,
        }
    }

    fn of(samples: &[ClockSample]) -> Compared {
        let mut compared = Compared::default();
        samples.iter().for_each(|it| compared.note(*it));
        compared
    }

    #[test]
    fn each_kind_is_told_as_vma_says() {
        use DeviceTimes::{BestPossible, Off, Ptp, Raw, System};
        let known = of(&[at(500, 9000)]);
        for (kind, with_clock, without) in [
            (Off, None, None),
            (Raw, Some(600), Some(600)),
            (BestPossible, Some(9100), Some(600)),
            (System, Some(9100), None),
            (Ptp, Some(600), None),
        ] {
            assert_eq!(told(kind, known, 600), with_clock, "{kind:?}");
            assert_eq!(told(kind, Compared::default(), 600), without, "{kind:?}");
        }
    }

    #[test]
    fn a_clock_that_goes_wrong_is_followed_between_comparisons() {
        // The device's is 100 ppm fast.
        let fast = of(&[at(0, 50 * SECOND), at(1_000_100_000, 51 * SECOND)]);
        assert_eq!(fast.system(1_000_100_000), Some(51 * SECOND));
        assert_eq!(fast.system(2_000_200_000), Some(52 * SECOND));
        assert_eq!(fast.system(0), Some(50 * SECOND));
    }

    #[test]
    fn a_clock_that_was_set_counts_from_the_last_comparison() {
        for samples in [
            [at(0, 50 * SECOND), at(7 * SECOND, 51 * SECOND)],
            [at(9 * SECOND, 50 * SECOND), at(7 * SECOND, 51 * SECOND)],
            [at(6 * SECOND, 90 * SECOND), at(7 * SECOND, 51 * SECOND)],
            [at(7 * SECOND, 51 * SECOND), at(7 * SECOND, 51 * SECOND)],
        ] {
            let set = of(&samples);
            assert_eq!(set.system(8 * SECOND), Some(52 * SECOND), "{samples:?}");
        }
        assert_eq!(of(&[at(u64::MAX, 5)]).system(0), None, "before 1970");
        assert_eq!(of(&[at(0, u64::MAX)]).system(1), None);
    }

    #[test]
    fn clocks_are_compared_once_a_second() {
        let known = of(&[at(0, 50 * SECOND)]);
        assert!(known.is_recent(50 * SECOND) && known.is_recent(51 * SECOND - 1));
        assert!(!known.is_recent(51 * SECOND) && !known.is_recent(49 * SECOND));
        assert!(!Compared::default().is_recent(0));
    }
}
