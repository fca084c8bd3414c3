//! What surrounds every decision of a hook: no second entry by the same thread, no panic into C, `errno` kept.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;

thread_local! {
    /// How deep this thread is inside the library.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Signals that came meanwhile and wait, blocked, until the thread is out again: bit n for signal n + 1.
    static DEFERRED: Cell<u64> = const { Cell::new(0) };
}

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
    let entered = DEPTH.try_with(|depth| {
        let inside = depth.get() > 0;
        depth.set(depth.get() + 1);
        !inside
    });
    let outcome = match entered {
        Ok(true) => {
            let saved = errno();
            let outcome = catch_unwind(AssertUnwindSafe(decide)).map_err(|_| Refused::Panicked);
            set_errno(saved);
            outcome
        }
        Ok(false) => Err(Refused::Inside),
        // The thread is exiting.
        Err(_) => return Err(Refused::Inside),
    };
    let _ = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
    if outcome.as_ref().err() != Some(&Refused::Inside)
        && DEFERRED.try_with(|deferred| deferred.get() != 0) == Ok(true)
    {
        deliver_deferred();
    }
    outcome
}

/// Whether this thread is inside the library.
pub(crate) fn is_inside() -> bool {
    DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false)
}

/// A signal has been queued again, blocked; it is to be let through when the thread is out. Async-signal-safe.
pub(crate) fn defer(signal: c_int) {
    let _ = DEFERRED.try_with(|deferred| deferred.set(deferred.get() | 1 << (signal - 1)));
}

#[cold]
fn deliver_deferred() {
    let saved = errno();
    let deferred = DEFERRED
        .try_with(|deferred| deferred.replace(0))
        .unwrap_or(0);
    let set = &raw const deferred;
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
    let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
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
