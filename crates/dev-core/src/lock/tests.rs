use std::sync::Arc;

use super::*;

const MODES: [ThreadMode; 4] = [
    ThreadMode::Single,
    ThreadMode::SpinLock,
    ThreadMode::MutexLock,
    ThreadMode::MoreThreadsThanCores,
];

fn rounds() -> u64 {
    if cfg!(miri) { 50 } else { 50_000 }
}

#[test]
fn threads_never_meet_inside() {
    for mode in MODES {
        let lock = Arc::new(Lock::new(mode, (0u64, 0u64)));
        // The first taker owns a biased lock; the others revoke it in the middle of its work.
        drop(lock.lock());
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                std::thread::spawn(move || {
                    for _ in 0..rounds() {
                        let mut pair = lock.lock();
                        pair.0 += 1;
                        pair.1 += 1;
                        assert_eq!(pair.0, pair.1, "{mode:?}");
                    }
                })
            })
            .collect();
        for _ in 0..rounds() {
            let mut pair = lock.lock();
            pair.0 += 1;
            pair.1 += 1;
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(lock.lock().0, 5 * rounds(), "{mode:?}");
    }
}

#[test]
fn bias_survives_one_thread_and_ends_with_the_second() {
    let lock = Arc::new(Lock::new(ThreadMode::Single, 0));
    for _ in 0..10 {
        *lock.lock() += 1;
    }
    if membarrier::available() {
        assert_eq!(lock.owner.load(Ordering::Relaxed), thread_token());
    }
    let other = Arc::clone(&lock);
    std::thread::spawn(move || *other.lock() += 1)
        .join()
        .unwrap();
    assert_eq!(lock.owner.load(Ordering::Relaxed), SHARED);
    assert_eq!(*lock.lock(), 11);
}

#[test]
fn try_lock_fails_while_held_elsewhere() {
    for mode in MODES {
        let lock = Arc::new(Lock::new(mode, ()));
        let guard = lock.lock();
        let other = Arc::clone(&lock);
        let taken = std::thread::spawn(move || other.try_lock().is_some())
            .join()
            .unwrap();
        assert!(!taken, "{mode:?}");
        drop(guard);
        assert!(lock.try_lock().is_some(), "{mode:?}");
    }
}

#[test]
fn what_belongs_to_a_thread_that_is_not_inside_can_be_taken() {
    for mode in MODES {
        let lock = Arc::new(Lock::new(mode, 0));
        *lock.lock() += 1;
        let other = Arc::clone(&lock);
        let take = move || {
            *other.try_lock_from_owner().unwrap() += 1;
        };
        std::thread::spawn(take).join().unwrap();
        let held = lock.lock();
        assert_eq!(*held, 2, "{mode:?}");
        assert!(lock.try_lock_from_owner().is_none(), "{mode:?}");
    }
}

#[test]
#[cfg(debug_assertions)]
fn locks_are_taken_in_their_order() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    let lock = |rank| Lock::new(ThreadMode::SpinLock, ()).ranked(rank);
    let (ring, socket, pool) = (lock(Rank::Receiving), lock(Rank::Socket), lock(Rank::Pool));
    let other = lock(Rank::Receiving);
    let is_taken = |lock: &Lock<()>| catch_unwind(AssertUnwindSafe(|| drop(lock.lock()))).is_ok();
    let rings = (ring.lock(), other.lock());
    assert!(is_taken(&socket) && is_taken(&pool));
    drop(rings);
    let held = socket.lock();
    assert!(is_taken(&pool) && !is_taken(&ring) && !is_taken(&lock(Rank::Socket)));
    // Who does not wait may take any.
    assert!(ring.try_lock().is_some());
    drop(held);
    assert!(is_taken(&ring));
}
