//! The sections of a segment, and what is handed out of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::layout::{GROWTH, SectionRow};
use crate::lease::Leases;
use crate::mapping::{Region, Shared, populate, sys};
use crate::plan::{Placement, Plan};
use crate::schema::Entry;
use crate::sections::with_sections;
use crate::segment::Segment;
use crate::slot::{Place, Slot};

/// The process that may change the segment.
#[derive(Debug)]
pub(crate) struct Owner {
    process: u32,
    /// [`MARK`] in the memory of that process only. `None`: no memory is wiped at a fork here.
    mark: Option<&'static AtomicU32>,
}

const MARK: u32 = 1;

impl Owner {
    /// This process, whose id is `process`.
    pub(super) fn new(process: u32) -> Self {
        let mark = sys::wiped_word();
        if let Some(mark) = mark {
            mark.store(MARK, Ordering::Relaxed);
        }
        Self { process, mark }
    }

    pub(crate) fn is_this_process(&self) -> bool {
        self.process == sys::process_id().cast_unsigned()
    }

    /// The same without a system call. A child of vfork(2), which has its parent's memory, counts
    /// as that.
    #[inline]
    pub(crate) fn has_this_memory(&self) -> bool {
        match self.mark {
            Some(mark) => mark.load(Ordering::Relaxed) == MARK,
            None => self.is_this_process(),
        }
    }
}

macro_rules! written_sections {
    ($( $kind:ident = $number:literal, $name:ident: $stats:ident => $snapshot:ident,
        $mode:ident $( by $claim:ident -> $slot:ident )?,
        $entries:expr, $told:expr, $order:expr, $help:literal; )*) => {
        /// All of them.
        pub(super) struct Sections {
            $( pub(super) $name: Section<crate::schema::$stats>, )*
        }

        impl Sections {
            /// `rows`: those of the section table, in the order of the places.
            pub(super) fn new(region: &Region, plan: &Plan, rows: &'static [SectionRow]) -> Self {
                let mut places = plan.places.iter().zip(rows);
                $( let $name = Section::new(region, places.next()); )*
                Self { $( $name, )* }
            }

            /// Counters and peaks of everything that is in use begin anew.
            pub(super) fn zero(&self) {
                $( self.$name.zero(stringify!($mode) == "described"); )*
            }
        }

        /// Entries for whoever counts in them; see [`Slot`] for what becomes of one that finds no
        /// room.
        impl Segment {
            $( $(
                /// An entry of the section of
                #[doc = concat!($help, ".")]
                pub fn $claim(&self) -> crate::slot::$slot {
                    self.core.sections.$name.claim(&self.core.owner)
                }
            )? )*
        }
    };
}

with_sections!(written_sections);

/// A section.
pub(super) struct Section<E: 'static> {
    pub(super) entries: &'static [E],
    row: Option<&'static SectionRow>,
    leases: Leases,
    growth: Mutex<()>,
}

impl<E: Entry + Shared> Section<E> {
    fn new(region: &Region, place: Option<(&Placement, &'static SectionRow)>) -> Self {
        let slice =
            |(place, _): (&Placement, _)| region.slice(place.offset, place.entries as usize);
        let entries: Option<&'static [E]> = place.and_then(slice);
        debug_assert!(entries.is_some(), "the plan goes beyond the region");
        let entries = entries.unwrap_or_default();
        Self {
            entries,
            row: place.map(|(_, row)| row),
            leases: Leases::new(u32::try_from(entries.len()).unwrap_or(0)),
            growth: Mutex::new(()),
        }
    }

    /// The entries that have memory.
    fn allocated(&self) -> &'static [E] {
        let allocated = self
            .row
            .map_or(0, |row| row.allocated.load(Ordering::Acquire));
        self.entries
            .get(..allocated as usize)
            .unwrap_or(self.entries)
    }

    /// The entries that somebody has claimed.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &'static E> {
        let entries = self.allocated().iter();
        entries.filter(|entry| entry.head().is_open())
    }

    /// Gives the entry memory, if it has none. `false`: there is none to be had.
    #[inline]
    fn allocate(&self, index: u32) -> bool {
        (index as usize) < self.allocated().len() || self.grow(index)
    }

    #[cold]
    fn grow(&self, index: u32) -> bool {
        let _one_at_a_time = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.allocated().len();
        if (index as usize) < from {
            return true;
        }
        let to = (index as usize + 1)
            .next_multiple_of(GROWTH as usize)
            .min(self.entries.len());
        let (Some(row), Some(new)) = (self.row, self.entries.get(from..to)) else {
            return false;
        };
        let has_grown = populate(new).is_ok();
        if has_grown && let Ok(to) = u32::try_from(to) {
            row.allocated.store(to, Ordering::Release);
        }
        has_grown
    }

    /// `all`: also entries that are never claimed.
    fn zero(&self, all: bool) {
        let used = |entry: &&E| all || entry.head().is_open();
        self.allocated().iter().filter(used).for_each(Entry::zero);
    }

    pub(super) fn claim(&'static self, owner: &'static Owner) -> Slot<E> {
        if !owner.has_this_memory() {
            return Slot::overflowed(E::default());
        }
        let Some(index) = self.leases.take() else {
            self.count_overflow();
            return Slot::overflowed(E::default());
        };
        if !self.allocate(index) {
            self.leases.give_back(index);
            self.count_overflow();
            return Slot::overflowed(E::default());
        }
        let Some(entry) = self.entries.get(index as usize) else {
            return Slot::overflowed(E::default());
        };
        entry.reset();
        entry.head().open();
        Slot::published(
            entry,
            Place {
                head: entry.head(),
                leases: &self.leases,
                index,
                owner,
            },
        )
    }

    pub(super) fn count_overflow(&self) {
        if let Some(row) = self.row {
            row.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The entry of a ring for what comes after `before` others: closed, so that it can be written.
/// `None` if the ring has no entries.
pub(super) fn next_of_ring<E: Entry>(entries: &[E], before: u64) -> Option<&E> {
    let place = usize::try_from(before).ok()?.checked_rem(entries.len())?;
    let entry = entries.get(place)?;
    if entry.head().is_open() {
        entry.head().close();
    }
    Some(entry)
}
