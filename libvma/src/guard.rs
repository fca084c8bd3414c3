//! What surrounds every decision of a hook: no second entry by the same thread, no panic into C, `errno` kept.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;

thread_local! {
    /// How deep this thread is inside the library.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
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
    outcome
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
