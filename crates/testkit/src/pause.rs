//! How evenly the machine runs: virtual machines stand still when their host is busy, and
//! containers when they have used up their share.

use std::any::Any;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::sys;

/// How long each look sleeps.
const LOOK: Duration = Duration::from_millis(3);

/// A pause that a test with waits of 100 ms may notice.
const LONG: Duration = Duration::from_millis(30);

/// How often [`retry_if_paused`] tries.
const ATTEMPTS: u32 = 6;

/// A limit of time that pauses of the machine do not use up: one look to the next counts as a tenth
/// of a second at most.
#[derive(Debug)]
pub(crate) struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    const LOOK_MAX: Duration = Duration::from_millis(100);

    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            left: limit,
            looked: Instant::now(),
        }
    }

    /// Asked in a loop: whether the time has passed.
    pub(crate) fn runs_out(&mut self) -> bool {
        let passed = self.looked.elapsed();
        self.looked += passed;
        self.left = self.left.saturating_sub(passed.min(Self::LOOK_MAX));
        self.left.is_zero()
    }
}

/// Runs `body`; also returns the longest time for which a CPU did not run a thread that wanted to.
pub fn longest_pause<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let stop = AtomicBool::new(false);
    let watch = |cpu: usize| {
        let stop = &stop;
        move || {
            // Where that is not allowed, one thread or another still notices.
            drop(sys::pin_to_cpu(cpu));
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                thread::sleep(LOOK);
                longest = longest.max(begun.elapsed().saturating_sub(LOOK));
            }
            longest
        }
    };
    /// Ends the watchers, also when the body panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let watchers: Vec<_> = (0..cpus).map(|cpu| scope.spawn(watch(cpu))).collect();
        let value = {
            let _stop = Stop(&stop);
            body()
        };
        let pauses = watchers
            .into_iter()
            .filter_map(|watcher| watcher.join().ok());
        (value, pauses.max().unwrap_or_default())
    })
}

/// Runs a test that depends on time, again and again while it fails and the machine did not run
/// evenly: what a program does wrong while the machine stands still for longer than the test waits
/// is nobody's fault. On a machine that runs evenly the first failure counts, and the sixth on any.
///
/// # Errors
///
/// The last attempt's.
pub fn retry_if_paused<T, E: Display>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..ATTEMPTS {
        let (result, pause) = longest_pause(&mut attempt);
        let error = match result {
            Err(error) if pause >= LONG => error,
            result => return result,
        };
        let name = thread::current().name().unwrap_or_default().to_owned();
        let line = format!("{name} again: the machine stood still for {pause:?}: {error}\n");
        // Seen also when the test passes in the end, as a skip is.
        drop(io::stderr().write_all(line.as_bytes()));
    }
    attempt()
}

/// [`retry_if_paused`] for a test that fails by a panic.
///
/// # Panics
///
/// As the last attempt.
pub fn panic_unless_paused(test: impl Fn()) {
    retry_if_paused(|| panic::catch_unwind(AssertUnwindSafe(&test)).map_err(Panic))
        .unwrap_or_else(|Panic(cause)| panic::resume_unwind(cause));
}

/// What a panic carries.
struct Panic(Box<dyn Any + Send>);

impl Display for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| self.0.downcast_ref::<&str>().copied());
        formatter.write_str(text.unwrap_or("a panic without words"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_that_of_the_body() {
        let (value, pause) = longest_pause(|| 7);
        assert_eq!(value, 7);
        assert!(pause < Duration::from_secs(60));
    }

    #[test]
    fn a_pause_does_not_use_up_the_patience() {
        let mut patience = Patience::new(Duration::from_millis(250));
        // As after a pause.
        patience.looked -= Duration::from_secs(100);
        assert!(!patience.runs_out());
        patience.looked -= Duration::from_secs(100);
        assert!(!patience.runs_out());
        patience.looked -= Duration::from_secs(100);
        assert!(patience.runs_out());
    }

    #[test]
    fn success_ends_the_attempts() {
        let mut attempts = 0;
        let result = retry_if_paused(|| {
            attempts += 1;
            Ok::<_, String>(attempts)
        });
        assert_eq!(result, Ok(1));
    }

    #[test]
    #[should_panic(expected = "always")]
    fn the_last_panic_is_the_caller_s() {
        panic_unless_paused(|| panic!("always"));
    }

    #[test]
    fn what_always_fails_fails() {
        let mut attempts = 0;
        let result: Result<(), _> = retry_if_paused(|| {
            attempts += 1;
            Err("no")
        });
        assert_eq!(result, Err("no"));
        assert!((1..=ATTEMPTS).contains(&attempts));
    }
}
