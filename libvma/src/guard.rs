//! What surrounds every decision of a hook: no second entry by the same thread, no panic into C,
//! `errno` kept.

mod threads;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use libc::c_int;

use crate::real;
pub(crate) use threads::{Inside, prepare, process_is_new};

/// What the library knows of a thread.
struct Thread {
    /// [`INSIDE`], [`ANYWHERE`] and [`UNLISTED`]; above them, how often the thread has left. Only
    /// the thread writes it.
    state: AtomicU64,
    /// Signals that came meanwhile and wait, blocked, until it is out again: bit n for signal n + 1.
    deferred: Cell<u64>,
    /// How many times one came, since the thread is inside.
    comings: Cell<u32>,
    /// Those of which the number alone is kept.
    repeated: Cell<u64>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            state: AtomicU64::new(UNLISTED),
            deferred: Cell::new(0),
            comings: Cell::new(0),
            repeated: Cell::new(0),
        }
    };
}

/// The thread is inside the library.
const INSIDE: u64 = 1;
/// It may be cancelled at any instruction (`PTHREAD_CANCEL_ASYNCHRONOUS`).
const ANYWHERE: u64 = 1 << 1;
/// It has never been inside: others do not know of it.
const UNLISTED: u64 = 1 << 2;
const FLAGS: u64 = (1 << 8) - 1;
const LEFT_ONCE: u64 = 1 << 8;

impl Thread {
    #[inline]
    fn state(&self) -> u64 {
        self.state.load(Ordering::Relaxed)
    }

    fn is_inside(&self) -> bool {
        self.state() & INSIDE != 0
    }

    #[inline]
    fn enters(&self) {
        self.state.store(self.state() | INSIDE, Ordering::Relaxed);
        // Who wants to know asks for a barrier in every thread (`threads::Inside`).
        compiler_fence(Ordering::SeqCst);
    }

    #[inline]
    fn leaves(&self) {
        let left = self.state().wrapping_add(LEFT_ONCE) & !INSIDE;
        self.state.store(left, Ordering::Release);
    }

    /// Sets flags, or takes them away.
    fn mark(&self, flags: u64, set: bool) {
        let state = self.state();
        let marked = if set { state | flags } else { state & !flags };
        self.state.store(marked, Ordering::Relaxed);
    }
}
const ASYNCHRONOUS: c_int = 1;
const DEFERRED: c_int = 0;

/// Why a decision was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRun {
    /// The thread is inside already: a signal handler of the application, or the library's own use
    /// of the C library.
    Reentered,
    /// The decision panicked. The log says where.
    Panicked,
}

/// Runs a decision of the library. `errno` is afterwards what it was before.
#[inline]
pub(crate) fn contained<T>(decide: impl FnOnce() -> T) -> Result<T, NotRun> {
    // Thread-local storage is gone while the thread exits.
    THREAD
        .try_with(|thread| contained_in(thread, decide))
        .unwrap_or(Err(NotRun::Reentered))
}

#[inline]
fn contained_in<T>(thread: &Thread, decide: impl FnOnce() -> T) -> Result<T, NotRun> {
    if thread.state() & FLAGS != 0 {
        return contained_unless_inside(thread, decide);
    }
    thread.enters();
    let saved = errno();
    let outcome = catch_unwind(AssertUnwindSafe(decide)).map_err(|_| NotRun::Panicked);
    set_errno(saved);
    thread.leaves();
    if thread.deferred.get() != 0 {
        deliver_deferred(thread);
    }
    outcome
}

/// A thread that may be cancelled at any instruction may not be in here: it would leave locks
/// behind.
#[cold]
fn contained_unless_inside<T>(thread: &Thread, decide: impl FnOnce() -> T) -> Result<T, NotRun> {
    if thread.is_inside() {
        return Err(NotRun::Reentered);
    }
    if thread.state() & UNLISTED != 0 {
        thread.mark(UNLISTED, false);
        threads::list(thread);
        return contained_in(thread, decide);
    }
    let mut old = 0;
    // SAFETY: `old` is writable.
    unsafe { real::pthread_setcanceltype(DEFERRED, &raw mut old) };
    thread.mark(ANYWHERE, false);
    let outcome = contained_in(thread, decide);
    thread.mark(ANYWHERE, true);
    // Cancels the thread if that was asked for meanwhile. Nothing is held that has to be given
    // back, but an outcome. SAFETY: as above.
    unsafe { real::pthread_setcanceltype(ASYNCHRONOUS, &raw mut old) };
    outcome
}

/// Takes note of the thread's cancellation type.
pub(crate) fn may_be_cancelled_anywhere(anywhere: bool) {
    let _ = THREAD.try_with(|thread| {
        if !thread.is_inside() {
            thread.mark(ANYWHERE, anywhere);
        }
    });
}

/// Whether this thread is inside the library.
pub(crate) fn is_inside() -> bool {
    THREAD.try_with(Thread::is_inside).unwrap_or(false)
}

/// A signal has been queued again, blocked; it is to be let through when the thread is out.
/// Async-signal-safe.
pub(crate) fn defer(signal: c_int) {
    let _ = THREAD.try_with(|thread| {
        thread.deferred.set(thread.deferred.get() | set_of(signal));
        thread.comings.set(thread.comings.get() + 1);
    });
}

/// Signals come that often only where one that was queued again comes although it is blocked:
/// valgrind does not heed the mask that a handler leaves. The thread would never get on.
const COMINGS_MAX: u32 = 16;

/// In that case a signal that has come is to be sent when the thread is out: `true`.
/// Async-signal-safe.
pub(crate) fn keep_number(signal: c_int) -> bool {
    let kept = THREAD.try_with(|thread| {
        let is_endless = thread.comings.get() >= COMINGS_MAX;
        if is_endless {
            thread.repeated.set(thread.repeated.get() | set_of(signal));
        }
        is_endless
    });
    kept.unwrap_or(false)
}

#[cold]
fn deliver_deferred(thread: &Thread) {
    let repeated = thread.repeated.take();
    thread.comings.set(0);
    change_mask(libc::SIG_UNBLOCK, thread.deferred.take());
    let saved = errno();
    for signal in (1..=64).filter(|signal| repeated & set_of(*signal) != 0) {
        // SAFETY: no arguments.
        let process = unsafe { libc::syscall(libc::SYS_getpid) };
        // SAFETY: no arguments.
        let own = unsafe { libc::syscall(libc::SYS_gettid) };
        // SAFETY: integers.
        unsafe { libc::syscall(libc::SYS_tgkill, process, own, signal) };
    }
    set_errno(saved);
}

/// A set of one signal, as the kernel has it.
pub(crate) fn set_of(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Changes the thread's signal mask, which the C library would not do for its own signals, and
/// returns what it was. `errno` is kept. Async-signal-safe.
pub(crate) fn change_mask(how: c_int, signals: u64) -> u64 {
    let saved = errno();
    let mut before = 0_u64;
    let (new, old) = (&raw const signals, &raw mut before);
    // SAFETY: the kernel reads and writes a set of eight bytes each.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, new, old, size_of::<u64>()) };
    set_errno(saved);
    before
}

/// This thread belongs to the library: its calls are never ours.
pub(crate) fn enter_for_good() {
    let _ = THREAD.try_with(|thread| thread.mark(INSIDE, true));
}

/// It does what the program would have done.
pub(crate) fn leave_for_good() {
    let _ = THREAD.try_with(|thread| thread.mark(INSIDE, false));
}

/// Whether no thread is inside the library, or was when it was killed.
pub(crate) fn nobody_is_inside() -> bool {
    Inside::now().is_empty()
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
