use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::every_order;
use crate::lock::{Lock, ThreadMode};

/// A number that loom sees every access to.
type Guarded = Lock<UnsafeCell<u32>>;

fn guarded(mode: ThreadMode) -> Arc<Guarded> {
    Arc::new(Lock::new(mode, UnsafeCell::new(0)))
}

fn increment(lock: &Guarded) {
    let guard = lock.lock();
    // SAFETY: loom checks that no other thread is here, and that what others did here is visible.
    guard.with_mut(|number| unsafe { *number += 1 });
}

fn value(lock: &Guarded) -> u32 {
    let guard = lock.lock();
    // SAFETY: as above.
    guard.with(|number| unsafe { *number })
}

fn threads_never_meet_inside(mode: ThreadMode, threads: u32, changes: usize) {
    every_order(changes, move || {
        let lock = guarded(mode);
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || increment(&lock))
            })
            .collect();
        increment(&lock);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(value(&lock), threads);
    });
}

#[test]
fn spinning_threads_never_meet_inside() {
    threads_never_meet_inside(ThreadMode::SpinLock, 2, 3);
}

/// A sleeper that nobody wakes would be a deadlock, which loom reports.
#[test]
fn sleeping_threads_never_meet_inside_and_all_wake_up() {
    threads_never_meet_inside(ThreadMode::MutexLock, 3, 2);
}

#[test]
fn a_second_thread_takes_the_lock_away_from_its_owner() {
    every_order(3, || {
        let lock = guarded(ThreadMode::Single);
        // The owner.
        increment(&lock);
        let other = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || increment(&lock))
        };
        increment(&lock);
        increment(&lock);
        other.join().unwrap();
        assert_eq!(value(&lock), 4);
    });
}

#[test]
fn threads_that_both_want_to_own_the_lock_never_meet_inside() {
    threads_never_meet_inside(ThreadMode::Single, 2, 3);
}

#[test]
fn a_lock_that_is_tried_is_taken_by_one_thread() {
    every_order(3, || {
        let lock = guarded(ThreadMode::Single);
        increment(&lock);
        let other = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let guard = lock.try_lock();
                // SAFETY: as above.
                guard.map(|guard| guard.with_mut(|number| unsafe { *number += 1 }))
            })
        };
        increment(&lock);
        let taken = other.join().unwrap().is_some();
        assert_eq!(value(&lock), 2 + u32::from(taken));
    });
}
