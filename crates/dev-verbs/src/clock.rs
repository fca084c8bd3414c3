//! The card's clock, with which completions are stamped, and the system's.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use dev_core::ClockSample;
use rdma_core_sys::{Mlx5, clock_cycles, ibv_context, mlx5dv_clock_info};

/// What both show at one moment, and how the card's cycles become nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Comparison {
    info: mlx5dv_clock_info,
    device_nsec: u64,
    monotonic_nsec: u64,
}

/// When a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// By `CLOCK_MONOTONIC`.
    pub(crate) monotonic_nsec: u64,
    /// By the card's clock.
    pub(crate) device_nsec: u64,
}

impl Comparison {
    /// As `mlx5dv_ts_to_ns` of `infiniband/mlx5dv.h`: the clock is masked, and what lies far ahead
    /// is of the past.
    fn device_nsec(&self, cycles: u64) -> u64 {
        let info = &self.info;
        let nsec = |cycles: u64| (u128::from(cycles) * u128::from(info.mult), info.frac);
        let ahead = cycles.wrapping_sub(info.last_cycles) & info.mask;
        if ahead <= info.mask / 2 {
            let (product, fraction) = nsec(ahead);
            let since = (product + u128::from(fraction)) >> info.shift;
            return info.nsec.wrapping_add(since as u64);
        }
        let behind = info.last_cycles.wrapping_sub(cycles) & info.mask;
        let (product, fraction) = nsec(behind);
        let since = product.saturating_sub(u128::from(fraction)) >> info.shift;
        info.nsec.wrapping_sub(since as u64)
    }

    pub(crate) fn stamp(&self, cycles: u64) -> Stamp {
        let device_nsec = self.device_nsec(cycles);
        let since = device_nsec.wrapping_sub(self.device_nsec);
        Stamp {
            monotonic_nsec: self.monotonic_nsec.wrapping_add(since),
            device_nsec,
        }
    }
}

/// The clock of an open device.
#[derive(Debug)]
pub(crate) struct Clock {
    mlx5: &'static Mlx5,
    context: *mut ibv_context,
    /// Whether packets are to be stamped.
    is_wanted: AtomicBool,
    /// Counts comparisons.
    compared: AtomicU32,
    comparison: Mutex<Comparison>,
}

// SAFETY: the provider's objects may be used by any thread.
unsafe impl Send for Clock {}
// SAFETY: as above.
unsafe impl Sync for Clock {}

impl Clock {
    /// `None`: the device does not show its clock.
    pub(crate) fn of(mlx5: &'static Mlx5, context: *mut ibv_context) -> Option<Self> {
        let clock = Self {
            mlx5,
            context,
            is_wanted: AtomicBool::new(false),
            compared: AtomicU32::new(0),
            comparison: Mutex::new(Comparison::default()),
        };
        clock.compare().is_ok().then_some(clock)
    }

    /// Looks at both clocks. To be done about once a second while packets are stamped: the two
    /// differ more and more, and the card's wraps.
    pub(crate) fn compare(&self) -> io::Result<ClockSample> {
        let mut info = mlx5dv_clock_info::default();
        // SAFETY: the context is live, and the structure this function's.
        let failed = unsafe { (self.mlx5.mlx5dv_get_clock_info)(self.context, &raw mut info) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed.abs()));
        }
        // The earlier time: a packet is never taken to have come later than it did.
        let monotonic_nsec = sys::now_nsec();
        let system_nsec = sys::wall_clock_nsec();
        // SAFETY: the context is live.
        let cycles = unsafe { clock_cycles(self.context) }.ok_or(io::ErrorKind::Unsupported)?;
        let mut comparison = Comparison {
            info,
            device_nsec: 0,
            monotonic_nsec,
        };
        comparison.device_nsec = comparison.device_nsec(cycles);
        *self
            .comparison
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = comparison;
        self.compared.fetch_add(1, Ordering::Release);
        Ok(ClockSample {
            device_nsec: comparison.device_nsec,
            system_nsec,
        })
    }

    pub(crate) fn want(&self, is_wanted: bool) -> io::Result<()> {
        if is_wanted {
            self.compare()?;
        }
        self.is_wanted.store(is_wanted, Ordering::Release);
        Ok(())
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }
}

/// A receiver's copy of the comparison, so that it takes no lock.
#[derive(Debug, Default)]
pub(crate) struct Stamper {
    compared: u32,
    comparison: Comparison,
}

impl Stamper {
    /// `None`: packets are not to be stamped.
    #[inline]
    pub(crate) fn for_now(&mut self, clock: Option<&Clock>) -> Option<&Comparison> {
        let clock = clock.filter(|clock| clock.is_wanted())?;
        let compared = clock.compared.load(Ordering::Acquire);
        if compared != self.compared {
            self.compared = compared;
            let known = clock.comparison.lock();
            self.comparison = *known.unwrap_or_else(PoisonError::into_inner);
        }
        Some(&self.comparison)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 156.25 MHz, of 48 bits.
    fn comparison(last_cycles: u64) -> Comparison {
        let info = mlx5dv_clock_info {
            nsec: 1_000_000,
            last_cycles,
            frac: 0,
            mult: (64 << 21) / 10,
            shift: 21,
            mask: (1 << 48) - 1,
        };
        Comparison {
            info,
            device_nsec: 1_000_000,
            monotonic_nsec: 5_000_000,
        }
    }

    #[test]
    fn cycles_are_nanoseconds_before_and_after_the_last_look() {
        let near = |is: u64, expected: u64| assert!(is.abs_diff(expected) <= 1, "{is} {expected}");
        let known = comparison(1_000);
        near(known.device_nsec(1_000), 1_000_000);
        near(known.device_nsec(1_000 + 10_000), 1_064_000);
        near(known.device_nsec(1_000 - 100), 999_360);
        let stamp = known.stamp(900);
        near(stamp.monotonic_nsec, 4_999_360);
    }

    #[test]
    fn the_clock_wraps() {
        let known = comparison((1 << 48) - 100);
        assert!(known.device_nsec(9_900).abs_diff(1_064_000) <= 1);
        let known = comparison(100);
        let before = known.device_nsec((1 << 48) - 900);
        assert!(before.abs_diff(993_600) <= 1, "{before}");
    }
}
