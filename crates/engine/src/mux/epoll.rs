//! `epoll(7)`.
//!
//! The application's epoll descriptor stays the kernel's, and every socket of ours is registered there, too: the kernel
//! reports what comes through its own socket, and that sending is possible. Beside it, a set keeps a list of our sockets
//! that have something to read.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockResult};

use libc::{c_int, epoll_event};
use ring::Backend;

use crate::engine::Engine;
use crate::interface::InterfaceSet;
use crate::mux::eviction::Eviction;
use crate::reason::Reason;
use crate::sys::{self, Errno};
use crate::udp::UdpSocket;
use crate::wait::WaitQueue;

const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const WRITABLE: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND) as u32;
const EPOLLET: u32 = libc::EPOLLET as u32;
const EPOLLONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// Registrations by socket and descriptor, as the kernel has them: a number that was closed while its socket lives on through a
/// copy may come into the set again with another socket.
pub(crate) type Members<B> = HashMap<(usize, c_int), Arc<Registration<B>>>;

/// An epoll set with sockets of ours in it. Lives in type-stable memory.
pub struct EpollSet<B: Backend> {
    pub(super) descriptors: AtomicU32,
    pub(super) epfd: AtomicI32,
    /// Inode number behind the descriptors, which tells a set from anything but another anonymous file.
    pub(super) inode: AtomicU64,
    pub(super) members: Mutex<Members<B>>,
    pub(super) ready: Mutex<VecDeque<Arc<Registration<B>>>>,
    /// Entries of the ready list, readable without its lock.
    pub(super) ready_count: AtomicU32,
    pub(crate) waiters: WaitQueue,
    pub(crate) interfaces: InterfaceSet<B>,
    /// The sockets' interfaces have changed since `interfaces` was made.
    pub(super) interfaces_outdated: AtomicBool,
    pub(super) calls: AtomicU32,
    pub(super) kernel_took_all: AtomicBool,
    /// The set is in another one, or is polled: only the kernel can watch it from there, so its sockets are the kernel's.
    pub(super) nested: AtomicBool,
    pub(super) eviction: Eviction,
}

/// A socket in a set.
#[derive(Debug)]
pub(crate) struct Registration<B: Backend> {
    pub(super) set: &'static EpollSet<B>,
    pub(super) socket: &'static UdpSocket<B>,
    pub(super) fd: c_int,
    pub(super) events: AtomicU32,
    pub(super) data: AtomicU64,
    /// In the ready list.
    pub(super) queued: AtomicBool,
    /// Not reported before the next `EPOLL_CTL_MOD` (`EPOLLONESHOT`), or removed.
    pub(super) disabled: AtomicBool,
}

impl<B: Backend> Registration<B> {
    pub(crate) fn socket(&self) -> &'static UdpSocket<B> {
        self.socket
    }

    /// The socket has got a datagram. Under the socket's lock.
    pub(crate) fn socket_readable(self: &Arc<Self>) {
        let wanted = self.events.load(Ordering::Relaxed) & READABLE != 0;
        if wanted
            && !self.disabled.load(Ordering::Relaxed)
            && !self.queued.swap(true, Ordering::AcqRel)
        {
            let mut ready = self.set.ready();
            ready.push_back(Arc::clone(self));
            self.set
                .ready_count
                .store(ready.len() as u32, Ordering::Release);
            drop(ready);
            self.set.waiters.wake_all();
        }
    }

    /// The socket is closed, and with it its place in every set (epoll(7)).
    pub(crate) fn socket_closed(&self) {
        self.disabled.store(true, Ordering::Relaxed);
        self.set
            .members()
            .retain(|_, other| !std::ptr::eq(&raw const **other, self));
        self.interfaces_changed();
    }

    pub(crate) fn interfaces_changed(&self) {
        // A full barrier: the sleeper that this store is for has counted itself before it looked.
        self.set.interfaces_outdated.swap(true, Ordering::SeqCst);
        self.set.waiters.wake_all();
    }

    /// Events to report, if the socket is still readable. Decides whether it stays in the ready list.
    fn report(self: &Arc<Self>) -> Option<(epoll_event, bool)> {
        // Cleared first: what comes from here on queues it again.
        self.queued.store(false, Ordering::Release);
        let wanted = self.events.load(Ordering::Relaxed);
        if wanted & READABLE == 0
            || self.disabled.load(Ordering::Relaxed)
            || self.socket.pending_exact() == 0
        {
            return None;
        }
        if wanted & EPOLLONESHOT != 0 {
            self.disabled.store(true, Ordering::Relaxed);
            // The kernel's half is spent, too.
            self.set.disarm_in_kernel(self);
        }
        let stays =
            wanted & (EPOLLET | EPOLLONESHOT) == 0 && !self.queued.swap(true, Ordering::AcqRel);
        let events = wanted & (READABLE | WRITABLE);
        Some((
            epoll_event {
                events,
                u64: self.data.load(Ordering::Relaxed),
            },
            stays,
        ))
    }
}

impl<B: Backend> EpollSet<B> {
    /// The sockets of the set, if no other thread is changing them.
    pub(crate) fn try_members(&self) -> TryLockResult<MutexGuard<'_, Members<B>>> {
        self.members.try_lock()
    }

    pub(super) fn new() -> Self {
        Self {
            descriptors: AtomicU32::new(0),
            epfd: AtomicI32::new(-1),
            inode: AtomicU64::new(0),
            members: Mutex::new(HashMap::new()),
            ready: Mutex::new(VecDeque::new()),
            ready_count: AtomicU32::new(0),
            waiters: WaitQueue::default(),
            interfaces: InterfaceSet::new(),
            interfaces_outdated: AtomicBool::new(false),
            calls: AtomicU32::new(0),
            kernel_took_all: AtomicBool::new(false),
            nested: AtomicBool::new(false),
            eviction: Eviction::default(),
        }
    }

    /// Threads wait for the set in the kernel: brings them out.
    pub fn evict_kernel_waiters(&self) {
        self.eviction.begin(self.epfd.load(Ordering::Relaxed));
    }

    /// Takes the library's own event out of what the kernel reported; returns how many are left. `is_last`: no thread waits
    /// in the kernel any more.
    pub fn take_out_eviction(&self, events: &mut [epoll_event], is_last: bool) -> usize {
        self.eviction.take_out(events, is_last)
    }

    pub(crate) fn descriptor_added(&self) {
        self.descriptors.fetch_add(1, Ordering::Relaxed);
    }

    /// The descriptor through which the set is asked.
    pub(crate) fn epfd(&self) -> &AtomicI32 {
        &self.epfd
    }

    /// Inode number behind its descriptors.
    pub(crate) fn inode(&self) -> u64 {
        self.inode.load(Ordering::Relaxed)
    }

    /// `true`: it was the last one, and the set is empty now.
    pub(crate) fn descriptor_removed(&self) -> bool {
        if self.descriptors.fetch_sub(1, Ordering::Relaxed) > 1 {
            return false;
        }
        let members = std::mem::take(&mut *self.members());
        for registration in members.values() {
            registration.disabled.store(true, Ordering::Relaxed);
            registration.socket.remove_registration(registration);
        }
        self.ready().clear();
        self.ready_count.store(0, Ordering::Release);
        self.interfaces.clear();
        self.nested.store(false, Ordering::Relaxed);
        self.eviction.end();
        true
    }

    /// Leaves the sockets of the set to the kernel, and those that will come.
    pub(crate) fn leave_sockets_to_kernel(&self, engine: &Engine<B>, reason: Reason) {
        self.nested.store(true, Ordering::Relaxed);
        let sockets: Vec<_> = self
            .members()
            .values()
            .map(|member| member.socket)
            .collect();
        sockets
            .into_iter()
            .for_each(|socket| engine.leave_to_kernel(socket, reason));
    }

    /// Fills `events` with our ready sockets.
    fn collect(&self, events: &mut [epoll_event]) -> usize {
        if self.ready_count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let mut count = 0;
        let candidates = self.ready().len();
        for _ in 0..candidates {
            let Some(slot) = events.get_mut(count) else {
                break;
            };
            let Some(registration) = self.pop_ready() else {
                break;
            };
            if let Some((event, stays)) = registration.report() {
                *slot = event;
                count += 1;
                if stays {
                    self.push_ready(registration);
                    // Whoever sleeps may take it, should this caller leave it.
                    self.waiters.wake_all();
                }
            }
        }
        count
    }

    fn pop_ready(&self) -> Option<Arc<Registration<B>>> {
        let mut ready = self.ready();
        let first = ready.pop_front();
        self.ready_count
            .store(ready.len() as u32, Ordering::Release);
        first
    }

    fn push_ready(&self, registration: Arc<Registration<B>>) {
        let mut ready = self.ready();
        ready.push_back(registration);
        self.ready_count
            .store(ready.len() as u32, Ordering::Release);
    }

    pub(super) fn refresh_interfaces(&self) {
        if !self.interfaces_outdated.swap(false, Ordering::AcqRel) {
            return;
        }
        let members = self.members();
        self.interfaces.clear();
        for interface in members
            .values()
            .flat_map(|member| member.socket.interfaces.iter())
        {
            self.interfaces.add(interface);
        }
    }

    /// Our ready sockets, if there are any. At every `skip`-th call that finds one the kernel comes first, so that its
    /// descriptors do not starve behind ours.
    pub(super) fn ready_events(&self, events: &mut [epoll_event], skip: u32) -> usize {
        if self.ready_count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        // When the kernel's events took every place, it is our turn.
        let ours_first = self.kernel_took_all.swap(false, Ordering::Relaxed);
        if skip == 0 || ours_first || !calls.is_multiple_of(skip) {
            return self.collect(events);
        }
        let kernels = self.kernel_events(events).unwrap_or(0);
        self.kernel_took_all
            .store(kernels == events.len(), Ordering::Relaxed);
        let ours = self.collect(&mut events[kernels..]);
        merge(events, kernels, ours)
    }

    /// What the kernel's part of the set reports.
    pub(super) fn kernel_events(&self, events: &mut [epoll_event]) -> Result<usize, Errno> {
        let found = sys::epoll_now(self.epfd.load(Ordering::Relaxed), events)?;
        let found = self.take_out_eviction(&mut events[..found], false);
        for event in &events[..found] {
            self.kernel_reported(event.u64, event.events & !WRITABLE != 0);
        }
        Ok(found)
    }

    /// Takes the kernel's half of a one-shot registration out of service until the next `EPOLL_CTL_MOD`.
    fn disarm_in_kernel(&self, registration: &Registration<B>) {
        let data = registration.data.load(Ordering::Relaxed);
        let event = epoll_event {
            events: EPOLLONESHOT,
            u64: data,
        };
        sys::epoll_modify(self.epfd.load(Ordering::Relaxed), registration.fd, event);
    }

    /// The kernel's half of the registrations with `data` has reported something: its sockets have something to read, and a
    /// one-shot registration is spent.
    fn kernel_reported(&self, data: u64, readable: bool) {
        let members = self.members();
        let with_data = || {
            members
                .values()
                .filter(|member| member.data.load(Ordering::Relaxed) == data)
        };
        if readable {
            with_data().for_each(|member| {
                member
                    .socket
                    .shadow
                    .readable_hint
                    .store(true, Ordering::Relaxed)
            });
        }
        // Several with the same data cannot be told apart, and one report too many does less harm than one too few.
        let mut candidates = with_data();
        if let (Some(member), None) = (candidates.next(), candidates.next())
            && member.events.load(Ordering::Relaxed) & EPOLLONESHOT != 0
        {
            member.disabled.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn members(&self) -> MutexGuard<'_, Members<B>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ready(&self) -> MutexGuard<'_, VecDeque<Arc<Registration<B>>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn key<B: Backend>(socket: &UdpSocket<B>, fd: c_int) -> (usize, c_int) {
    (std::ptr::from_ref(socket).addr(), fd)
}

/// Merges `count` events behind the first `first` into those. A descriptor is reported once: what carries the same data is
/// the same to the application. Returns the number of events left.
fn merge(events: &mut [epoll_event], first: usize, count: usize) -> usize {
    let (earlier, later) = events.split_at_mut(first);
    let mut kept = 0;
    for index in 0..count {
        let event = later[index];
        let data = event.u64;
        match earlier.iter_mut().find(|other| other.u64 == data) {
            Some(other) => other.events |= event.events,
            None => {
                later[kept] = event;
                kept += 1;
            }
        }
    }
    first + kept
}

impl<B: Backend> fmt::Debug for EpollSet<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpollSet")
            .field("epfd", &self.epfd)
            .finish_non_exhaustive()
    }
}
