//! How a signal handler has the internal thread end what the process has: that takes locks and
//! memory, which a handler must not.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long the handler waits at most. The process must end, also if the internal thread is held
/// up.
const PATIENCE: Duration = Duration::from_millis(1500);

const NOT_ASKED: u32 = 0;
const ASKED: u32 = 1;
const DONE: u32 = 2;

/// A request and its answer.
#[derive(Debug, Default)]
pub(crate) struct EndRequest {
    state: AtomicU32,
}

impl EndRequest {
    /// Asks, lets `wake` wake the internal thread, and waits until it is done or patience ends.
    /// Async-signal-safe.
    pub(crate) fn ask_and_wait(&self, wake: impl FnOnce()) {
        let first =
            self.state
                .compare_exchange(NOT_ASKED, ASKED, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            wake();
        }
        let deadline = sys::now_nsec() + PATIENCE.as_nanos() as u64;
        while self.state.load(Ordering::Acquire) == ASKED {
            let left = deadline.saturating_sub(sys::now_nsec());
            if left == 0 {
                return;
            }
            sys::futex_wait(&self.state, ASKED, Duration::from_nanos(left));
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.state.load(Ordering::Acquire) == ASKED
    }

    /// What was asked for is done.
    pub(crate) fn done(&self) {
        self.state.store(DONE, Ordering::Release);
        sys::futex_wake_all(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asker_waits_for_the_answer() {
        let request = EndRequest::default();
        assert!(!request.is_asked());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !request.is_asked() {
                    std::thread::yield_now();
                }
                request.done();
            });
            request.ask_and_wait(|| {});
        });
        assert!(!request.is_asked());
        assert_eq!(request.state.load(Ordering::Relaxed), DONE);
    }

    #[test]
    fn the_asker_does_not_wait_for_ever() {
        let request = EndRequest::default();
        let begun = sys::now_nsec();
        request.ask_and_wait(|| {});
        assert!(sys::now_nsec() - begun >= PATIENCE.as_nanos() as u64);
        assert!(request.is_asked());
    }
}
