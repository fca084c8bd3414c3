//! Wake-ups that wait until a ring is unlocked.
//!
//! Who is woken may take the CPU from its waker at once, and then needs what that has locked:
//! instead of one switch between threads there are three, and on a CPU that many share each packet
//! costs them.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Waiter;

/// Nobody is to be woken yet.
const LATER: u32 = 1;
/// Somebody is to be woken afterwards.
const HAS_SOME: u32 = 2;

thread_local! {
    static STATE: Cell<u32> = const { Cell::new(0) };
    static WAITERS: Cell<Vec<Arc<Waiter>>> = const { Cell::new(Vec::new()) };
}

/// While it is there, its thread wakes nobody. Whoever it would have woken it wakes in the end: it
/// is to be made before any lock is taken, and to go when all are given back.
#[derive(Debug)]
pub struct WakesLater {
    /// The state is the outer one's to end.
    is_inner: bool,
    /// Of one thread.
    _thread: PhantomData<*const ()>,
}

impl WakesLater {
    #[inline]
    pub fn begin() -> Self {
        let before = STATE.replace(STATE.get() | LATER);
        Self {
            is_inner: before & LATER != 0,
            _thread: PhantomData,
        }
    }
}

impl Drop for WakesLater {
    #[inline]
    fn drop(&mut self) {
        if !self.is_inner && STATE.replace(0) & HAS_SOME != 0 {
            wake_all();
        }
    }
}

#[cold]
fn wake_all() {
    let Ok(mut waiters) = WAITERS.try_with(Cell::take) else {
        return;
    };
    waiters
        .drain(..)
        .for_each(|waiter| waiter.signal_if_woken());
    // The memory is used again.
    let _ = WAITERS.try_with(|kept| kept.set(waiters));
}

/// Whether the waiter is woken later; otherwise that is to be done now.
pub(super) fn takes(waiter: &Arc<Waiter>) -> bool {
    if STATE.get() & LATER == 0 {
        return false;
    }
    let taken = WAITERS.try_with(|all| {
        let mut waiters = all.take();
        waiters.push(Arc::clone(waiter));
        all.set(waiters);
    });
    STATE.set(STATE.get() | HAS_SOME);
    // The thread may be about to end.
    taken.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_signalled(waiter: &Waiter) -> bool {
        sys::poll_one(waiter.fd(), libc::POLLIN).is_ok_and(|ready| ready != 0)
    }

    #[test]
    fn who_is_woken_under_a_lock_is_woken_after_it() {
        let waiters = [(); 2].map(|()| Waiter::take().unwrap());
        let outer = WakesLater::begin();
        waiters[0].wake();
        {
            let _inner = WakesLater::begin();
            waiters[1].wake();
        }
        assert!(!waiters.iter().any(|waiter| is_signalled(waiter)));
        drop(outer);
        assert!(waiters.iter().all(|waiter| is_signalled(waiter)));
        waiters
            .into_iter()
            .for_each(|waiter| Waiter::give(waiter, false));
    }

    #[test]
    fn who_has_got_up_meanwhile_is_left_alone() {
        let waiter = Waiter::take().unwrap();
        let later = WakesLater::begin();
        waiter.wake();
        waiter.end_sleep(false);
        drop(later);
        assert!(!is_signalled(&waiter));
        waiter.wake();
        assert!(is_signalled(&waiter));
        Waiter::give(waiter, false);
    }
}
