//! When packets arrived: the device notes it as long as a socket asks for time stamps, so that no
//! other packets pay for it.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dev_core::Noted;
use vma_config::DeviceTimes;

use crate::interface::device_clock::DeviceClock;

/// Who asks for it, and since when the device notes it.
#[derive(Debug)]
pub(super) struct Stamps {
    pub(super) wanted: Mutex<Wanted>,
    /// [`NEVER`] if it does not.
    pub(super) since_nsec: AtomicU64,
    pub(super) clock: DeviceClock,
}

pub(super) const NEVER: u64 = u64::MAX;

/// How many sockets ask for what.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    times: u32,
    device_times: u32,
    /// What the device was told to note.
    pub(super) noted: Noted,
}

impl Wanted {
    /// One socket more asks for this.
    pub(super) fn add(&mut self, noted: Noted) {
        if let Some(count) = self.count(noted) {
            *count += 1;
        }
    }

    /// One less.
    pub(super) fn remove(&mut self, noted: Noted) {
        if let Some(count) = self.count(noted) {
            *count = count.saturating_sub(1);
        }
    }

    /// What serves all.
    pub(super) fn most(&self) -> Noted {
        match (self.times, self.device_times) {
            (0, 0) => Noted::Nothing,
            (_, 0) => Noted::Time,
            _ => Noted::DeviceTime,
        }
    }

    fn count(&mut self, noted: Noted) -> Option<&mut u32> {
        match noted {
            Noted::Nothing => None,
            Noted::Time => Some(&mut self.times),
            Noted::DeviceTime => Some(&mut self.device_times),
        }
    }
}

impl Stamps {
    pub(super) fn new(told: DeviceTimes) -> Self {
        Self {
            wanted: Mutex::default(),
            since_nsec: AtomicU64::new(NEVER),
            clock: DeviceClock::new(told),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
