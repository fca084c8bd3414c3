//! How a thread sleeps: what it watches, until when, and who can wake it.
//!
//! The sleep itself is the application's own `ppoll(2)` in the hook, outside of every lock and Rust scope with a destructor,
//! because the thread may be cancelled in it. If that happens, the registration stays behind: the waiter's eventfd is
//! written to now and then and read by nobody.

use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::{c_int, c_short};
use stats::RingStats;

use crate::sockets::exclusive::{self, ExclusiveSleeper, ExclusiveSleepers, Seen};
use crate::sockets::interface::{Interface, InterfaceSet};
use crate::sockets::interrupt;
use crate::sockets::socket::{Shadow, SocketCore};
use crate::sockets::stack::Stack;
use crate::sockets::wait::{WaitQueue, Waiter};
use crate::sys;

/// Descriptors that fit without further memory.
const INLINE_MAX: usize = 16;
/// How long a thread sleeps at a time that no other thread can wake.
const UNWAKEABLE_NSEC: u64 = 10_000_000;

/// A sleep that is prepared; pass [`Sleep::fds`] to `ppoll(2)`, then call [`Sleep::end`].
#[derive(Debug)]
pub struct Sleep {
    fds: ManuallyDrop<Vec<libc::pollfd>>,
    deadline_nsec: Option<u64>,
    /// None where the program has no descriptor left. The devices and the kernel's sockets wake the thread even so; what another
    /// thread has taken from a device it finds when a short sleep ends.
    waiter: ManuallyDrop<Option<Arc<Waiter>>>,
    registered: ManuallyDrop<Vec<Registered>>,
    /// Descriptors of devices, and what counts the wake-ups by them.
    devices: ManuallyDrop<Vec<(RawFd, &'static RingStats)>>,
    /// What the thread sleeps in so that no packet wakes others, too, and where that comes from.
    exclusive: ManuallyDrop<Option<(ExclusiveSleeper, &'static ExclusiveSleepers)>>,
    /// What the kernel reported of that.
    seen: Option<Seen>,
    /// The kernel has said of each descriptor what it is ready for.
    is_polled: bool,
}

/// What a thread that has slept has to look at.
#[derive(Clone, Copy, Debug)]
pub struct Woken {
    /// What the kernel's sockets have.
    pub(crate) kernel: bool,
    /// What has come past the kernel, before anything else: a packet may have woken nobody but this thread.
    pub(crate) devices_first: bool,
}

/// Where a sleeper is to be found by those who wake it.
#[derive(Debug)]
struct Registered {
    sleepers: &'static WaitQueue,
    /// That of a socket, whose kernel's half may be what wakes the thread.
    shadow: Option<&'static Shadow>,
}

impl Sleep {
    /// A sleep until `deadline_nsec` on the monotonic clock, or without end.
    pub(crate) fn new(deadline_nsec: Option<u64>) -> Self {
        let waiter = Waiter::take();
        let wakes = waiter.as_ref().map(|waiter| waiter.fd());
        let mut sleep = Self::with(deadline_nsec, waiter, INLINE_MAX);
        for fd in wakes.into_iter().chain(interrupt::wakes_all()) {
            sleep.watch(fd, libc::POLLIN);
        }
        sleep
    }

    fn with(deadline_nsec: Option<u64>, waiter: Option<Arc<Waiter>>, watched: usize) -> Self {
        Self {
            fds: ManuallyDrop::new(Vec::with_capacity(watched)),
            deadline_nsec,
            waiter: ManuallyDrop::new(waiter),
            registered: ManuallyDrop::new(Vec::new()),
            devices: ManuallyDrop::new(Vec::new()),
            exclusive: ManuallyDrop::new(None),
            seen: None,
            is_polled: false,
        }
    }

    /// The same in `sleeper`, one of `sleepers`, which watches everything but the sockets of the set `of`.
    pub(crate) fn exclusive<S: Stack>(
        deadline_nsec: Option<u64>,
        sleeper: ExclusiveSleeper,
        sleepers: &'static ExclusiveSleepers,
        of: &'static WaitQueue,
        interfaces: &InterfaceSet<S>,
    ) -> Self {
        let waiter = Arc::clone(&sleeper.waiter);
        of.add(&waiter);
        let mut sleep = Self::with(deadline_nsec, Some(waiter), 1);
        // Where `epoll_pwait2(2)` is refused.
        sleep.watch(sleeper.fd(), libc::POLLIN);
        sleep.registered.push(Registered {
            sleepers: of,
            shadow: None,
        });
        for interface in interfaces.iter() {
            sleep.devices.extend(interface.counted_wait_fds());
        }
        sleep.exclusive = ManuallyDrop::new(Some((sleeper, sleepers)));
        sleep
    }

    /// The epoll instance to sleep in with `epoll_pwait2(2)` instead of [`Self::fds`], if there is one. What it reports is for
    /// [`Self::reported`].
    pub fn epoll(&self) -> Option<c_int> {
        self.exclusive.as_ref().map(|(sleeper, _)| sleeper.fd())
    }

    /// What the epoll instance has reported.
    pub fn reported(&mut self, events: &[libc::epoll_event]) {
        self.seen = Some(Seen::of(events));
        for fd in events.iter().filter_map(exclusive::device) {
            let revents = libc::POLLIN;
            self.fds.push(libc::pollfd {
                fd,
                events: revents,
                revents,
            });
        }
    }

    /// The kernel has reported what [`Self::fds`] are ready for, or that none is.
    pub fn polled(&mut self) {
        self.is_polled = true;
    }

    /// Leaves the packets of streams alone for as long, then looks whether some have come.
    pub(crate) fn nap<S: Stack>(&mut self, nsec: u64, interfaces: &InterfaceSet<S>) {
        let end = sys::now_nsec().saturating_add(nsec);
        self.deadline_nsec = Some(self.deadline_nsec.map_or(end, |deadline| deadline.min(end)));
        for fd in interfaces.iter().flat_map(Interface::stream_wait_fds) {
            self.fds.retain(|watched| watched.fd != fd);
        }
    }

    /// Also wakes when the kernel reports `events` of a descriptor.
    pub(crate) fn watch(&mut self, fd: c_int, events: c_short) {
        self.fds.push(libc::pollfd {
            fd,
            events,
            revents: 0,
        });
    }

    /// Also wakes when something happens to a socket. The caller looks at it once more before it sleeps.
    pub(crate) fn watch_socket<S: Stack>(&mut self, socket: &'static SocketCore<S>) {
        let sleepers = &socket.readiness.sleepers;
        self.register(sleepers, Some(&socket.shadow), &socket.interfaces);
        // A call that began before the socket was the kernel's.
        socket.recall_from_descendants();
    }

    /// Also wakes when something happens to a set of sockets. The caller looks at it once more before it sleeps.
    pub(crate) fn watch_set<S: Stack>(
        &mut self,
        sleepers: &'static WaitQueue,
        interfaces: &InterfaceSet<S>,
    ) {
        self.register(sleepers, None, interfaces);
    }

    fn register<S: Stack>(
        &mut self,
        sleepers: &'static WaitQueue,
        shadow: Option<&'static Shadow>,
        interfaces: &InterfaceSet<S>,
    ) {
        if let Some(waiter) = self.waiter.as_ref() {
            sleepers.add(waiter);
        }
        self.registered.push(Registered { sleepers, shadow });
        for interface in interfaces.iter() {
            for (fd, stats) in interface.counted_wait_fds() {
                self.devices.push((fd, stats));
                if !self.fds.iter().any(|watched| watched.fd == fd) {
                    self.watch(fd, libc::POLLIN);
                }
            }
        }
    }

    /// What to watch.
    pub fn fds(&mut self) -> &mut [libc::pollfd] {
        &mut self.fds
    }

    /// How long to sleep from now on; `None` without end.
    pub fn timeout(&self) -> Option<libc::timespec> {
        let left = |deadline: u64| deadline.saturating_sub(sys::now_nsec());
        let left_nsec = match (self.deadline_nsec.map(left), &*self.waiter) {
            (left, Some(_)) => left,
            (left, None) => Some(left.unwrap_or(u64::MAX).min(UNWAKEABLE_NSEC)),
        };
        left_nsec.map(|left| libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        })
    }

    /// To be called before the last look at the signal handlers that ran: from here on a handler ends the sleep.
    pub fn begins(&self) {
        // A sleep that nobody can wake is short.
        if let Some(waiter) = self.waiter.as_ref() {
            interrupt::sleep_begins(waiter.fd());
        }
    }

    /// Ends the sleep.
    pub fn end(self) -> Woken {
        interrupt::sleep_ends();
        for registered in &*self.registered {
            if let Some(shadow) = registered.shadow
                && is_ready(&self.fds, shadow.fd.load(Ordering::Relaxed))
            {
                shadow.readable_hint.store(true, Ordering::Relaxed);
            }
            if let Some(waiter) = self.waiter.as_ref() {
                registered.sleepers.remove(waiter);
            }
        }
        let mut counted = None;
        for (fd, stats) in &*self.devices {
            // The descriptors of a ring follow each other: it counts once.
            let is_counted = counted.is_some_and(|counted| std::ptr::eq(counted, *stats));
            if !is_counted && is_ready(&self.fds, *fd) {
                stats.rx_wakeups.add_contended(1);
                counted = Some(*stats);
            }
        }
        let kernel = match self.seen {
            Some(seen) => seen.kernel,
            None => !self.is_polled || self.fds.iter().any(|fd| self.is_kernels(fd)),
        };
        let exclusive = ManuallyDrop::into_inner(self.exclusive);
        let woken = Woken {
            kernel,
            devices_first: exclusive.is_some(),
        };
        let waiter = ManuallyDrop::into_inner(self.waiter);
        if let Some((sleeper, sleepers)) = exclusive {
            sleepers.give(sleeper, self.seen.is_none_or(|seen| seen.waiter));
        } else if let Some(waiter) = waiter {
            let is_readable = is_ready(&self.fds, waiter.fd());
            Waiter::give(waiter, is_readable);
        }
        drop(ManuallyDrop::into_inner(self.registered));
        drop(ManuallyDrop::into_inner(self.devices));
        drop(ManuallyDrop::into_inner(self.fds));
        woken
    }
}

impl Sleep {
    /// Whether a descriptor is ready that is neither a device nor another thread's call.
    fn is_kernels(&self, polled: &libc::pollfd) -> bool {
        let is_own = |fd| Some(fd) == self.waiter.as_ref().as_ref().map(|waiter| waiter.fd());
        polled.revents != 0
            && !is_own(polled.fd)
            && !self.devices.iter().any(|(fd, _)| *fd == polled.fd)
    }
}

fn is_ready(fds: &[libc::pollfd], fd: c_int) -> bool {
    fds.iter()
        .any(|polled| polled.fd == fd && polled.revents != 0)
}
