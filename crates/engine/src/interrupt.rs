//! Which signal handlers ran in this thread.
//!
//! A system call that waits ends with `EINTR` when a handler has run, or goes on by itself if the handler was installed
//! with `SA_RESTART`. A thread that polls in user space must see the same, so the library counts the handlers that
//! it runs.

use std::cell::Cell;

thread_local! {
    static HANDLERS_RUN: Cell<u32> = const { Cell::new(0) };
    static INTERRUPTING_RUN: Cell<u32> = const { Cell::new(0) };
}

/// Called from a signal handler's wrapper, before the application's handler.
pub fn handler_runs(restarts_system_calls: bool) {
    // Thread-local storage may be gone while the thread exits; then nobody waits either.
    let _ = HANDLERS_RUN.try_with(|count| count.set(count.get().wrapping_add(1)));
    if !restarts_system_calls {
        let _ = INTERRUPTING_RUN.try_with(|count| count.set(count.get().wrapping_add(1)));
    }
}

/// The handlers that had run in this thread when a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    run: u32,
    interrupting: u32,
}

impl Mark {
    /// Now.
    pub fn now() -> Self {
        Self {
            run: HANDLERS_RUN.try_with(Cell::get).unwrap_or(0),
            interrupting: INTERRUPTING_RUN.try_with(Cell::get).unwrap_or(0),
        }
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
