//! The lock of the data path: the moment in which it stops to belong to one thread. Each lock has
//! that moment once, so there are many of them, and the steps of the threads are shifted against
//! each other bit by bit.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dev_core::{Lock, LockGuard, ThreadMode};

/// Guards one thread at a time: two plain numbers that differ only while somebody is inside.
#[derive(Debug, Default)]
struct Inside {
    entered: u64,
    left: u64,
}

fn visit(mut inside: LockGuard<'_, Inside>, stay: u32) {
    assert_eq!(inside.entered, inside.left, "somebody is inside");
    inside.entered += 1;
    wait(stay);
    inside.left += 1;
    assert_eq!(inside.entered, inside.left, "somebody came in");
}

fn wait(spins: u32) {
    (0..spins).for_each(|_| spin_loop());
}

/// Lets threads begin each round together.
#[derive(Debug, Default)]
struct Start {
    arrived: AtomicUsize,
}

impl Start {
    fn meet(&self, round: usize, threads: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut tries = 0u32;
        while self.arrived.load(Ordering::Acquire) < (round + 1) * threads {
            tries += 1;
            if tries.is_multiple_of(1000) {
                std::thread::yield_now();
            }
            spin_loop();
        }
    }
}

/// Steps of each thread, shifted by so many spins.
const SHIFTS: u32 = if cfg!(debug_assertions) { 40 } else { 80 };
const STAYS: [u32; 4] = [0, 3, 30, 300];

/// Runs `first` and `second` at once on a fresh lock for every shift of one against the other. The
/// first thread is the lock's owner where `owned` says so.
fn for_every_shift(
    owned: bool,
    first: impl Fn(&Lock<Inside>, u32) -> u64 + Sync,
    second: impl Fn(&Lock<Inside>, u32) -> u64 + Sync,
) {
    let shifts = (0..SHIFTS).flat_map(|one| (0..SHIFTS).map(move |two| (one * 4, two * 4)));
    let cases: Vec<_> = shifts
        .flat_map(|shift| STAYS.map(|stay| (shift, stay)))
        .collect();
    let locks: Vec<_> = cases
        .iter()
        .map(|_| Lock::new(ThreadMode::Single, Inside::default()))
        .collect();
    let (start, visits) = (Start::default(), AtomicUsize::new(0));
    let run = |is_first: bool, act: &(dyn Fn(&Lock<Inside>, u32) -> u64 + Sync)| {
        for (round, (((one, two), stay), lock)) in cases.iter().zip(&locks).enumerate() {
            if is_first && owned {
                visit(lock.lock(), 0);
                visits.fetch_add(1, Ordering::Relaxed);
            }
            start.meet(round, 2);
            wait(if is_first { *one } else { *two });
            let count = act(lock, *stay);
            visits.fetch_add(count as usize, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(true, &first));
        scope.spawn(|| run(false, &second));
    });
    let inside: u64 = locks.iter().map(|lock| lock.lock().entered).sum();
    assert_eq!(inside, visits.into_inner() as u64);
}

#[test]
fn an_owner_and_a_second_thread_never_meet() {
    let three_times = |lock: &Lock<Inside>, stay| {
        (0..3).for_each(|_| visit(lock.lock(), stay));
        3
    };
    let once = |lock: &Lock<Inside>, stay| {
        visit(lock.lock(), stay);
        1
    };
    for_every_shift(true, three_times, once);
}

#[test]
fn two_threads_that_come_first_at_once_never_meet() {
    let twice = |lock: &Lock<Inside>, stay| {
        (0..2).for_each(|_| visit(lock.lock(), stay));
        2
    };
    for_every_shift(false, twice, twice);
}

#[test]
fn try_lock_never_meets_anybody_and_never_waits() {
    let tries = |lock: &Lock<Inside>, stay| {
        let taken = (0..4).filter_map(|_| lock.try_lock());
        taken.map(|guard| visit(guard, stay)).count() as u64
    };
    let once = |lock: &Lock<Inside>, stay| {
        visit(lock.lock(), stay);
        1
    };
    for_every_shift(true, tries, once);
    for_every_shift(false, once, tries);
}

#[test]
fn a_lock_outlives_its_owner() {
    // The next thread often gets the memory of the one that ended, and with it its number.
    for round in 0..300 {
        let lock = Arc::new(Lock::new(ThreadMode::Single, Inside::default()));
        let in_thread = |visits: u32| {
            let lock = Arc::clone(&lock);
            std::thread::spawn(move || (0..visits).for_each(|_| visit(lock.lock(), 0)))
        };
        in_thread(3).join().unwrap();
        if round % 2 == 0 {
            in_thread(3).join().unwrap();
        }
        let (one, two) = (in_thread(50), in_thread(50));
        one.join().unwrap();
        two.join().unwrap();
        let visits = lock.lock().entered;
        assert_eq!(visits, if round % 2 == 0 { 106 } else { 103 });
    }
}

#[test]
fn a_second_thread_waits_for_an_owner_inside() {
    let lock = Lock::new(ThreadMode::Single, Inside::default());
    let got_in = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guard = lock.lock();
        scope.spawn(|| {
            visit(lock.lock(), 0);
            got_in.store(true, Ordering::Release);
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!got_in.load(Ordering::Acquire));
        drop(guard);
    });
    assert!(got_in.into_inner());
}

/// Two implementations for what is `Send`, one for what is not: naming the method without saying
/// which compiles only for the latter.
trait UnlessSend<Marker> {
    fn needs_no_send() {}
}

struct IsSend;

impl<T: ?Sized> UnlessSend<()> for T {}
impl<T: ?Sized + Send> UnlessSend<IsSend> for T {}

trait UnlessSync<Marker> {
    fn needs_no_sync() {}
}

impl<T: ?Sized> UnlessSync<()> for T {}
impl<T: ?Sized + Sync> UnlessSync<IsSend> for T {}

#[test]
fn a_guard_stays_with_its_thread_and_shares_only_what_may_be_shared() {
    <LockGuard<'static, u32> as UnlessSend<_>>::needs_no_send();
    <LockGuard<'static, std::cell::Cell<u32>> as UnlessSync<_>>::needs_no_sync();
    const fn needs_sync<T: Sync>() {}
    needs_sync::<LockGuard<'static, u32>>();
    needs_sync::<Lock<std::cell::Cell<u32>>>();
}
