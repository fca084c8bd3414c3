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
use stats::RingSlot;

use crate::sockets::interface::InterfaceSet;
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
    devices: ManuallyDrop<Vec<(RawFd, &'static RingSlot)>>,
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
        let mut sleep = Self {
            fds: ManuallyDrop::new(Vec::with_capacity(INLINE_MAX)),
            deadline_nsec,
            waiter: ManuallyDrop::new(waiter),
            registered: ManuallyDrop::new(Vec::new()),
            devices: ManuallyDrop::new(Vec::new()),
        };
        for fd in wakes.into_iter().chain(interrupt::wakes_all()) {
            sleep.watch(fd, libc::POLLIN);
        }
        sleep
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
            for fd in interface.wait_fds() {
                self.devices.push((fd, interface.stats()));
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
    pub fn end(self) {
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
            // The descriptors of an interface follow each other: it counts once.
            let is_counted = counted.is_some_and(|counted| std::ptr::eq(counted, *stats));
            if !is_counted && is_ready(&self.fds, *fd) {
                stats.rx_wakeups.add_contended(1);
                counted = Some(*stats);
            }
        }
        if let Some(waiter) = ManuallyDrop::into_inner(self.waiter) {
            let is_readable = is_ready(&self.fds, waiter.fd());
            Waiter::give(waiter, is_readable);
        }
        drop(ManuallyDrop::into_inner(self.registered));
        drop(ManuallyDrop::into_inner(self.devices));
        drop(ManuallyDrop::into_inner(self.fds));
    }
}

fn is_ready(fds: &[libc::pollfd], fd: c_int) -> bool {
    fds.iter()
        .any(|polled| polled.fd == fd && polled.revents != 0)
}
