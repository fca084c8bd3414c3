//! Waking threads that sleep until something happens to a socket.
//!
//! A sleeper registers a [`Waiter`] with every socket that it waits for, looks once more whether one is ready, and
//! sleeps on the waiter's eventfd beside the devices' descriptors. Whoever makes a socket ready pays one load when
//! nobody sleeps.

mod queue;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sys;
pub(crate) use queue::WaitQueue;

/// A sleeping thread: an eventfd.
#[derive(Debug)]
pub(crate) struct Waiter {
    fd: sys::OwnedFd,
    /// Somebody has woken it since it was last given back.
    woken: AtomicBool,
}

impl Waiter {
    /// A waiter from the stock of earlier sleepers, or a new one. `None`: no descriptor is to be had.
    pub(crate) fn take() -> Option<Arc<Self>> {
        if let Some(waiter) = stock().pop() {
            return Some(waiter);
        }
        let woken = AtomicBool::new(false);
        sys::eventfd().ok().map(|fd| Arc::new(Self { fd, woken }))
    }

    /// Gives a waiter back that is registered nowhere any more. `is_readable`: its descriptor was seen to be.
    pub(crate) fn give(waiter: Arc<Self>, is_readable: bool) {
        if waiter.woken.swap(false, Ordering::Relaxed) || is_readable {
            sys::drain_eventfd(&waiter.fd);
        }
        stock().push(waiter);
    }

    pub(crate) fn fd(&self) -> libc::c_int {
        self.fd.raw()
    }

    pub(crate) fn wake(&self) {
        self.woken.store(true, Ordering::Relaxed);
        sys::signal_eventfd(self.fd.raw());
    }
}

type Stock = Mutex<Vec<Arc<Waiter>>>;

/// Made when it is first needed; null before.
static STOCK: AtomicPtr<Stock> = AtomicPtr::new(ptr::null_mut());

fn stock() -> MutexGuard<'static, Vec<Arc<Waiter>>> {
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

/// In a forked child: the descriptors of the parent's stock are closed, and its lock may be held by a thread that is not here.
pub(crate) fn forget_stock() {
    STOCK.store(ptr::null_mut(), Ordering::Release);
}
