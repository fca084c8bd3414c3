//! An entry in the hands of its one user.

use std::ops::Deref;

use crate::lease::Leases;
use crate::mapping::EntryRef;
use crate::schema::Head;
use crate::sections::with_sections;
use crate::segment::Owner;

macro_rules! slots {
    ($( $kind:ident = $number:literal, $name:ident: $stats:ident => $snapshot:ident,
        $mode:ident $( by $claim:ident -> $slot:ident )?,
        $entries:expr, $told:expr, $order:expr, $help:literal; )*) => {
        $( $(
            /// An entry of the section of
            #[doc = concat!($help, ".")]
            pub type $slot = Slot<crate::schema::$stats>;
        )? )*

        const _: () = {
            const fn crosses_threads<T: Send + Sync>() {}
            $( $( crosses_threads::<$slot>(); )? )*
        };
    };
}

with_sections!(slots);

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

    /// The counters for longer than the slot lives, if readers can see them. For objects that may
    /// be touched after their slot was given back: a late count then goes to the entry's next user,
    /// never to freed memory. Readers cannot tell such a count from the next user's own, so it must
    /// stay the exception.
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
            && owner.has_this_memory()
        {
            head.close();
            leases.give_back(*index);
        }
    }
}
