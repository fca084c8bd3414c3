//! `epoll(7)`.
//!
//! The application's epoll descriptor stays the kernel's, and every socket of ours is registered
//! there, too: the kernel reports what comes through its own socket, and that sending is possible.
//! Beside it, a set keeps a list of our sockets that have something to read.

mod kernel_set;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockResult};

use libc::{c_int, epoll_event};
use links::interface::set::InterfaceSet;
use links::reason::Reason;
use links::wait::WaitQueue;
use stats::MultiplexerSlot;

use crate::mux::MuxStack;
use crate::mux::call::MuxCall;
use crate::mux::counters::MuxCounters;
use crate::mux::eviction::Eviction;
use crate::mux::members::{InterfacesChanged, Key, Members};
use crate::mux::ready_list::{ReadyList, Visit};
use crate::mux::registration::{After, Registration};
use crate::sockets::host::Host;
use crate::sockets::stack::{SocketWatcher, Stack};

pub(super) const EPOLLONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// An epoll set with sockets of ours in it. Lives in type-stable memory.
pub struct EpollSet<S: Stack> {
    pub(super) descriptors: AtomicU32,
    pub(super) epfd: AtomicI32,
    /// Inode number behind the descriptors, which tells a set from anything but another anonymous
    /// file.
    pub(super) inode: AtomicU64,
    pub(super) members: Mutex<Members<S>>,
    pub(super) ready: ReadyList<S>,
    pub(crate) waiters: WaitQueue,
    /// How often the set was closed.
    pub(super) lives: AtomicU32,
    pub(crate) interfaces: InterfaceSet<S>,
    /// How often the sockets' interfaces have changed, and as of which change `interfaces` is.
    interface_changes: AtomicU32,
    pub(super) interfaces_as_of: AtomicU32,
    /// Threads that wait in the kernel, because nothing came past it into the set. One that is
    /// cancelled there counts for ever.
    kernel_waiters: AtomicU32,
    /// A registration is, or was, for one event only: the kernel's reports spend it.
    has_one_shots: AtomicBool,
    pub(super) calls: AtomicU32,
    pub(super) kernel_took_all: AtomicBool,
    /// At which tick the kernel was last asked what its part of the set has, and told all of it.
    pub(super) kernel_told_nsec: AtomicU64,
    /// Why its sockets are the kernel's, 0 if they need not be: it is in another one, is polled, or
    /// is another process's, too. Only the kernel can watch it from there.
    left_for: AtomicU32,
    pub(super) eviction: Eviction,
    pub(super) counters: MuxCounters,
}

impl<S: MuxStack> EpollSet<S> {
    /// The sockets of the set, if no other thread is changing them.
    pub(crate) fn try_members(&self) -> TryLockResult<MutexGuard<'_, Members<S>>> {
        self.members.try_lock()
    }

    /// A set that is nobody's.
    pub(crate) fn new() -> Self {
        Self {
            descriptors: AtomicU32::new(0),
            epfd: AtomicI32::new(-1),
            inode: AtomicU64::new(0),
            members: Mutex::new(Members::new()),
            ready: ReadyList::new(),
            waiters: WaitQueue::default(),
            lives: AtomicU32::new(0),
            interfaces: InterfaceSet::none(),
            interface_changes: AtomicU32::new(0),
            interfaces_as_of: AtomicU32::new(0),
            kernel_waiters: AtomicU32::new(0),
            has_one_shots: AtomicBool::new(false),
            calls: AtomicU32::new(0),
            kernel_took_all: AtomicBool::new(false),
            kernel_told_nsec: AtomicU64::new(0),
            left_for: AtomicU32::new(0),
            eviction: Eviction::default(),
            counters: MuxCounters::new(),
        }
    }

    fn note_one_shot(&self, events: u32) {
        if events & EPOLLONESHOT != 0 {
            self.has_one_shots.store(true, Ordering::Relaxed);
        }
    }

    /// The set is that behind a descriptor from here on.
    pub(crate) fn open(&self, epfd: c_int) {
        self.epfd.store(epfd, Ordering::Relaxed);
        self.inode.store(sys::inode(epfd), Ordering::Relaxed);
        self.descriptors.store(1, Ordering::Relaxed);
    }

    /// Shows readers of the statistics what is counted from here on.
    pub(crate) fn show_counters(&self, slot: MultiplexerSlot) {
        slot.epfd.set(self.epfd.load(Ordering::Relaxed));
        slot.kind.set("epoll");
        self.counters.show(slot);
    }

    /// Its sockets are the kernel's from here on.
    pub(crate) fn leave_for(&self, reason: Reason) {
        self.left_for.store(reason as u32, Ordering::Relaxed);
    }

    /// Why its sockets are the kernel's, if they are.
    pub(crate) fn left_for(&self) -> Option<Reason> {
        let code = self.left_for.load(Ordering::Relaxed) as usize;
        Reason::ALL.get(code).copied().filter(|_| code != 0)
    }

    /// `EPOLL_CTL_ADD`. `is_silent`: the kernel has it as a
    /// [silent one](crate::mux::silent::silent_event).
    pub(crate) fn add(&'static self, socket: S, fd: c_int, event: epoll_event, is_silent: bool) {
        let registration = Arc::new(Registration::new(self, socket, fd, event));
        self.note_one_shot(event.events);
        let core = socket.core();
        let key = Key::of(core, fd);
        // One that left the kernel's set past every hook.
        self.remove_key(key);
        let added = Arc::clone(&registration);
        self.members().insert(key, added, event.u64);
        core.readiness.add_watcher(Arc::clone(&registration));
        // Either this sees that the kernel has the socket, or who gives it to the kernel sees the
        // registration.
        fence(Ordering::SeqCst);
        if core.is_silent() != is_silent {
            self.follow_silence(&registration, !is_silent);
        } else if core.is_full() {
            registration.room_changed();
        }
        registration.armed();
        registration.interfaces_changed();
    }

    /// `EPOLL_CTL_MOD`
    pub(crate) fn modify(&self, socket: S, fd: c_int, event: epoll_event) {
        if let Some(registration) = self.change(Key::of(socket.core(), fd), event) {
            if socket.core().is_silent() {
                self.follow_silence(&registration, true);
            } else if socket.core().is_full() {
                registration.room_changed();
            }
            registration.armed();
        }
    }

    /// `EPOLL_CTL_DEL`
    pub(crate) fn remove(&self, socket: S, fd: c_int) {
        self.remove_key(Key::of(socket.core(), fd));
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

    /// From here on the program's calls are the kernel's: nothing of the library's may be left in
    /// its set.
    pub(crate) fn library_leaves(&self) {
        self.eviction.end(self.epfd.load(Ordering::Relaxed));
    }

    /// `true`: it was the last one, and the set is empty now.
    pub(crate) fn descriptor_removed(&self) -> bool {
        if self.descriptors.fetch_sub(1, Ordering::Relaxed) > 1 {
            return false;
        }
        let members = std::mem::replace(&mut *self.members(), Members::new());
        for registration in members.registrations() {
            registration.disabled.store(true, Ordering::Relaxed);
            registration
                .socket
                .core()
                .readiness
                .remove_watcher(registration);
        }
        self.ready.clear();
        self.interfaces.clear();
        self.lives.fetch_add(1, Ordering::Release);
        self.left_for.store(0, Ordering::Relaxed);
        self.has_one_shots.store(false, Ordering::Relaxed);
        self.kernel_told_nsec.store(0, Ordering::Relaxed);
        self.eviction.end(self.epfd.load(Ordering::Relaxed));
        self.counters.hide();
        true
    }

    /// Leaves the sockets of the set to the kernel, and those that will come.
    pub(crate) fn leave_sockets_to_kernel(&self, host: &Host<S>, reason: Reason) {
        self.leave_for(reason);
        let sockets: Vec<_> = self
            .members()
            .registrations()
            .map(|member| member.socket)
            .collect();
        sockets
            .into_iter()
            .for_each(|socket| host.leave_to_kernel(socket, reason));
    }

    /// Takes a registration out of the set, if it is there.
    fn remove_key(&self, key: Key) {
        let removed = self.members().remove_if(key, |_| true);
        self.end_removed(removed);
    }

    /// The rest of the same. Without the members' lock.
    pub(super) fn end_removed(&self, removed: Option<(Arc<Registration<S>>, InterfacesChanged)>) {
        if let Some((registration, changed)) = removed {
            registration
                .socket
                .core()
                .readiness
                .remove_watcher(&registration);
            registration.retire();
            self.follow(changed);
        }
    }

    pub(super) fn change(&self, key: Key, event: epoll_event) -> Option<Arc<Registration<S>>> {
        self.note_one_shot(event.events);
        let mut members = self.members();
        let registration = Arc::clone(members.get(key)?);
        members.change_data(key, event.u64);
        registration.events.store(event.events, Ordering::Relaxed);
        registration.data.store(event.u64, Ordering::Relaxed);
        registration.disabled.store(false, Ordering::Relaxed);
        Some(registration)
    }

    /// Has threads that wait look at other interfaces from here on.
    pub(super) fn follow(&self, changed: InterfacesChanged) {
        if changed.0 {
            // A full barrier: the sleeper that this is for has counted itself before it looked.
            self.interface_changes.fetch_add(1, Ordering::SeqCst);
            self.waiters.wake_all();
            self.call_back();
        }
    }

    /// Fills `events` with our ready sockets.
    fn collect(&self, events: &mut [epoll_event]) -> usize {
        if self.ready.seems_empty() {
            return 0;
        }
        let mut count = 0;
        let (mut some_stay, mut spent) = (false, Vec::new());
        self.ready.visit(|registration| {
            let Some(slot) = events.get_mut(count) else {
                return Visit::End;
            };
            let Some((event, after)) = registration.report() else {
                return Visit::Leaves;
            };
            *slot = event;
            count += 1;
            match after {
                After::Stays => {
                    some_stay = true;
                    return Visit::Stays;
                }
                After::Leaves => {}
                After::IsSpent => spent.push(Arc::clone(registration)),
            }
            Visit::Leaves
        });
        for registration in spent {
            // The kernel's part is spent, too.
            self.disarm_in_kernel(&registration);
        }
        if some_stay {
            // Whoever sleeps may take it, should this caller leave it.
            self.waiters.wake_all();
        }
        count
    }

    /// Whether the interfaces that are polled are those of the sockets.
    #[inline]
    pub(super) fn knows_interfaces(&self) -> bool {
        let as_of = self.interfaces_as_of.load(Ordering::Acquire);
        as_of == self.interface_changes.load(Ordering::SeqCst)
    }

    /// Finds out which interfaces are to be polled, if that has changed.
    #[inline]
    pub fn refresh_interfaces(&self) {
        if !self.knows_interfaces() {
            self.look_for_interfaces();
        }
    }

    #[cold]
    fn look_for_interfaces(&self) {
        let members = self.members();
        let as_of = self.interface_changes.load(Ordering::SeqCst);
        self.interfaces.clear();
        for (interface, rings) in members.interfaces() {
            self.interfaces.add(interface, rings);
        }
        // Last: nobody else is to take a list for complete that is being made.
        self.interfaces_as_of.store(as_of, Ordering::Release);
    }

    /// Our ready sockets, if there are any. At every `skip`-th call that finds one and has not
    /// asked the kernel before, the kernel comes first, so that its descriptors do not starve
    /// behind ours.
    #[inline]
    pub(super) fn ready_events(
        &self,
        call: &MuxCall,
        events: &mut [epoll_event],
        skip: u32,
    ) -> usize {
        if self.ready.seems_empty() {
            return 0;
        }
        if skip == 0 || !call.may_hide_kernels() {
            return self.collect(events);
        }
        self.ready_events_in_turn(events, skip)
    }

    fn ready_events_in_turn(&self, events: &mut [epoll_event], skip: u32) -> usize {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        // When the kernel's events took every place, it is our turn.
        let ours_first = self.kernel_took_all.swap(false, Ordering::Relaxed);
        if ours_first || !calls.is_multiple_of(skip) {
            return self.collect(events);
        }
        let kernels = self.kernel_events(events).unwrap_or(0);
        self.kernel_took_all
            .store(kernels == events.len(), Ordering::Relaxed);
        let ours = self.collect(&mut events[kernels..]);
        merge(events, kernels, ours)
    }

    pub(super) fn members(&self) -> MutexGuard<'_, Members<S>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Merges `count` events behind the first `first` into those. A descriptor is reported once: what
/// carries the same data is the same to the application. Returns the number of events left.
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

impl<S: Stack> fmt::Debug for EpollSet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpollSet")
            .field("epfd", &self.epfd)
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}
