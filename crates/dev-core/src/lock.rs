//! The lock of the data path. What it costs follows `VMA_THREAD_MODE`.
//!
//! In mode 0 the application promises that one thread uses its sockets. A lock then belongs to the
//! first thread that takes it, and that thread pays two plain stores and two loads, no locked
//! instruction. A promise can be broken, and a broken promise must not corrupt the host program:
//! when a second thread comes, it revokes the bias with `membarrier(2)` and the lock is an ordinary
//! one from then on. If that call is refused (seccomp(2)), new locks are ordinary ones from the
//! beginning.
//!
//! A thread must not take a lock that it holds; the entry guard of the library passes calls from
//! signal handlers through to the kernel for that reason.

#[path = "lock/rank.rs"] // The models include this file from another place.
mod rank;

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

pub use crate::sync::thread_token;
use crate::sync::{
    AtomicBool, AtomicUsize, Futex, Ordering, SPINS_BEFORE_YIELD, membarrier, owner_fence, relax,
};
use rank::Place;
pub use rank::Rank;
pub use vma_config::ThreadMode;

/// A value and the lock that guards it.
pub struct Lock<T> {
    /// Thread that may use the biased way in, [`UNOWNED`] or [`SHARED`].
    owner: AtomicUsize,
    /// Set while the owner is inside by the biased way.
    owner_inside: AtomicBool,
    /// 0 free, 1 held, 2 held and somebody sleeps on it.
    state: Futex,
    mode: ThreadMode,
    place: Place,
    value: UnsafeCell<T>,
}

const UNOWNED: usize = 0;
const SHARED: usize = 1;
const YIELDS_BEFORE_SLEEP: u32 = 16;

// SAFETY: the lock hands out `&mut T` to one thread at a time, so sharing it needs only that `T`
// may move.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: as above; the lock owns its value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// A lock that follows `mode`. In [`ThreadMode::Single`] the kernel must support
    /// `membarrier(2)` (Linux 4.14); where it does not, the lock spins instead.
    pub fn new(mode: ThreadMode, value: T) -> Self {
        let biased = mode == ThreadMode::Single && membarrier::available();
        Self {
            owner: AtomicUsize::new(if biased { UNOWNED } else { SHARED }),
            owner_inside: AtomicBool::new(false),
            state: Futex::new(0),
            mode: if mode == ThreadMode::Single {
                ThreadMode::SpinLock
            } else {
                mode
            },
            place: Place::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// The same lock, which has a place in the order of locks.
    pub fn ranked(self, rank: Rank) -> Self {
        Self {
            place: Place::of(rank),
            ..self
        }
    }

    /// Waits until the value is free and takes it.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        self.place.taken(true);
        match self.try_biased() {
            Some(guard) => guard,
            None => self.lock_shared(),
        }
    }

    /// Takes the value if nobody else has it.
    #[inline]
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        let guard = self.try_to_take()?;
        self.place.taken(false);
        Some(guard)
    }

    #[inline]
    fn try_to_take(&self) -> Option<LockGuard<'_, T>> {
        if let Some(guard) = self.try_biased() {
            return Some(guard);
        }
        if self.owner.load(Ordering::Acquire) != SHARED {
            // Revoking the bias may wait for the owner, so it is not for a caller that does not
            // want to wait.
            return None;
        }
        let taken = self
            .state
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| LockGuard {
            lock: self,
            biased: false,
            _not_send: PhantomData,
        })
    }

    /// The same where the value may belong to another thread that has not been here for long: it is
    /// everybody's from here on. Waits for that thread only if it is inside at this moment.
    pub fn try_lock_from_owner(&self) -> Option<LockGuard<'_, T>> {
        let guard = self.try_to_take_from_owner()?;
        self.place.taken(false);
        Some(guard)
    }

    fn try_to_take_from_owner(&self) -> Option<LockGuard<'_, T>> {
        if let Some(guard) = self.try_biased() {
            return Some(guard);
        }
        self.state
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        if self.owner.load(Ordering::Acquire) != SHARED {
            self.revoke_bias();
        }
        Some(LockGuard {
            lock: self,
            biased: false,
            _not_send: PhantomData,
        })
    }

    #[inline]
    fn try_biased(&self) -> Option<LockGuard<'_, T>> {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner == SHARED {
            return None;
        }
        let me = thread_token();
        if owner != me
            && (owner != UNOWNED
                || self
                    .owner
                    .compare_exchange(UNOWNED, me, Ordering::Acquire, Ordering::Relaxed)
                    .is_err())
        {
            return None;
        }
        self.owner_inside.store(true, Ordering::Relaxed);
        // Pairs with the membarrier of `revoke_bias`: either that thread sees the store above, or
        // we see its store to `owner` below. The processor's own barrier is paid by the revoking
        // side only.
        owner_fence();
        if self.owner.load(Ordering::Relaxed) == me {
            return Some(LockGuard {
                lock: self,
                biased: true,
                _not_send: PhantomData,
            });
        }
        self.owner_inside.store(false, Ordering::Release);
        None
    }

    #[cold]
    fn revoke_bias(&self) {
        // Called with `state` held, so that one thread revokes.
        if self.owner.swap(SHARED, Ordering::SeqCst) == SHARED {
            return;
        }
        membarrier::all_threads();
        let mut tries = 0;
        while self.owner_inside.load(Ordering::Acquire) {
            relax(&mut tries);
        }
    }

    fn lock_shared(&self) -> LockGuard<'_, T> {
        if self
            .state
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.wait();
        }
        if self.owner.load(Ordering::Acquire) != SHARED {
            self.revoke_bias();
        }
        LockGuard {
            lock: self,
            biased: false,
            _not_send: PhantomData,
        }
    }

    #[cold]
    fn wait(&self) {
        let patience = match self.mode {
            ThreadMode::Single | ThreadMode::SpinLock => u32::MAX,
            ThreadMode::MutexLock => 1,
            ThreadMode::MoreThreadsThanCores => SPINS_BEFORE_YIELD + YIELDS_BEFORE_SLEEP,
        };
        let mut tries = if self.mode == ThreadMode::MoreThreadsThanCores {
            SPINS_BEFORE_YIELD
        } else {
            0
        };
        while tries < patience {
            if self.state.load(Ordering::Relaxed) == 0
                && self
                    .state
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            relax(&mut tries);
            if patience == u32::MAX {
                tries = tries.min(SPINS_BEFORE_YIELD);
            }
        }
        while self.state.swap(2, Ordering::Acquire) != 0 {
            self.state.wait(2);
        }
    }

    #[inline]
    fn unlock_shared(&self) {
        if matches!(self.mode, ThreadMode::SpinLock | ThreadMode::Single) {
            self.state.store(0, Ordering::Release);
        } else if self.state.swap(0, Ordering::Release) == 2 {
            self.state.wake_one();
        }
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// Access to the value of a [`Lock`]; gives it back when dropped.
pub struct LockGuard<'a, T> {
    lock: &'a Lock<T>,
    biased: bool,
    /// A guard stays with the thread that locked.
    _not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value, no more.
unsafe impl<T: Sync> Sync for LockGuard<'_, T> {}

impl<T: fmt::Debug> fmt::Debug for LockGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a guard exists only while its thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: a guard exists only while its thread holds the lock, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for LockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.biased {
            self.lock.owner_inside.store(false, Ordering::Release);
        } else {
            self.lock.unlock_shared();
        }
        self.lock.place.given();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "lock/tests.rs"] // The models include this file from another place.
mod tests;
