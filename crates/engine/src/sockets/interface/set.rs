//! The interfaces of a socket or an epoll set.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::Interface;
use crate::sockets::direct::DirectReceive;
use crate::sockets::stack::Stack;
use crate::sys;

/// Interfaces of one [`Part`]: more than most hosts have.
const PART_LEN: usize = 8;

/// Any number of interfaces, read without a lock.
pub(crate) struct InterfaceSet<S: Stack> {
    count: AtomicUsize,
    /// When [`InterfaceSet::drain_at_rate`] last did so.
    drained_nsec: AtomicU64,
    first: Part<S>,
}

/// Some of them, and where the others are. A part lives as long as its set.
struct Part<S: Stack> {
    slots: [AtomicPtr<Interface<S>>; PART_LEN],
    next: AtomicPtr<Self>,
}

impl<S: Stack> Part<S> {
    const fn new() -> Self {
        Self {
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; PART_LEN],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&Self> {
        // SAFETY: null, or a leaked box that is freed with the set, which `self` is borrowed from.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    fn next_or_new(&self) -> &Self {
        if let Some(next) = self.next() {
            return next;
        }
        let next = Box::into_raw(Box::new(Self::new()));
        self.next.store(next, Ordering::Release);
        // SAFETY: as in `next`.
        unsafe { &*next }
    }
}

impl<S: Stack> Drop for Part<S> {
    fn drop(&mut self) {
        let next = *self.next.get_mut();
        if !next.is_null() {
            // SAFETY: it comes from Box::into_raw (see `next_or_new`), and nobody else has the set any more.
            drop(unsafe { Box::from_raw(next) });
        }
    }
}

impl<S: Stack> InterfaceSet<S> {
    pub(crate) const fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            drained_nsec: AtomicU64::new(0),
            first: Part::new(),
        }
    }

    /// Adds an interface, once. Calls must not overlap.
    pub(crate) fn add(&self, interface: &'static Interface<S>) {
        if self.iter().any(|other| ptr::eq(other, interface)) {
            return;
        }
        let count = self.count.load(Ordering::Relaxed);
        let mut part = &self.first;
        for _ in 0..count / PART_LEN {
            part = part.next_or_new();
        }
        let interface = ptr::from_ref(interface).cast_mut();
        part.slots[count % PART_LEN].store(interface, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    pub(crate) fn clear(&self) {
        self.count.store(0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Interface<S>> + '_ {
        let count = self.count.load(Ordering::Acquire);
        let few = &self.first.slots[..count.min(PART_LEN)];
        let second = self.first.next().filter(|_| count > PART_LEN);
        let more = std::iter::successors(second, |part| part.next())
            .flat_map(|part| &part.slots)
            .take(count.saturating_sub(PART_LEN));
        few.iter().chain(more).filter_map(|slot| {
            // SAFETY: only `&'static Interface` are stored (see `add`), and null becomes None.
            unsafe { slot.load(Ordering::Relaxed).as_ref() }
        })
    }

    /// Polls every interface once, see [`Interface::poll_for`].
    #[inline]
    pub(crate) fn poll_for(&self, direct: &mut Option<DirectReceive<'_, '_, S>>) -> usize {
        self.iter()
            .map(|interface| interface.poll_for(direct))
            .sum()
    }

    /// Polls every interface once. Returns the number of frames.
    #[inline]
    pub(crate) fn poll(&self) -> usize {
        self.iter().map(Interface::poll).sum()
    }

    /// Receives all that has come so far, for calls that do not wait: what arrived before them must not be missed because
    /// others' frames lie before it.
    #[inline]
    pub(crate) fn drain(&self) -> usize {
        self.iter().map(Interface::poll_all).sum()
    }

    /// The same, unless it was done less than `nsec` nanoseconds ago.
    #[cold]
    pub(crate) fn drain_at_rate(&self, nsec: u64) {
        let now = sys::now_nsec();
        if now.saturating_sub(self.drained_nsec.load(Ordering::Relaxed)) >= nsec {
            self.drained_nsec.store(now, Ordering::Relaxed);
            self.drain();
        }
    }

    /// The same where a look at the rings finds anything: for calls that act on what has come, and mostly find nothing.
    #[inline]
    pub(crate) fn drain_waiting(&self) {
        for interface in self.iter().filter(|interface| interface.has_waiting()) {
            interface.poll_all();
        }
    }
}

impl<S: Stack> fmt::Debug for InterfaceSet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
