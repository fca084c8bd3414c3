//! A socket in an epoll set: what the program wants to be told of, and whether it is in the ready
//! list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use libc::{c_int, epoll_event};
use links::reason::Reason;

use crate::mux::MuxStack;
use crate::mux::epoll::{EPOLLONESHOT, EpollSet};
use crate::mux::members::Key;
use crate::sockets::events;
use crate::sockets::readiness::Watcher;
use crate::sockets::stack::{SocketWatcher, Stack};

const EPOLLET: u32 = libc::EPOLLET as u32;
const EPOLLEXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// With these the kernel keeps from one set what it has told another, or tells once only.
const NOT_ALWAYS_TOLD: u32 = EPOLLEXCLUSIVE | EPOLLONESHOT;

/// A socket in a set.
#[derive(Debug)]
pub struct Registration<S: Stack> {
    pub(super) set: &'static EpollSet<S>,
    pub(super) socket: S,
    pub(super) fd: c_int,
    pub(super) events: AtomicU32,
    pub(super) data: AtomicU64,
    /// In the ready list.
    pub(super) queued: AtomicBool,
    /// Not reported before the next `EPOLL_CTL_MOD` (`EPOLLONESHOT`), or removed.
    pub(super) disabled: AtomicBool,
    pub(super) removed: AtomicBool,
    /// The program has taken it out of the set, the kernel has not (`lazy_ctl.rs`).
    pub(super) parked: AtomicBool,
}

/// What becomes of an entry of the ready list that was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It is reported again, as long as the socket is ready.
    Stays,
    /// It comes back with the next packet.
    Leaves,
    /// It comes back with the next `EPOLL_CTL_MOD`, and the kernel's part of the registration is to
    /// be disarmed.
    IsSpent,
}

impl<S: MuxStack> Registration<S> {
    pub(super) fn new(set: &'static EpollSet<S>, socket: S, fd: c_int, event: epoll_event) -> Self {
        Self {
            set,
            socket,
            fd,
            events: AtomicU32::new(event.events),
            data: AtomicU64::new(event.u64),
            queued: AtomicBool::new(false),
            disabled: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            parked: AtomicBool::new(false),
        }
    }

    pub(crate) fn socket(&self) -> S {
        self.socket
    }

    /// The registration is not in the set any more.
    pub(super) fn retire(&self) {
        self.disabled.store(true, Ordering::Relaxed);
        self.removed.store(true, Ordering::Relaxed);
        if self.queued.load(Ordering::Acquire) {
            self.set.ready.forget_stale();
        }
    }

    pub(super) fn key(&self) -> Key {
        Key::of(self.socket.core(), self.fd)
    }

    /// The registration asks for something again. What waits in the socket is ready from here on.
    pub(super) fn armed(self: &Arc<Self>) {
        let bits = self.socket.look();
        if bits != 0 {
            self.became_ready(bits);
            self.set.call_back();
        }
    }

    /// What it wants to be told of.
    pub(super) fn wanted(&self) -> u32 {
        self.events.load(Ordering::Relaxed) | events::ALWAYS
    }

    /// What the kernel is asked for.
    pub(super) fn asked_of_kernel(&self) -> u32 {
        let asked = self.events.load(Ordering::Relaxed);
        match self.socket.core().is_full() {
            true => asked & !events::OUT,
            false => asked,
        }
    }

    /// `EPOLLEXCLUSIVE`
    pub(super) fn is_exclusive(&self) -> bool {
        self.events.load(Ordering::Relaxed) & EPOLLEXCLUSIVE != 0
    }

    /// Whether it is not in the set any more.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Events to report of an entry of the ready list, if the socket is still ready, and what
    /// becomes of the entry.
    pub(super) fn report(&self) -> Option<(epoll_event, After)> {
        let wanted = self.wanted();
        let is_level = wanted & (EPOLLET | EPOLLONESHOT) == 0;
        let mut events = if is_level { self.ready_for(wanted) } else { 0 };
        let mut after = After::Stays;
        if events == 0 {
            // First: what comes from here on queues it again, and what has come before is seen.
            self.queued.swap(false, Ordering::AcqRel);
            events = self.ready_for(wanted);
            if events == 0 && !self.disabled.load(Ordering::Relaxed) {
                events = self.socket.core().unseen.tell_held(wanted);
            }
            if events == 0 {
                return None;
            }
            after = if wanted & EPOLLONESHOT != 0 {
                self.disabled.store(true, Ordering::Relaxed);
                After::IsSpent
            } else if is_level && !self.queued.swap(true, Ordering::AcqRel) {
                After::Stays
            } else {
                After::Leaves
            };
        }
        let event = epoll_event {
            events,
            u64: self.data.load(Ordering::Relaxed),
        };
        Some((event, after))
    }

    #[inline]
    fn ready_for(&self, wanted: u32) -> u32 {
        if self.disabled.load(Ordering::Relaxed) {
            return 0;
        }
        self.socket.core().readiness.report(wanted)
    }
}

impl<S: MuxStack> Watcher for Registration<S> {
    fn became_ready(self: &Arc<Self>, events: u32) {
        if self.wanted() & events != 0
            && !self.disabled.load(Ordering::Relaxed)
            && !self.queued.swap(true, Ordering::AcqRel)
        {
            self.set.ready.push(Arc::clone(self));
            self.set.waiters.wake_all();
        }
    }
}

impl<S: MuxStack> SocketWatcher for Registration<S> {
    /// The socket receives from other interfaces, perhaps.
    fn interfaces_changed(self: &Arc<Self>) {
        let changed = self.set.members().follow_interfaces(self.key());
        self.set.follow(changed);
        let core = self.socket.core();
        if core.readiness.now() != 0 || core.reason() == Reason::SameHost {
            self.set.call_back();
        }
    }

    /// The kernel's part keeps its place in the set, without an event.
    fn silenced(self: &Arc<Self>, is_silent: bool) {
        if !self.set.drop_parked(self) {
            self.set.follow_silence(self, is_silent);
        }
    }

    fn room_changed(self: &Arc<Self>) {
        if self.wanted() & events::OUT != 0 && !self.socket.core().is_silent() {
            self.set.follow_silence(self, false);
        }
    }

    fn leaves_kernel(self: &Arc<Self>) {
        self.set.remove_from_kernel(self);
    }

    fn kernel_told_nsec(&self) -> u64 {
        let asked = self.events.load(Ordering::Relaxed);
        let is_told = asked & events::IN != 0
            && asked & NOT_ALWAYS_TOLD == 0
            && !self.disabled.load(Ordering::Relaxed)
            && !self.socket.core().is_silent();
        if !is_told {
            return 0;
        }
        self.set.kernel_told_nsec.load(Ordering::Acquire)
    }

    /// What the program just read has put the socket among those that a level-triggered wait looks
    /// at. If that came from the kernel, it has done so in the kernel only.
    fn error_is_postponed(self: &Arc<Self>) {
        if self.wanted() & EPOLLET == 0 {
            self.became_ready(events::ERR);
        }
    }

    /// The socket is closed, and with it its place in every set (epoll(7)).
    fn socket_closed(self: &Arc<Self>) {
        let removed = self
            .set
            .members()
            .remove_if(self.key(), |other| std::ptr::eq(other, &raw const **self));
        self.retire();
        if let Some((_, changed)) = removed {
            self.set.follow(changed);
        }
    }
}
