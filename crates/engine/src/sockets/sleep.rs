//! How a thread sleeps: what it watches, until when, and who can wake it.
//!
//! The sleep itself is the application's own `ppoll(2)` or `epoll_pwait2(2)` in the hook, outside
//! of every lock and Rust scope with a destructor, because the thread may be cancelled in it. What
//! is registered stays with the thread then (`held.rs`).
//!
//! A thread that sleeps alone watches everything itself. Of several one leads, in a seat
//! (`seats.rs`), and the others watch what the kernel's sockets have, and are woken by name.

use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::{c_int, c_short};
use links::interface::Interface;
use links::interface::set::InterfaceSet;
use links::wait::{WaitQueue, Waiter};
use links::watch::{self, Rings};
use stats::RingStats;

use crate::cpu_sharing;
use crate::sockets::held::{self, Held};
use crate::sockets::interrupt;
use crate::sockets::kernel_socket::KernelSocket;
use crate::sockets::peers::{PeerNews, Peers};
use crate::sockets::seats::{self, Kernels, Seen};
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

/// Descriptors that fit without further memory.
const INLINE_MAX: usize = 16;
/// How long a thread sleeps at a time that no other thread can wake.
const UNWAKEABLE_NSEC: u64 = 10_000_000;

/// A sleep that is prepared; pass [`Sleep::fds`] to `ppoll(2)`, then call [`Sleep::end`].
#[derive(Debug)]
pub struct Sleep {
    fds: ManuallyDrop<Vec<libc::pollfd>>,
    /// The same descriptors as the first of `fds`, those of the program.
    kernels: ManuallyDrop<Vec<Kernels>>,
    deadline_nsec: Option<u64>,
    registered: ManuallyDrop<Vec<Registered>>,
    rings: ManuallyDrop<Vec<&'static dyn Rings>>,
    /// Descriptors of devices, and what counts the wake-ups by them.
    devices: ManuallyDrop<Vec<(RawFd, &'static RingStats)>>,
    /// It does not watch the devices from which streams come, for a while.
    naps: bool,
    /// The eventfd by which others wake the thread. None where the program has no descriptor left.
    /// The devices and the kernel's sockets wake the thread even so; what another thread has taken
    /// from a device it finds when a short sleep ends.
    waiter: Option<c_int>,
    /// The epoll instance that the thread sleeps in.
    seat: Option<c_int>,
    /// What the thread has, if it cannot keep that itself.
    held: ManuallyDrop<Option<Box<Held>>>,
    /// What the kernel reported of the seat.
    seen: Option<Seen>,
    /// The kernel has said of each descriptor what it is ready for.
    is_polled: bool,
    /// By which processes wake the thread that memory is shared with.
    peers: Option<(c_int, &'static dyn PeerNews)>,
}

/// What a thread that has slept has to look at.
#[derive(Clone, Copy, Debug)]
pub struct Woken {
    /// What the kernel's sockets have.
    pub(crate) kernel: bool,
}

/// Where a sleeper is to be found by those who wake it.
#[derive(Debug)]
struct Registered {
    sleepers: &'static WaitQueue,
    /// That of a socket, whose kernel socket may be what wakes the thread.
    kernel_socket: Option<&'static KernelSocket>,
}

impl Sleep {
    /// A sleep until `deadline_nsec` on the monotonic clock, or without end. What it watches comes
    /// next, then [`Sleep::settle`].
    pub(crate) fn new(deadline_nsec: Option<u64>) -> Self {
        Self {
            fds: ManuallyDrop::new(Vec::with_capacity(INLINE_MAX)),
            kernels: ManuallyDrop::new(Vec::new()),
            deadline_nsec,
            registered: ManuallyDrop::new(Vec::new()),
            rings: ManuallyDrop::new(Vec::new()),
            devices: ManuallyDrop::new(Vec::new()),
            naps: false,
            waiter: None,
            seat: None,
            held: ManuallyDrop::new(None),
            seen: None,
            is_polled: false,
            peers: None,
        }
    }

    /// Leaves the packets of streams alone for as long, then looks whether some have come.
    pub(crate) fn nap<S: Stack>(&mut self, nsec: u64, interfaces: &InterfaceSet<S>) {
        let end = sys::now_nsec().saturating_add(nsec);
        self.deadline_nsec = Some(self.deadline_nsec.map_or(end, |deadline| deadline.min(end)));
        self.naps = true;
        for fd in interfaces.iter().flat_map(Interface::stream_wait_fds) {
            self.devices.retain(|(watched, _)| *watched != fd);
        }
    }

    /// Also wakes when the kernel reports `events` of a descriptor. `of`: which life of which
    /// object it stands for, if that is known.
    pub(crate) fn watch(&mut self, fd: c_int, events: c_short, of: Option<(usize, u32)>) {
        if fd < 0 {
            return;
        }
        self.push(fd, events);
        self.kernels.push(Kernels {
            fd,
            events: u32::from(events.cast_unsigned()),
            of,
        });
    }

    fn push(&mut self, fd: c_int, events: c_short) {
        self.fds.push(libc::pollfd {
            fd,
            events,
            revents: 0,
        });
    }

    /// Also wakes when something happens to a socket.
    pub(crate) fn watch_socket<S: Stack>(&mut self, socket: &'static SocketCore<S>) {
        let sleepers = &socket.readiness.sleepers;
        self.register(sleepers, Some(&socket.kernel_socket), &socket.interfaces);
    }

    /// Also wakes when something happens to a set of sockets.
    pub(crate) fn watch_set<S: Stack>(
        &mut self,
        sleepers: &'static WaitQueue,
        interfaces: &InterfaceSet<S>,
    ) {
        self.register(sleepers, None, interfaces);
    }

    /// Also wakes when a process has news that memory is shared with. To be said last before
    /// [`settle`](Self::settle).
    pub(crate) fn watch_peers<S: Stack>(&mut self, peers: &'static Peers<S>) {
        self.peers = peers.wake_fd().map(|fd| (fd, peers as &dyn PeerNews));
    }

    fn register<S: Stack>(
        &mut self,
        sleepers: &'static WaitQueue,
        kernel_socket: Option<&'static KernelSocket>,
        interfaces: &InterfaceSet<S>,
    ) {
        self.registered.push(Registered {
            sleepers,
            kernel_socket,
        });
        for interface in interfaces.iter() {
            let rings: &'static dyn Rings = interface;
            if !self.rings.iter().any(|it| std::ptr::addr_eq(*it, rings)) {
                self.rings.push(rings);
                self.devices.extend(interface.counted_wait_fds());
            }
        }
    }

    /// Everything is said. From here on others can wake the thread; the caller looks at the sockets
    /// once more before it sleeps. `again`: the call has slept before.
    pub(crate) fn settle(&mut self, again: bool) {
        if !again {
            cpu_sharing::sleeps();
        }
        let mut held = Box::new(self.place(again));
        let waiter = match &held.seat {
            Some(seat) => Some(Arc::clone(&seat.waiter)),
            None => held.waiter.clone(),
        };
        self.seat = held.seat.as_ref().map(|seat| seat.fd());
        self.waiter = waiter.as_ref().map(|waiter| waiter.fd());
        if let Some(waiter) = &waiter {
            for registered in &*self.registered {
                registered.sleepers.add(waiter);
                held.queues.push(registered.sleepers);
            }
        }
        if let Some((_, peers)) = self.peers {
            peers.sleeps();
            held.peers = Some(peers);
        }
        let follows = !held.followed.is_empty();
        if self.seat.is_none() {
            let peers = self.peers.map(|(fd, _)| fd);
            let wakers = self.waiter.into_iter().chain(peers);
            for fd in wakers.chain(interrupt::wakes_all()) {
                self.push(fd, libc::POLLIN);
            }
            if !follows {
                for index in 0..self.devices.len() {
                    let (fd, _) = self.devices[index];
                    self.push(fd, libc::POLLIN);
                }
            }
        }
        *self.held = held::keep(held).err();
        if follows
            && !watch::is_possible()
            && let Some(waiter) = waiter
        {
            // The internal thread has ended meanwhile.
            waiter.wake();
        }
    }

    /// Whether the thread leads or follows, and what it has for that. Neither: it watches all
    /// devices, whoever else does.
    fn place(&self, again: bool) -> Held {
        let mut held = Held::default();
        let is_for_itself =
            self.rings.is_empty() || self.naps || self.peers.is_some() || !watch::is_possible();
        let may_lead = !(is_for_itself || again && held::makes_way());
        if may_lead {
            let lead = |rings: &&&'static dyn Rings| rings.lead().take();
            (held.led, held.followed) = self.rings.iter().partition(lead);
            let is_alone = |rings: &&'static dyn Rings| rings.lead().is_alone();
            if held.followed.is_empty() && held.led.iter().all(is_alone) {
                held.waiter = Waiter::take();
                return held;
            }
            if !held.led.is_empty() {
                held.seat = seats::take(&held.led, &self.kernels);
            }
            if held.seat.is_none() {
                held.led.drain(..).for_each(|rings| rings.lead().leave());
            }
        }
        if held.seat.is_none() {
            held.waiter = Waiter::take();
            let is_woken_by_others = !is_for_itself && held.waiter.is_some();
            held.followed = match is_woken_by_others {
                true => self.rings.to_vec(),
                false => Vec::new(),
            };
        }
        held.followed.iter().for_each(|rings| watch::follow(*rings));
        held
    }

    /// The epoll instance to sleep in with `epoll_pwait2(2)` instead of [`Self::fds`], if there is
    /// one. What it reports is for [`Self::reported`].
    pub fn epoll(&self) -> Option<c_int> {
        self.seat
    }

    /// What the epoll instance has reported.
    pub fn reported(&mut self, events: &[libc::epoll_event]) {
        let fds = &mut *self.fds;
        let seen = held::with(&mut self.held, |held| {
            let seat = held.seat.as_mut();
            seat.map(|seat| seat.reported(events, fds))
        });
        self.seen = seen.flatten();
    }

    /// `epoll_pwait2(2)` is refused: [`Self::fds`] has the same from here on.
    pub fn epoll_is_refused(&mut self) {
        seats::note_refusal();
        if let Some(seat) = self.seat.take() {
            self.push(seat, libc::POLLIN);
        }
    }

    /// The kernel has reported what [`Self::fds`] are ready for, or that none is.
    pub fn polled(&mut self) {
        self.is_polled = true;
    }

    /// What to watch.
    pub fn fds(&mut self) -> &mut [libc::pollfd] {
        &mut self.fds
    }

    /// How long to sleep from now on; `None` without end.
    pub fn timeout(&self) -> Option<libc::timespec> {
        let left = |deadline: u64| deadline.saturating_sub(sys::now_nsec());
        let left_nsec = match (self.deadline_nsec.map(left), self.waiter) {
            (left, Some(_)) => left,
            (left, None) => Some(left.unwrap_or(u64::MAX).min(UNWAKEABLE_NSEC)),
        };
        left_nsec.map(sys::timespec_of_nsec)
    }

    /// To be called before the last look at the signal handlers that ran: from here on a handler
    /// ends the sleep.
    pub fn begins(&self) {
        // A sleep that nobody can wake is short.
        if let Some(waiter) = self.waiter {
            interrupt::sleep_begins(waiter);
        }
    }

    /// Ends the sleep.
    pub fn end(self) -> Woken {
        interrupt::sleep_ends();
        for registered in &*self.registered {
            if let Some(kernel_socket) = registered.kernel_socket
                && is_ready(&self.fds, kernel_socket.fd.load(Ordering::Relaxed))
            {
                kernel_socket.readable_hint.store(true, Ordering::Relaxed);
            }
        }
        let peers = self.peers.filter(|(fd, _)| is_ready(&self.fds, *fd));
        if let Some((fd, _)) = peers {
            sys::drain_eventfd(fd);
        }
        let by_device = self.count_wake_ups();
        let kernel = match self.seen {
            Some(seen) => seen.kernel,
            None => !self.is_polled || self.fds.iter().any(|fd| self.is_kernels(fd)),
        };
        let is_readable = match (self.seen, self.waiter) {
            (Some(seen), _) => seen.waiter,
            // A handler's is left to the next who sleeps in it.
            (None, Some(_)) if self.seat.is_some() => false,
            (None, Some(waiter)) => is_ready(&self.fds, waiter),
            (None, None) => false,
        };
        held::awakes(by_device && !self.rings.iter().any(|rings| rings.have_waiting()));
        let held = ManuallyDrop::into_inner(self.held);
        if let Some(held) = held.or_else(held::take) {
            held.give_back(is_readable);
        }
        if let Some((_, peers)) = peers {
            peers.hear();
        }
        drop(ManuallyDrop::into_inner(self.registered));
        drop(ManuallyDrop::into_inner(self.rings));
        drop(ManuallyDrop::into_inner(self.devices));
        drop(ManuallyDrop::into_inner(self.kernels));
        drop(ManuallyDrop::into_inner(self.fds));
        Woken { kernel }
    }

    /// Returns whether a device has woken the thread.
    fn count_wake_ups(&self) -> bool {
        let mut counted = None;
        for (fd, stats) in &*self.devices {
            // The descriptors of a ring follow each other: it counts once.
            let is_counted = counted.is_some_and(|counted| std::ptr::eq(counted, *stats));
            if !is_counted && is_ready(&self.fds, *fd) {
                stats.rx_wakeups.add_contended(1);
                counted = Some(*stats);
            }
        }
        counted.is_some()
    }

    /// Whether a descriptor is ready that is neither a device nor another thread's call.
    fn is_kernels(&self, polled: &libc::pollfd) -> bool {
        polled.revents != 0
            && Some(polled.fd) != self.waiter
            && self.peers.is_none_or(|(fd, _)| polled.fd != fd)
            && !self.devices.iter().any(|(fd, _)| *fd == polled.fd)
    }
}

fn is_ready(fds: &[libc::pollfd], fd: c_int) -> bool {
    fds.iter()
        .any(|polled| polled.fd == fd && polled.revents != 0)
}
