//! Which signal handlers ran in this thread.
//!
//! A system call that waits ends with `EINTR` when a handler has run, or goes on by itself if the handler was installed
//! with `SA_RESTART`. A thread that polls in user space must see the same, so the library counts the handlers that
//! it runs.

use std::cell::Cell;

/// How many handlers have run in this thread.
struct Counts {
    run: Cell<u32>,
    /// Those that were installed without `SA_RESTART`.
    interrupting: Cell<u32>,
}

thread_local! {
    static COUNTS: Counts = const { Counts { run: Cell::new(0), interrupting: Cell::new(0) } };
}

/// Called from a signal handler's wrapper, before the application's handler.
pub fn handler_runs(restarts_system_calls: bool) {
    // Thread-local storage may be gone while the thread exits; then nobody waits either.
    let _ = COUNTS.try_with(|counts| {
        counts.run.set(counts.run.get().wrapping_add(1));
        let interrupts = u32::from(!restarts_system_calls);
        counts
            .interrupting
            .set(counts.interrupting.get().wrapping_add(interrupts));
    });
}

/// The handlers that had run in this thread when a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    run: u32,
    interrupting: u32,
}

impl Mark {
    /// Now.
    #[inline]
    pub fn now() -> Self {
        let now = |counts: &Counts| Self {
            run: counts.run.get(),
            interrupting: counts.interrupting.get(),
        };
        COUNTS.try_with(now).unwrap_or(Self {
            run: 0,
            interrupting: 0,
        })
    }

    /// Whether a handler without `SA_RESTART` has run since.
    pub fn interrupted(self) -> bool {
        Self::now().interrupting != self.interrupting
    }

    /// Whether any handler has run since: ends `poll(2)`, `select(2)`, `epoll_wait(2)` and calls with a timeout, which
    /// the kernel never restarts (signal(7)).
    pub fn any_handler(self) -> bool {
        Self::now().run != self.run
    }
}
