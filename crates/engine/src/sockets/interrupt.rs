//! Which signal handlers ran in this thread.
//!
//! A system call that waits ends with `EINTR` when a handler has run, or goes on by itself if the
//! handler was installed with `SA_RESTART`. A thread that polls in user space must see the same, so
//! the library counts the handlers that it runs.
//!
//! With `VMA_HANDLE_SIGINTR` a `SIGINT` ends the waiting of every thread, for good:
//! `interrupt_all`.

use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use descriptors::OwnDescriptor;
use libc::c_int;
use sys::Errno;

/// How many handlers have run in this thread.
struct Counts {
    run: Cell<u32>,
    /// Those that were installed without `SA_RESTART`.
    interrupting: Cell<u32>,
}

thread_local! {
    static COUNTS: Counts = const { Counts { run: Cell::new(0), interrupting: Cell::new(0) } };
}

thread_local! {
    /// The eventfd that ends the sleep of this thread, -1 while it does not sleep.
    static SLEEPS_ON: Cell<c_int> = const { Cell::new(NOT_ASLEEP) };
}

const NOT_ASLEEP: c_int = -1;

/// The thread is about to sleep until, among others, this eventfd is readable. A handler that runs
/// from here on makes it readable: whether it comes before the sleep or in it, the sleep ends. The
/// caller looks for handlers that ran earlier.
pub(crate) fn sleep_begins(eventfd: c_int) {
    let _ = SLEEPS_ON.try_with(|sleeps_on| sleeps_on.set(eventfd));
    compiler_fence(Ordering::SeqCst);
}

/// The thread is awake, or a child of the one that slept.
pub(crate) fn sleep_ends() {
    compiler_fence(Ordering::SeqCst);
    let _ = SLEEPS_ON.try_with(|sleeps_on| sleeps_on.set(NOT_ASLEEP));
}

/// Called from a signal handler's wrapper, before the application's handler. `errno` may be
/// changed.
pub fn handler_runs(restarts_system_calls: bool) {
    // Thread-local storage may be gone while the thread exits; then nobody waits either.
    let _ = COUNTS.try_with(|counts| {
        counts.run.set(counts.run.get().wrapping_add(1));
        let interrupts = u32::from(!restarts_system_calls);
        counts
            .interrupting
            .set(counts.interrupting.get().wrapping_add(interrupts));
    });
    match SLEEPS_ON.try_with(Cell::get) {
        Ok(NOT_ASLEEP) | Err(_) => {}
        Ok(eventfd) => sys::signal_eventfd(eventfd),
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

    /// Whether a handler without `SA_RESTART` has run since, or nobody is to wait any more.
    pub fn interrupted(self) -> bool {
        Self::now().interrupting != self.interrupting || nobody_waits()
    }

    /// Whether any handler has run since: ends `poll(2)`, `select(2)`, `epoll_wait(2)` and calls
    /// with a timeout, which the kernel never restarts (signal(7)).
    pub fn any_handler(self) -> bool {
        Self::now().run != self.run || nobody_waits()
    }
}

static NOBODY_WAITS: AtomicBool = AtomicBool::new(false);
/// Every sleeper watches it. It is written to once and never read.
static WAKES_ALL: OnceLock<OwnDescriptor> = OnceLock::new();

/// To be called before `interrupt_all` can be.
///
/// # Errors
/// No descriptor is to be had.
pub fn prepare_interrupt_all() -> Result<(), Errno> {
    if WAKES_ALL.get().is_none() {
        // A second thread's is dropped.
        let _ = WAKES_ALL.set(sys::eventfd()?);
    }
    Ok(())
}

/// From here on no call of the library waits: where it would, it fails with `EINTR`, in every
/// thread. What can be received without waiting still is. Async-signal-safe.
pub(crate) fn interrupt_all() {
    NOBODY_WAITS.store(true, Ordering::SeqCst);
    if let Some(fd) = WAKES_ALL.get() {
        sys::signal_eventfd(fd.as_raw_fd());
    }
}

fn nobody_waits() -> bool {
    NOBODY_WAITS.load(Ordering::Relaxed)
}

/// What a sleeper watches to be woken by [`interrupt_all`].
pub(crate) fn wakes_all() -> Option<c_int> {
    WAKES_ALL.get().map(AsRawFd::as_raw_fd)
}
