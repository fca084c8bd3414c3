//! The request to end: set by SIGINT or SIGTERM, read by the loops.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A flag that ends a running test or server. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that only [`Stop::request`] sets.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that SIGINT and SIGTERM set. The second signal ends the process with status 128 + its
    /// number.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::new();
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the second handler must not yet have set the flag when the first
            // one looks.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.0))?;
            flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// Asks the loops to end.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the loops shall end.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps, at most until the flag is set.
    pub fn sleep(&self, duration: Duration) {
        let start = Instant::now();
        while !self.is_requested() {
            let Some(left) = duration
                .checked_sub(start.elapsed())
                .filter(|left| !left.is_zero())
            else {
                return;
            };
            thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_ends_when_requested() {
        let stop = Stop::new();
        let other = stop.clone();
        let start = Instant::now();
        let thread = thread::spawn(move || other.sleep(Duration::from_secs(20)));
        stop.request();
        thread.join().unwrap();
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn sleep_lasts_as_long_as_asked() {
        let start = Instant::now();
        Stop::new().sleep(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
