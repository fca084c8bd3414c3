//! Waking threads that sleep until something happens to a socket.
//!
//! A sleeper registers a [`Waiter`] with every socket that it waits for, looks once more whether
//! one is ready, and sleeps on the waiter's eventfd beside the devices' descriptors. Whoever makes
//! a socket ready pays one load when nobody sleeps.

mod late;
mod queue;

use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;

pub use late::WakesLater;
pub use queue::WaitQueue;

/// A sleeping thread: an eventfd.
#[derive(Debug)]
pub struct Waiter {
    fd: OwnDescriptor,
    /// Somebody has woken it since it was last given back.
    woken: AtomicBool,
    /// How often it was taken and given back: odd while a thread has it.
    changes: AtomicU32,
    /// Whoever has it never gives it back: its thread was cancelled.
    is_abandoned: AtomicBool,
}

impl Waiter {
    /// A waiter from the stock of earlier sleepers, or a new one. `None`: no descriptor is to be
    /// had.
    pub fn take() -> Option<Arc<Self>> {
        let known = stock().unused.pop();
        let waiter = known.or_else(Self::new)?;
        waiter.begin_sleep();
        Some(waiter)
    }

    /// One that is in no stock. It is to be taken, [as for a sleep](Self::begin_sleep), before it
    /// is slept on.
    pub fn new() -> Option<Arc<Self>> {
        let waiter = Arc::new(Self {
            fd: sys::eventfd().ok()?,
            woken: AtomicBool::new(false),
            changes: AtomicU32::new(0),
            is_abandoned: AtomicBool::new(false),
        });
        let mut stock = stock();
        // Those that nobody has but the stock.
        stock.all.retain(|other| Arc::strong_count(other) > 1);
        stock.all.push(Arc::clone(&waiter));
        Some(waiter)
    }

    /// A thread has it from here on.
    pub fn begin_sleep(&self) {
        // Before its number, or that of anything else to watch, is read: see `Sleeps`.
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Gives a waiter back that is registered nowhere any more. `is_readable`: its descriptor was
    /// seen to be.
    pub fn give(waiter: Arc<Self>, is_readable: bool) {
        waiter.end_sleep(is_readable);
        stock().unused.push(waiter);
    }

    /// The thread does not sleep on it any more.
    pub fn end_sleep(&self, is_readable: bool) {
        if self.woken.swap(false, Ordering::Relaxed) || is_readable {
            sys::drain_eventfd(self.fd());
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub fn fd(&self) -> libc::c_int {
        self.fd.as_raw_fd()
    }

    /// Wakes it, unless somebody has done so in this sleep; after [`WakesLater`].
    pub fn wake(self: &Arc<Self>) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let _ = WOKEN.try_with(|woken| woken.set(woken.get().wrapping_add(1)));
        if !late::takes(self) {
            sys::signal_eventfd(self.fd());
        }
    }

    /// What is left of [`wake`](Self::wake), unless the sleep is over.
    fn signal_if_woken(&self) {
        if self.woken.load(Ordering::Acquire) {
            sys::signal_eventfd(self.fd());
        }
    }
}

thread_local! {
    static WOKEN: Cell<u32> = const { Cell::new(0) };
}

/// How many sleepers the calling thread has woken so far.
pub fn woken_here() -> u32 {
    WOKEN.try_with(Cell::get).unwrap_or(0)
}

/// The sleeps that were under way at one time, or about to begin.
#[derive(Debug)]
pub struct Sleeps(Vec<(Arc<Waiter>, u32)>);

impl Sleeps {
    /// Those of now. A sleep that begins later finds whatever was stored before this call.
    pub fn under_way() -> Self {
        let stock = stock();
        let waiters = stock.all.iter().filter_map(|waiter| {
            let changes = waiter.changes.load(Ordering::SeqCst);
            let is_taken = changes % 2 == 1 && !waiter.is_abandoned.load(Ordering::Relaxed);
            is_taken.then(|| (Arc::clone(waiter), changes))
        });
        Self(waiters.collect())
    }

    /// Ends them. Whoever is woken sleeps on, perhaps, and is woken again.
    pub fn wake(&self) {
        for (waiter, _) in &self.0 {
            waiter.woken.store(true, Ordering::Relaxed);
            sys::signal_eventfd(waiter.fd());
        }
    }

    pub fn forget_ended(&mut self) -> bool {
        let is_the_same = |(waiter, changes): &(Arc<Waiter>, u32)| {
            waiter.changes.load(Ordering::Acquire) == *changes
        };
        self.0.retain(is_the_same);
        self.0.is_empty()
    }

    /// What is left are sleeps that never end.
    pub fn give_up(self) {
        for (waiter, _) in self.0 {
            waiter.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct Waiters {
    unused: Vec<Arc<Waiter>>,
    all: Vec<Arc<Waiter>>,
}

type Stock = Mutex<Waiters>;

/// Made when it is first needed; null before.
static STOCK: AtomicPtr<Stock> = AtomicPtr::new(ptr::null_mut());

fn stock() -> MutexGuard<'static, Waiters> {
    let mut stock = STOCK.load(Ordering::Acquire);
    if stock.is_null() {
        let fresh = Box::into_raw(Box::new(Stock::default()));
        match STOCK.compare_exchange(stock, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => stock = fresh,
            Err(other) => {
                // SAFETY: `fresh` came from Box::into_raw above and was not published.
                drop(unsafe { Box::from_raw(fresh) });
                stock = other;
            }
        }
    }
    // SAFETY: a published stock is never freed.
    unsafe { &*stock }
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: the descriptors of the parent's stock are closed, and its lock may be held by
/// a thread that is not here.
pub fn forget_stock() {
    STOCK.store(ptr::null_mut(), Ordering::Release);
}
