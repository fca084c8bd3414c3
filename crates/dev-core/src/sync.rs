//! Atomics and what the system does with them: what `models/` replaces to try every interleaving.

use std::ops::Deref;
use std::sync::atomic::compiler_fence;

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

pub(crate) const SPINS_BEFORE_YIELD: u32 = 200;

/// The cheap half of a barrier whose other half is [`membarrier::all_threads`].
#[inline]
pub(crate) fn owner_fence() {
    compiler_fence(Ordering::SeqCst);
}

/// A word that threads sleep on.
pub(crate) struct Futex(AtomicU32);

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    /// Sleeps if the word is `expected`, until somebody wakes it, or for no reason.
    pub(crate) fn wait(&self, expected: u32) {
        self.call(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected);
    }

    /// Wakes one sleeper.
    pub(crate) fn wake_one(&self) {
        self.call(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }

    fn call(&self, operation: libc::c_int, value: u32) {
        let timeout = std::ptr::null::<libc::timespec>();
        // SAFETY: the word outlives the call and the timeout is null, which FUTEX_WAIT and
        // FUTEX_WAKE allow.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, value, timeout) };
    }
}

impl Deref for Futex {
    type Target = AtomicU32;

    #[inline]
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

/// Lets others go on: the processor's other half first, then other threads.
pub(crate) fn relax(tries: &mut u32) {
    *tries = tries.saturating_add(1);
    if *tries < SPINS_BEFORE_YIELD {
        std::hint::spin_loop();
    } else {
        // SAFETY: sched_yield has no preconditions.
        unsafe { libc::sched_yield() };
    }
}

/// A number that differs between the live threads of the process and is neither 0 nor 1.
#[inline]
pub fn thread_token() -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let token: usize;
        // SAFETY: on x86-64 Linux the first word of the thread control block is its own address
        // (ELF TLS ABI), and reading it has no side effects.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) token, options(nostack, preserves_flags, readonly, pure));
        }
        token
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        thread_local!(static TOKEN: u8 = const { 0 });
        TOKEN.with(|byte| std::ptr::from_ref(byte).addr())
    }
}

/// `membarrier(2)`: makes the other threads of the process run a full barrier.
pub(crate) mod membarrier {
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::time::{Duration, Instant};

    const UNKNOWN: u8 = 0;
    const AVAILABLE: u8 = 1;
    const MISSING: u8 = 2;

    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

    /// A processor's store is seen by all others within a microsecond. This is far beyond that.
    const STORES_ARE_SEEN_AFTER: Duration = Duration::from_micros(500);

    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Registers the process once; a forked child inherits that. No thread waits for another here:
    /// a child may be born at any moment. `false` also from the first time on that the call was
    /// refused.
    pub(crate) fn available() -> bool {
        match KNOWN.load(Ordering::Relaxed) {
            UNKNOWN => {
                let registered = !cfg!(miri) && call(REGISTER_PRIVATE_EXPEDITED);
                let known = if registered { AVAILABLE } else { MISSING };
                KNOWN.store(known, Ordering::Relaxed);
                registered
            }
            known => known == AVAILABLE,
        }
    }

    /// What the other threads have stored before is seen afterwards, and they see what this one has
    /// stored. A process that gives up the right to the call (seccomp(2)) pays with a short wait,
    /// once a lock.
    pub(crate) fn all_threads() {
        if call(PRIVATE_EXPEDITED) {
            return;
        }
        KNOWN.store(MISSING, Ordering::Relaxed);
        let begun = Instant::now();
        while begun.elapsed() < STORES_ARE_SEEN_AFTER {
            std::hint::spin_loop();
        }
    }

    fn call(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}
