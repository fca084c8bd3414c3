//! What surrounds every decision of a hook: no second entry by the same thread, no panic into C, `errno` kept.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;

use crate::real;

/// What the library knows of a thread.
struct Thread {
    /// How deep it is inside the library; [`ANYWHERE`] beside that.
    depth: Cell<u32>,
    /// Signals that came meanwhile and wait, blocked, until it is out again: bit n for signal n + 1.
    deferred: Cell<u64>,
}

thread_local! {
    static THREAD: Thread = const { Thread { depth: Cell::new(0), deferred: Cell::new(0) } };
}

/// Set while the thread may be cancelled at any instruction (`PTHREAD_CANCEL_ASYNCHRONOUS`).
const ANYWHERE: u32 = 1 << 31;
const ASYNCHRONOUS: c_int = 1;
const DEFERRED: c_int = 0;

/// Why a decision was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The thread is inside already: a signal handler of the application, or the library's own use of the C library.
    Inside,
    /// The decision panicked. The log says where.
    Panicked,
}

/// Runs a decision of the library. `errno` is afterwards what it was before.
#[inline]
pub(crate) fn contained<T>(decide: impl FnOnce() -> T) -> Result<T, Refused> {
    // Thread-local storage is gone while the thread exits.
    THREAD
        .try_with(|thread| contained_in(thread, decide))
        .unwrap_or(Err(Refused::Inside))
}

#[inline]
fn contained_in<T>(thread: &Thread, decide: impl FnOnce() -> T) -> Result<T, Refused> {
    if thread.depth.get() != 0 {
        return contained_unless_inside(thread, decide);
    }
    thread.depth.set(1);
    let saved = errno();
    let outcome = catch_unwind(AssertUnwindSafe(decide)).map_err(|_| Refused::Panicked);
    set_errno(saved);
    thread.depth.set(0);
    if thread.deferred.get() != 0 {
        deliver_deferred(thread.deferred.take());
    }
    outcome
}

/// A thread that may be cancelled at any instruction may not be in here: it would leave locks behind.
#[cold]
fn contained_unless_inside<T>(thread: &Thread, decide: impl FnOnce() -> T) -> Result<T, Refused> {
    if thread.depth.get() != ANYWHERE {
        return Err(Refused::Inside);
    }
    let mut old = 0;
    // SAFETY: `old` is writable.
    unsafe { real::pthread_setcanceltype(DEFERRED, &raw mut old) };
    thread.depth.set(0);
    let outcome = contained_in(thread, decide);
    thread.depth.set(ANYWHERE);
    // Cancels the thread if that was asked for meanwhile. Nothing is held that has to be given back, but an outcome.
    // SAFETY: as above.
    unsafe { real::pthread_setcanceltype(ASYNCHRONOUS, &raw mut old) };
    outcome
}

/// Takes note of the thread's cancellation type.
pub(crate) fn may_be_cancelled_anywhere(anywhere: bool) {
    let _ = THREAD.try_with(|thread| {
        if thread.depth.get() & !ANYWHERE == 0 {
            thread.depth.set(if anywhere { ANYWHERE } else { 0 });
        }
    });
}

/// Whether this thread is inside the library.
pub(crate) fn is_inside() -> bool {
    THREAD
        .try_with(|thread| thread.depth.get() & !ANYWHERE > 0)
        .unwrap_or(false)
}

/// A signal has been queued again, blocked; it is to be let through when the thread is out. Async-signal-safe.
pub(crate) fn defer(signal: c_int) {
    let _ = THREAD.try_with(|thread| {
        thread
            .deferred
            .set(thread.deferred.get() | 1 << (signal - 1))
    });
}

#[cold]
fn deliver_deferred(signals: u64) {
    let saved = errno();
    let set = &raw const signals;
    let none = std::ptr::null::<u64>();
    // SAFETY: the kernel reads a set of eight bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_UNBLOCK,
            set,
            none,
            size_of::<u64>(),
        )
    };
    set_errno(saved);
}

/// This thread belongs to the library: its calls are never ours.
pub(crate) fn enter_for_good() {
    let _ = THREAD.try_with(|thread| thread.depth.set(1));
}

/// The thread's `errno`.
#[inline]
pub(crate) fn errno() -> c_int {
    // SAFETY: no preconditions.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: the C library gives every thread a valid location.
    unsafe { location.read() }
}

/// Sets the thread's `errno`.
#[inline]
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: no preconditions.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { location.write(value) };
}

/// Fails a call.
#[inline]
pub(crate) fn fail<T: From<i8>>(value: c_int) -> T {
    set_errno(value);
    T::from(-1)
}
