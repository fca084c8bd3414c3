//! The internal thread's watch over rings whose leader is awake, for those that follow (`lead.rs`).
//!
//! The rings are in an epoll instance of the library with `EPOLLEXCLUSIVE`, behind those in which
//! leaders sleep: the kernel asks one after the other until one has a sleeper. So a packet wakes
//! the leader, or if that is awake the internal thread, and no system call passes the watch to and
//! fro.

use std::fmt;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use libc::{c_int, epoll_event};

use crate::lead::Lead;
use crate::wait::Sleeps;

const EVENTS: u32 = libc::EPOLLIN as u32 | libc::EPOLLEXCLUSIVE as u32;

/// The receiving rings of an interface, as those who sleep know them.
pub trait Rings: fmt::Debug + Sync {
    fn lead(&self) -> &Lead;

    /// What becomes readable when packets wait.
    fn wait_fds(&self) -> Vec<RawFd>;

    /// Whether packets wait.
    fn have_waiting(&self) -> bool;

    /// Receives all that has come so far. Returns the number of frames.
    fn receive_all(&self) -> usize;
}

#[derive(Debug)]
struct Watch {
    epoll: OwnDescriptor,
    changes: Mutex<()>,
}

/// Null without an internal thread. What was published is never freed.
static WATCH: AtomicPtr<Watch> = AtomicPtr::new(ptr::null_mut());

fn watch() -> Option<&'static Watch> {
    // SAFETY: null, or a leaked box.
    unsafe { WATCH.load(Ordering::Acquire).as_ref() }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, rings: &dyn Rings) {
        for fd in rings.wait_fds() {
            let event = epoll_event {
                events: EVENTS,
                u64: 0,
            };
            sys::epoll_add(self.epoll.as_raw_fd(), fd, event);
        }
    }

    /// `false`: some stay in, because they have got another number since.
    fn remove(&self, rings: &dyn Rings) -> bool {
        let remove = |fd| sys::epoll_remove(self.epoll.as_raw_fd(), fd);
        // All of them.
        rings
            .wait_fds()
            .into_iter()
            .filter(|fd| !remove(*fd))
            .count()
            == 0
    }
}

/// Before the internal thread starts.
pub fn prepare() {
    if watch().is_some() {
        return;
    }
    if let Ok(epoll) = sys::epoll() {
        let changes = Mutex::new(());
        let watch = Box::into_raw(Box::new(Watch { epoll, changes }));
        WATCH.store(watch, Ordering::Release);
    }
}

/// The internal thread ends: every sleeper watches for itself from here on.
pub fn ends() {
    if !WATCH.swap(ptr::null_mut(), Ordering::SeqCst).is_null() {
        Sleeps::under_way().wake();
    }
}

/// In a forked child, where the descriptor is closed.
pub fn forget() {
    WATCH.store(ptr::null_mut(), Ordering::Release);
}

/// Whether anybody watches for those that follow.
pub fn is_possible() -> bool {
    !WATCH.load(Ordering::SeqCst).is_null()
}

/// What the internal thread watches.
pub fn fd() -> Option<c_int> {
    watch().map(|watch| watch.epoll.as_raw_fd())
}

/// A thread is about to sleep that does not watch the rings itself.
pub fn follow(rings: &dyn Rings) {
    if rings.lead().joins()
        && let Some(watch) = watch()
    {
        let _changes = watch.lock();
        if rings.lead().begin_watch() {
            watch.add(rings);
        }
    }
}

/// Leaders have a new place to sleep in: the watch comes behind it.
pub fn comes_behind(rings: &dyn Rings) {
    if let Some(watch) = watch() {
        let _changes = watch.lock();
        if rings.lead().is_watched() {
            // What stays in it, because it has got another number since, only wakes too often.
            watch.remove(rings);
            watch.add(rings);
        }
    }
}

/// In the internal thread: leaves rings alone that nobody follows.
pub fn end_if_unneeded(rings: &dyn Rings) {
    if let Some(watch) = watch() {
        let _changes = watch.lock();
        if rings.lead().end_watch() && !watch.remove(rings) {
            // It goes on, with all of them.
            watch.add(rings);
            rings.lead().begin_watch();
        }
    }
}
