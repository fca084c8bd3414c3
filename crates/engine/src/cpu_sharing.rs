//! Whether a thread that polls keeps others from its CPU.
//!
//! Polling pays where a thread has a CPU to itself. Where it does not, whoever it waits for may be
//! waiting for that very CPU, until the scheduler's time slice ends: milliseconds. So a thread that
//! polls in vain offers its CPU now and then (`sched_yield(2)`, which returns at once if nobody
//! wants it) and notices when another thread has run. What it makes of that, and when it sleeps
//! instead of polling, as it would in the kernel, is decided in [`contention`].

mod contention;
mod crowd;

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};

use contention::{Contention, Offers};
use sys::Switches;

/// An offer that nobody takes is over in less: a switch to another thread and back is not.
const OFFER_NSEC: u64 = 1_000;

/// Where the library's own thread has run, what is left of an offer's time is less than this and
/// the thread's time: switches, and what the kernel did for it in interrupts.
const OWN_SWITCHES_NSEC: u64 = 30_000;

thread_local! {
    /// What is known of the thread's CPU.
    static CONTENTION: Cell<Contention> = const { Cell::new(Contention::NONE) };
}

/// Others need the thread's CPU: where it would poll, it is to sleep.
#[inline]
fn must_sleep() -> bool {
    // Thread-local storage may be gone while the thread exits.
    CONTENTION
        .try_with(Cell::get)
        .is_ok_and(|contention| contention.is_shared() && is_still_shared(contention))
}

#[cold]
fn is_still_shared(contention: Contention) -> bool {
    let now = contention.at(sys::now_nsec());
    let _ = CONTENTION.try_with(|own| own.set(now));
    now.is_shared()
}

/// The library's own thread; 0: there is none.
static OWN_THREAD: AtomicI32 = AtomicI32::new(0);

/// To be called by the library's own thread. Whom it takes an offered CPU from shares that with
/// nobody: many programs are pinned to one CPU with all their threads.
pub(crate) fn own_thread_begins() {
    OWN_THREAD.store(sys::thread_id(), Ordering::Relaxed);
}

/// To be called before threads poll.
pub(crate) fn prepare() {
    crowd::prepare();
}

/// To be called when a thread is about to sleep until something comes.
pub(crate) fn sleeps() {
    crowd::sleeps(sys::now_nsec());
}

/// How long the library's own thread has run so far; 0 without one. In a child of fork(2) it is the
/// parent's until another begins.
fn own_thread_nsec() -> u64 {
    match OWN_THREAD.load(Ordering::Relaxed) {
        0 => 0,
        thread => sys::thread_cpu_nsec(thread),
    }
}

/// Lets others run. How long they did, if anybody has.
fn offer_cpu() -> Option<u64> {
    let own_before = own_thread_nsec();
    let switches = Switches::now();
    let begun = sys::now_nsec();
    sys::yield_cpu();
    let taken = sys::now_nsec() - begun;
    if taken <= OFFER_NSEC || !Switches::now().has_changed_since(switches) {
        return None;
    }
    taken_by_others(taken, own_thread_nsec().saturating_sub(own_before))
}

/// How long others had an offered CPU that was away for so long, of which the library's own thread
/// has run for `own_nsec`. What that has waited meanwhile was others' time.
fn taken_by_others(taken_nsec: u64, own_nsec: u64) -> Option<u64> {
    let others_nsec = taken_nsec.saturating_sub(own_nsec);
    let is_own = own_nsec > 0 && others_nsec < own_nsec.saturating_add(OWN_SWITCHES_NSEC);
    (!is_own).then_some(others_nsec)
}

/// A call's polling in vain.
#[derive(Debug)]
pub(crate) struct Spin {
    /// `VMA_POLL_SHARED_CPU`: the thread polls whoever else needs its CPU.
    is_ruthless: bool,
    /// Not of one that polls for ever: it has nothing but offers to make.
    may_sleep: bool,
    /// When the CPU was last offered, or polling was seen to begin; 0 before.
    offered_at_nsec: u64,
}

impl Spin {
    pub(crate) const fn new(is_ruthless: bool, may_sleep: bool) -> Self {
        Self {
            is_ruthless,
            may_sleep,
            offered_at_nsec: 0,
        }
    }

    /// After a poll in vain: whether the call is to sleep now, as its time of polling is over
    /// (`is_over`) or others need the thread's CPU. `None`: it polls for ever, and while others
    /// need the CPU they get it at once.
    #[inline]
    pub(crate) fn stops(&mut self, is_over: Option<bool>) -> bool {
        if let Some(is_over) = is_over {
            return is_over || !self.is_ruthless && must_sleep();
        }
        self.make_way();
        false
    }

    #[inline]
    fn make_way(&mut self) {
        let is_shared = |contention: &Cell<Contention>| contention.get().is_shared();
        if !self.is_ruthless && CONTENTION.try_with(is_shared).unwrap_or(false) {
            self.look();
        }
    }

    /// To be called every few microseconds while polling is in vain.
    #[cold]
    pub(crate) fn look(&mut self) {
        if self.is_ruthless {
            return;
        }
        let Ok(contention) = CONTENTION.try_with(Cell::get) else {
            return;
        };
        let now = sys::now_nsec();
        if self.offered_at_nsec == 0 {
            self.offered_at_nsec = now;
        }
        let contention = match crowd::has_room(now) || !self.may_sleep {
            true => self.looked(contention.at(now), now),
            false => contention.crowded(now),
        };
        let _ = CONTENTION.try_with(|own| own.set(contention));
    }

    fn looked(&mut self, contention: Contention, now: u64) -> Contention {
        match contention.offers() {
            Offers::After(interval_nsec) if now - self.offered_at_nsec >= interval_nsec => {
                let taken = offer_cpu();
                let now = sys::now_nsec();
                self.offered_at_nsec = now;
                match taken {
                    Some(taken_nsec) => contention.taken(now, taken_nsec, self.may_sleep),
                    None => contention.refused(),
                }
            }
            Offers::NoneButWatch { from_nsec } if now >= from_nsec => {
                contention.watched(sys::thread_usage())
            }
            Offers::After(_) | Offers::NoneButWatch { .. } | Offers::None => contention,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    /// Two threads on one CPU, of which one polls: it finds out.
    #[test]
    fn a_thread_on_a_busy_cpu_finds_out() {
        // Also of those that it starts from here on.
        let cpu = sys::current_cpu();
        sys::run_on(&[cpu]).unwrap();
        let cpu = cpu as usize;
        let stop = Arc::new(AtomicBool::new(false));
        let other = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                // It inherits the CPU.
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let begun = Instant::now();
        let mut spin = Spin::new(false, true);
        while !must_sleep() && begun.elapsed() < Duration::from_secs(10) {
            spin.look();
        }
        let found_out = must_sleep();
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap();
        assert!(found_out, "on CPU {cpu}");
    }

    /// The library's own thread takes an offered CPU from nobody; who takes it beside that does.
    #[test]
    fn the_librarys_own_thread_is_nobody_else() {
        assert_eq!(taken_by_others(5_000, 0), Some(5_000));
        assert_eq!(taken_by_others(5_000, 2_000), None);
        assert_eq!(taken_by_others(5_000, 9_000), None);
        assert_eq!(taken_by_others(500_000, 490_000), None);
        assert_eq!(taken_by_others(500_000, 240_000), None);
        assert_eq!(taken_by_others(500_000, 20_000), Some(480_000));
        assert_eq!(taken_by_others(5_000_000, 100_000), Some(4_900_000));
    }
}
