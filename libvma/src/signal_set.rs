//! Signal masks.

use libc::c_int;

/// A signal mask that changes places with the thread's.
#[derive(Clone, Copy)]
pub(crate) struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// Every signal.
    pub(crate) fn all() -> Self {
        // SAFETY: sigset_t is a plain array of integers, for which all-zero is a value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is writable.
        unsafe { libc::sigfillset(&raw mut set) };
        Self(set)
    }

    /// That of a system call.
    pub(crate) fn of(signals: u64) -> Self {
        // SAFETY: sigset_t is a plain array of integers, for which all-zero is a value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set has at least 64 bits, the first of which are the kernel's.
        unsafe { (&raw mut set).cast::<u64>().write_unaligned(signals) };
        Self(set)
    }

    /// Without one of them.
    pub(crate) fn remove(&mut self, signal: c_int) {
        // SAFETY: the set is writable.
        unsafe { libc::sigdelset(&raw mut self.0, signal) };
    }

    /// Makes this the thread's mask, and the thread's mask this.
    pub(crate) fn swap_with_current(&mut self) {
        let new = self.0;
        // SAFETY: both sets are valid for the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const new, &raw mut self.0) };
    }
}
