//! A lock in parts: what several have together, and what each of them has alone.
//!
//! Whoever holds one part may read what is common; whoever holds all of them may change it. So
//! those who hold different parts neither wait for each other nor write to a cache line that the
//! other reads. Changes are rare, and pay for that.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::lock::{Lock, LockGuard, Rank, ThreadMode};

/// Two cache lines at a time come into a core's cache.
#[repr(align(128))]
struct Apart<T>(T);

/// Something common, and at least one part.
pub struct ShardedLock<C, P> {
    /// Inline, because most have no other.
    first: Apart<Lock<P>>,
    common: Apart<UnsafeCell<C>>,
    others: Box<[Apart<Lock<P>>]>,
}

// SAFETY: parts are handed out to one thread at a time, which needs that they may move. What is
// common is read by several threads at once, each with a part, and changed by one at a time, which
// has all parts.
unsafe impl<C: Send + Sync, P: Send> Sync for ShardedLock<C, P> {}

impl<C, P> ShardedLock<C, P> {
    /// A lock of a first part and others.
    pub fn new(mode: ThreadMode, common: C, first: P, others: impl IntoIterator<Item = P>) -> Self {
        let others = others.into_iter();
        Self {
            first: Apart(Lock::new(mode, first).ranked(Rank::Receiving)),
            common: Apart(UnsafeCell::new(common)),
            others: others
                .map(|part| Apart(Lock::new(mode, part).ranked(Rank::Receiving)))
                .collect(),
        }
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        1 + self.others.len()
    }

    #[inline]
    fn part(&self, number: usize) -> &Lock<P> {
        match number.checked_sub(1) {
            None => &self.first.0,
            Some(place) => self
                .others
                .get(place)
                .map_or(&self.first.0, |other| &other.0),
        }
    }

    /// Waits for a part; a number that none has is the first one's. The thread must not hold any.
    #[inline]
    pub fn lock(&self, number: usize) -> ShardGuard<'_, C, P> {
        ShardGuard {
            part: self.part(number).lock(),
            common: &self.common.0,
        }
    }

    /// The same if nobody is inside. A part that belongs to another thread by its mode is
    /// everybody's from here on.
    pub fn try_lock(&self, number: usize) -> Option<ShardGuard<'_, C, P>> {
        Some(ShardGuard {
            part: self.part(number).try_lock_from_owner()?,
            common: &self.common.0,
        })
    }

    /// Waits for all parts, in their order. The thread must not hold any.
    #[cold]
    pub fn lock_all(&self) -> AllGuard<'_, C, P> {
        let first = self.first.0.lock();
        AllGuard {
            _first: first,
            _others: self.others.iter().map(|other| other.0.lock()).collect(),
            common: &self.common.0,
        }
    }
}

impl<C, P> fmt::Debug for ShardedLock<C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedLock")
            .field("parts", &self.parts())
            .finish_non_exhaustive()
    }
}

/// A part, and what is common for reading.
pub struct ShardGuard<'a, C, P> {
    part: LockGuard<'a, P>,
    common: &'a UnsafeCell<C>,
}

impl<C, P> ShardGuard<'_, C, P> {
    /// Both at once.
    #[inline]
    pub fn both(&mut self) -> (&C, &mut P) {
        // SAFETY: it is changed by who holds all parts only, and the guard of one is borrowed as
        // long as the reference.
        (unsafe { &*self.common.get() }, &mut self.part)
    }

    /// What is common.
    #[inline]
    pub fn common(&self) -> &C {
        // SAFETY: as in `both`.
        unsafe { &*self.common.get() }
    }
}

/// Every part, for changing what is common.
pub struct AllGuard<'a, C, P> {
    _first: LockGuard<'a, P>,
    _others: Vec<LockGuard<'a, P>>,
    common: &'a UnsafeCell<C>,
}

impl<C, P> Deref for AllGuard<'_, C, P> {
    type Target = C;

    fn deref(&self) -> &C {
        // SAFETY: nobody else holds a part, so nobody else has a reference, but through this guard,
        // which is borrowed.
        unsafe { &*self.common.get() }
    }
}

impl<C, P> DerefMut for AllGuard<'_, C, P> {
    fn deref_mut(&mut self) -> &mut C {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.common.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_numbers_that_none_has_are_the_firsts() {
        let lock = ShardedLock::new(ThreadMode::SpinLock, 5, 'a', ['b', 'c']);
        assert_eq!(lock.parts(), 3);
        let mut first = lock.lock(0);
        let mut last = lock.lock(2);
        assert_eq!(
            (first.both(), last.both()),
            ((&5, &mut 'a'), (&5, &mut 'c'))
        );
        assert!(lock.try_lock(0).is_none() && lock.try_lock(3).is_none());
        let mut second = lock.try_lock(1).unwrap();
        *second.both().1 = 'd';
        drop((first, last, second));
        assert_eq!(*lock.lock(1).both().1, 'd');
        assert_eq!(*lock.lock(9).both().1, 'a');
    }

    #[test]
    fn what_is_common_changes_while_nobody_reads_it() {
        for mode in [ThreadMode::Single, ThreadMode::SpinLock] {
            let lock = ShardedLock::new(mode, (0u64, 0u64), 0u64, [0, 0]);
            let rounds = if cfg!(miri) { 20 } else { 20_000 };
            std::thread::scope(|scope| {
                for number in 0..3 {
                    let lock = &lock;
                    scope.spawn(move || {
                        for _ in 0..rounds {
                            let mut guard = lock.lock(number);
                            let (common, part) = guard.both();
                            assert_eq!(common.0, common.1);
                            *part += 1;
                        }
                    });
                }
                for _ in 0..rounds / 10 {
                    let mut common = lock.lock_all();
                    common.0 += 1;
                    std::hint::spin_loop();
                    common.1 += 1;
                }
            });
            let counts = [0, 1, 2].map(|number| *lock.lock(number).both().1);
            assert_eq!(counts, [rounds; 3]);
            assert_eq!(lock.lock(0).common().0, rounds / 10);
        }
    }
}
