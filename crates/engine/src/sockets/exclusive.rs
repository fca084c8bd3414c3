//! Sleeping so that a packet wakes one of several threads, whatever epoll set its socket is in, as the kernel wakes one.
//!
//! A thread that sleeps in `ppoll(2)` on a device is woken by every packet. So a sleeper of an epoll set has an epoll instance of its
//! own, in which the devices are with `EPOLLEXCLUSIVE`: the kernel wakes the first that sleeps. Beside them are the program's set, for
//! what the kernel's sockets report, and the eventfd with which other threads wake it.
//!
//! No wake-up is lost: everything is level-triggered, and whoever has slept receives what has come before anything else, which wakes
//! the threads that it is for.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use libc::{c_int, epoll_event};

use crate::sockets::interface::InterfaceSet;
use crate::sockets::interrupt;
use crate::sockets::stack::Stack;
use crate::sockets::wait::Waiter;
use crate::sys;

/// Sleepers that wait in this way, at most: each takes a descriptor, and the kernel limits in how many ways a file may be waited for.
/// Others wait as if there were no exclusive ones.
const MAX: u32 = 16;
/// So many packets in a row for other sets: another sleeper is to be the first.
const OTHERS_MAX: u32 = 4;

const IN: u32 = libc::EPOLLIN as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// What is no device in the data of an event.
const KERNEL: u64 = 1 << 32;
const WAITER: u64 = 2 << 32;
const WAKES_ALL: u64 = 3 << 32;

/// How many there are.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// What a thread sleeps in.
#[derive(Debug)]
pub(crate) struct ExclusiveSleeper {
    epoll: OwnDescriptor,
    pub(crate) waiter: Arc<Waiter>,
    /// The devices, with the numbers under which they are in the epoll instance.
    devices: Vec<RawFd>,
    /// Of the sleepers of the set when it was made, and of the changes of the set's interfaces.
    version: Version,
    _counted: Counted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    generation: u32,
    as_of: u32,
}

impl ExclusiveSleeper {
    fn new<S: Stack>(epfd: c_int, interfaces: &InterfaceSet<S>, version: Version) -> Option<Self> {
        let counted = Counted::new()?;
        let mut sleeper = Self {
            epoll: sys::epoll().ok()?,
            waiter: Waiter::new()?,
            devices: Vec::new(),
            version,
            _counted: counted,
        };
        let mut is_complete = sleeper.add(epfd, IN, KERNEL);
        is_complete &= sleeper.add(sleeper.waiter.fd(), IN, WAITER);
        if let Some(fd) = interrupt::wakes_all() {
            is_complete &= sleeper.add(fd, IN, WAKES_ALL);
        }
        for fd in interfaces.iter().flat_map(|it| it.wait_fds()) {
            is_complete &= sleeper.add_device(fd);
            sleeper.devices.push(fd);
        }
        is_complete.then_some(sleeper)
    }

    fn add(&self, fd: RawFd, events: u32, data: u64) -> bool {
        let event = epoll_event { events, u64: data };
        sys::epoll_add(self.fd(), fd, event)
    }

    fn add_device(&self, fd: RawFd) -> bool {
        self.add(fd, IN | EXCLUSIVE, u64::from(fd.cast_unsigned()))
    }

    pub(crate) fn fd(&self) -> c_int {
        self.epoll.as_raw_fd()
    }

    /// From here on all others that sleep are woken rather than this one.
    fn be_last(&self) {
        for fd in &self.devices {
            // A device that has another number since stays where it is.
            if sys::epoll_remove(self.fd(), *fd) {
                self.add_device(*fd);
            }
        }
    }
}

/// One of at most [`MAX`].
#[derive(Debug)]
struct Counted(());

impl Counted {
    fn new() -> Option<Self> {
        let one_more = |count: u32| (count < MAX).then_some(count + 1);
        let counted = COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.is_ok().then_some(Self(()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What woke a sleeper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) kernel: bool,
    pub(crate) waiter: bool,
}

impl Seen {
    /// What the kernel reported.
    pub(crate) fn of(events: &[epoll_event]) -> Self {
        let has = |data: u64| events.iter().any(|event| event.u64 == data);
        Self {
            kernel: has(KERNEL),
            waiter: has(WAITER),
        }
    }
}

/// The device in an event, if it is one's.
pub(crate) fn device(event: &epoll_event) -> Option<RawFd> {
    RawFd::try_from(event.u64).ok()
}

/// The sleepers of an epoll set that nobody sleeps in at the moment.
#[derive(Debug, Default)]
pub(crate) struct ExclusiveSleepers {
    unused: Mutex<Vec<ExclusiveSleeper>>,
    /// How often the set was emptied.
    generation: AtomicU32,
    /// Packets for others that have woken a sleeper of the set, in a row.
    for_others: AtomicU32,
}

impl ExclusiveSleepers {
    /// One for the program's set `epfd`, whose interfaces are those `as_of` some change. `None`: nobody else sleeps, or there are too
    /// many.
    pub(crate) fn take<S: Stack>(
        &self,
        epfd: c_int,
        interfaces: &InterfaceSet<S>,
        as_of: u32,
    ) -> Option<ExclusiveSleeper> {
        if !Waiter::are_several() || interfaces.is_empty() {
            return None;
        }
        let version = Version {
            generation: self.generation.load(Ordering::Acquire),
            as_of,
        };
        let known = self.lock().pop();
        let sleeper = match known {
            Some(known) if known.version == version => known,
            outdated => {
                drop(outdated);
                ExclusiveSleeper::new(epfd, interfaces, version)?
            }
        };
        if self.for_others.load(Ordering::Relaxed) >= OTHERS_MAX {
            self.for_others.store(0, Ordering::Relaxed);
            sleeper.be_last();
        }
        sleeper.waiter.is_taken();
        Some(sleeper)
    }

    /// Nobody sleeps in it any more.
    pub(crate) fn give(&self, sleeper: ExclusiveSleeper, is_readable: bool) {
        sleeper.waiter.is_given_back(is_readable);
        let mut unused = self.lock();
        if sleeper.version.generation == self.generation.load(Ordering::Acquire) {
            unused.push(sleeper);
        }
    }

    /// What has woken a sleeper was for its own set, or not.
    pub(crate) fn note(&self, is_own: bool) {
        let before = self.for_others.load(Ordering::Relaxed);
        let now = if is_own { 0 } else { before.saturating_add(1) };
        if now != before {
            self.for_others.store(now, Ordering::Relaxed);
        }
    }

    /// The set is closed.
    pub(crate) fn clear(&self) {
        let mut unused = self.lock();
        self.generation.fetch_add(1, Ordering::Release);
        unused.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ExclusiveSleeper>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In a forked child, where the descriptors are closed.
pub(crate) fn forget() {
    COUNT.store(0, Ordering::Relaxed);
}
