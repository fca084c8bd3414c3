//! The interfaces of a socket or an epoll set.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::interface::Interface;
use crate::interface::ring_set::RingSet;
use crate::receiver::{DirectCall, NoCall, Receiver};

/// Interfaces of one [`Part`]: more than most hosts have.
const PART_LEN: usize = 8;

/// Any number of interfaces, and of each the rings that are received by as one's own. Read without
/// a lock.
pub struct InterfaceSet<S: Receiver> {
    count: AtomicUsize,
    /// One of them has several rings.
    has_several_rings: AtomicBool,
    /// When [`InterfaceSet::receive_at_rate`] last did so.
    received_nsec: AtomicU64,
    first: Part<S>,
}

/// An interface and its rings. Their numbers may be older than the interface's being there, or
/// newer: nothing but speed depends on them.
struct Slot<S: Receiver> {
    interface: AtomicPtr<Interface<S>>,
    rings: AtomicU64,
}

/// Some of them, and where the others are. A part lives as long as its set.
struct Part<S: Receiver> {
    slots: [Slot<S>; PART_LEN],
    next: AtomicPtr<Self>,
}

impl<S: Receiver> Slot<S> {
    const fn empty() -> Self {
        Self {
            interface: AtomicPtr::new(ptr::null_mut()),
            rings: AtomicU64::new(0),
        }
    }

    #[inline]
    fn interface(&self) -> Option<&'static Interface<S>> {
        // SAFETY: only `&'static Interface` are stored (see `add`), and null becomes None.
        unsafe { self.interface.load(Ordering::Relaxed).as_ref() }
    }

    #[inline]
    fn rings(&self) -> RingSet {
        RingSet::from_bits(self.rings.load(Ordering::Relaxed))
    }
}

impl<S: Receiver> Part<S> {
    const fn new() -> Self {
        Self {
            slots: [const { Slot::empty() }; PART_LEN],
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

impl<S: Receiver> Drop for Part<S> {
    fn drop(&mut self) {
        let next = *self.next.get_mut();
        if !next.is_null() {
            // SAFETY: it comes from Box::into_raw (see `next_or_new`), and nobody else has the set
            // any more.
            drop(unsafe { Box::from_raw(next) });
        }
    }
}

impl<S: Receiver> InterfaceSet<S> {
    pub const fn none() -> Self {
        Self {
            count: AtomicUsize::new(0),
            has_several_rings: AtomicBool::new(false),
            received_nsec: AtomicU64::new(0),
            first: Part::new(),
        }
    }

    /// Adds an interface, once, and rings of it to those that are there. Calls must not overlap.
    pub fn add(&self, interface: &'static Interface<S>, rings: RingSet) {
        if interface.has_several_rings() {
            self.has_several_rings.store(true, Ordering::Relaxed);
        }
        let known = self.slots().find(|slot| is_of(slot, interface));
        if let Some(slot) = known {
            let rings = slot.rings().with(rings);
            return slot.rings.store(rings.bits(), Ordering::Relaxed);
        }
        let count = self.count.load(Ordering::Relaxed);
        let mut part = &self.first;
        for _ in 0..count / PART_LEN {
            part = part.next_or_new();
        }
        let slot = &part.slots[count % PART_LEN];
        slot.rings.store(rings.bits(), Ordering::Relaxed);
        let interface = ptr::from_ref(interface).cast_mut();
        slot.interface.store(interface, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    /// From here on these rings of an interface, if it is there.
    pub fn set_rings(&self, interface: &Interface<S>, rings: RingSet) {
        if let Some(slot) = self.slots().find(|slot| is_of(slot, interface)) {
            slot.rings.store(rings.bits(), Ordering::Relaxed);
        }
    }

    pub fn clear(&self) {
        self.count.store(0, Ordering::Release);
        self.has_several_rings.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether packets may come by several rings of one interface.
    #[inline]
    pub fn has_several_rings(&self) -> bool {
        self.has_several_rings.load(Ordering::Relaxed)
    }

    #[inline]
    fn slots(&self) -> impl Iterator<Item = &Slot<S>> {
        let count = self.count.load(Ordering::Acquire);
        let few = &self.first.slots[..count.min(PART_LEN)];
        let second = self.first.next().filter(|_| count > PART_LEN);
        let more = std::iter::successors(second, |part| part.next())
            .flat_map(|part| &part.slots)
            .take(count.saturating_sub(PART_LEN));
        few.iter().chain(more)
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'static Interface<S>> + '_ {
        self.slots().filter_map(Slot::interface)
    }

    /// The interfaces, each with its rings.
    #[inline]
    pub fn iter_rings(&self) -> impl Iterator<Item = (&'static Interface<S>, RingSet)> + '_ {
        self.slots()
            .filter_map(|slot| Some((slot.interface()?, slot.rings())))
    }

    /// Polls every interface once, see [`Interface::poll_rings`].
    #[inline]
    pub fn poll_for<D: DirectCall<S>>(&self, direct: &mut Option<D>) -> usize {
        let first = &self.first.slots[0];
        // Mostly there is one.
        if self.count.load(Ordering::Acquire) == 1
            && let Some(interface) = first.interface()
        {
            return interface.poll_rings(first.rings(), direct);
        }
        self.poll_each_for(direct)
    }

    #[inline(never)]
    fn poll_each_for<D: DirectCall<S>>(&self, direct: &mut Option<D>) -> usize {
        self.iter_rings()
            .map(|(interface, rings)| interface.poll_rings(rings, direct))
            .sum()
    }

    /// Polls every interface once. Returns the number of frames.
    #[inline]
    pub fn poll(&self) -> usize {
        self.poll_for(&mut None::<NoCall>)
    }

    /// The same, and all their rings: before a sleep, and where the answer must not wait.
    #[cold]
    pub fn poll_all_rings(&self) -> usize {
        self.iter_rings()
            .map(|(interface, rings)| interface.poll_all_rings(rings))
            .sum()
    }

    /// Receives what has come so far, for calls that do not wait: what arrived before them must not
    /// be missed because others' frames lie before it.
    #[inline]
    pub fn receive_present(&self) -> usize {
        self.iter_rings()
            .map(|(interface, rings)| interface.receive_present(rings))
            .sum()
    }

    /// The same, unless it was done less than `nsec` nanoseconds ago.
    #[cold]
    pub fn receive_at_rate(&self, nsec: u64) {
        let now = sys::now_nsec();
        if now.saturating_sub(self.received_nsec.load(Ordering::Relaxed)) >= nsec {
            self.received_nsec.store(now, Ordering::Relaxed);
            self.receive_present();
        }
    }

    /// The same where a look at the rings finds anything: for calls that act on what has come, and
    /// mostly find nothing.
    #[inline]
    pub fn receive_waiting(&self) {
        for (interface, rings) in self.iter_rings() {
            if interface.has_waiting() {
                interface.receive_present(rings);
            }
        }
    }

    /// Receives all that has come so far, whoever else receives by the same interfaces.
    pub fn drain(&self) -> usize {
        self.iter().map(Interface::drain).sum()
    }
}

fn is_of<S: Receiver>(slot: &Slot<S>, interface: &Interface<S>) -> bool {
    slot.interface()
        .is_some_and(|other| ptr::eq(other, interface))
}

impl<S: Receiver> fmt::Debug for InterfaceSet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
