//! An entry in the hands of its one user.

use std::ops::Deref;

use crate::lease::Leases;
use crate::mapping::EntryRef;
use crate::schema::{
    GroupStats, Head, KernelSocketStats, MultiplexerStats, NoteStats, PoolStats, QueueStats,
    RingStats, SocketStats, TcpStats,
};
use crate::segment::Owner;

/// The counters of one socket.
pub type SocketSlot = Slot<SocketStats>;
/// The counters of one ring.
pub type RingSlot = Slot<RingStats>;
/// The counters of one buffer pool.
pub type PoolSlot = Slot<PoolStats>;
/// The description of a socket that is never accelerated.
pub type KernelSocketSlot = Slot<KernelSocketStats>;
/// The state of one TCP connection.
pub type TcpSlot = Slot<TcpStats>;
/// The counters of one kind of waiting call, or of one epoll set.
pub type MultiplexerSlot = Slot<MultiplexerStats>;
/// The state of one receive queue.
pub type QueueSlot = Slot<QueueStats>;
/// A membership in a multicast group.
pub type GroupSlot = Slot<GroupStats>;
/// A note.
pub(crate) type NoteSlot = Slot<NoteStats>;

/// Derefs to the counters, at the price of a pointer; dropping it gives the entry to the next user.
///
/// A slot does not borrow the segment. When the section was full, or the segment is a parent's, the
/// counters lie in private memory that no reader sees, so the packet path has no special case.
#[derive(Debug)]
pub struct Slot<E> {
    entry: EntryRef<E>,
    place: Option<Place>,
}

/// Where a published entry goes back to.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) head: &'static Head,
    pub(crate) leases: &'static Leases,
    pub(crate) index: u32,
    pub(crate) owner: &'static Owner,
}

impl<E> Slot<E> {
    pub(crate) fn published(entry: &'static E, place: Place) -> Self {
        Self {
            entry: EntryRef::in_region(entry),
            place: Some(place),
        }
    }

    pub(crate) fn overflowed(entry: E) -> Self {
        Self {
            entry: EntryRef::on_heap(entry),
            place: None,
        }
    }

    /// The counters for longer than the slot lives, if readers can see them. For objects that may be
    /// touched after their slot was given back: a late count then goes to the entry's next user, never
    /// to freed memory. Readers cannot tell such a count from the next user's own, so it must stay the
    /// exception.
    pub fn lasting(&self) -> Option<&'static E> {
        self.entry.lasting()
    }

    /// Whether readers can see the entry.
    pub fn is_published(&self) -> bool {
        self.place.is_some()
    }
}

impl<E> Deref for Slot<E> {
    type Target = E;

    #[inline]
    fn deref(&self) -> &E {
        &self.entry
    }
}

impl<E> Drop for Slot<E> {
    fn drop(&mut self) {
        if let Some(Place {
            head,
            leases,
            index,
            owner,
        }) = &self.place
            && owner.is_this_process()
        {
            head.close();
            leases.give_back(*index);
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<SocketSlot>();
    crosses_threads::<RingSlot>();
    crosses_threads::<PoolSlot>();
    crosses_threads::<KernelSocketSlot>();
};
