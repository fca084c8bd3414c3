//! What other threads want of the internal one, and wait for.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long is waited at most: the internal thread may be held up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Look what the program may do, and become no more than it is.
pub(crate) const LOOK_AT_RIGHTS: u32 = 1 << 0;
/// The program has lost rights that the internal thread still has: use them for the last time.
pub(crate) const RIGHTS_WENT: u32 = 1 << 1;
/// End.
pub(crate) const END: u32 = 1 << 2;

/// Requests and how far they are answered.
#[derive(Debug, Default)]
pub(crate) struct ThreadRequests {
    wanted: AtomicU32,
    /// So many were made, and answered.
    asked: AtomicU32,
    answered: AtomicU32,
}

/// Requests that are being answered.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) wanted: u32,
    asked: u32,
}

impl ThreadRequests {
    /// Asks, lets `wake` wake the internal thread, and waits for the answer. No lock may be held.
    /// Returns whether it came.
    pub(crate) fn ask(&self, wanted: u32, wake: impl FnOnce()) -> bool {
        self.wanted.fetch_or(wanted, Ordering::AcqRel);
        let number = self.asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        wake();
        let deadline = sys::now_nsec() + PATIENCE.as_nanos() as u64;
        loop {
            let answered = self.answered.load(Ordering::Acquire);
            if answered.wrapping_sub(number).cast_signed() >= 0 {
                return true;
            }
            let left = deadline.saturating_sub(sys::now_nsec());
            if left == 0 {
                return false;
            }
            sys::futex_wait(&self.answered, answered, Duration::from_nanos(left));
        }
    }

    /// In the internal thread: what is wanted. `None`: nothing.
    pub(crate) fn take(&self) -> Option<Taken> {
        let asked = self.asked.load(Ordering::Acquire);
        if asked == self.answered.load(Ordering::Relaxed) {
            // What somebody wants who has not counted it yet stays.
            return None;
        }
        let wanted = self.wanted.swap(0, Ordering::AcqRel);
        Some(Taken { wanted, asked })
    }

    /// In the internal thread: it is done.
    pub(crate) fn done(&self, taken: &Taken) {
        self.answered.store(taken.asked, Ordering::Release);
        sys::futex_wake_all(&self.answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_before_it_is_counted_is_not_lost() {
        let requests = ThreadRequests::default();
        // As far as `ask` has come.
        requests.wanted.fetch_or(END, Ordering::AcqRel);
        assert!(requests.take().is_none());
        requests.asked.fetch_add(1, Ordering::AcqRel);
        assert_eq!(requests.take().unwrap().wanted, END);
    }

    #[test]
    fn each_asker_gets_an_answer_of_its_own() {
        let requests = ThreadRequests::default();
        assert!(requests.take().is_none());
        std::thread::scope(|scope| {
            for wanted in [LOOK_AT_RIGHTS, END] {
                scope.spawn({
                    let requests = &requests;
                    move || assert!(requests.ask(wanted, || {}))
                });
            }
            let mut seen = 0;
            while seen != LOOK_AT_RIGHTS | END {
                if let Some(taken) = requests.take() {
                    seen |= taken.wanted;
                    requests.done(&taken);
                }
                std::thread::yield_now();
            }
            // What was asked between the count and the flags is answered, too.
            while let Some(taken) = requests.take() {
                requests.done(&taken);
            }
        });
        assert!(requests.take().is_none());
    }
}
