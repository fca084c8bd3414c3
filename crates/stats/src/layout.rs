//! Where everything lies in a segment.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::error::CreateError;
use crate::field::Text;
use crate::sections::{SECTIONS, SectionKind, with_sections};

/// Changes when a reader of the old layout would misread the new one.
pub const LAYOUT_MAJOR: u32 = 1;
/// Changes when fields or sections are appended.
pub const LAYOUT_MINOR: u32 = 7;

/// The most entries a section may have, for writer and reader alike: it bounds what a hostile file
/// can make a reader do.
pub const MAX_ENTRIES: u32 = 65_536;
/// The largest entry a reader accepts, bytes.
pub(crate) const MAX_ENTRY_BYTES: u32 = 4096;
/// The most rows of the section table that a reader looks at.
pub(crate) const MAX_SECTIONS: u32 = 64;
/// The largest file a reader maps.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 30;

/// How many of the sockets that were closed last are kept.
pub const CLOSED_SOCKETS: u32 = 32;
/// How many sockets that are never accelerated are listed.
pub const KERNEL_SOCKETS: u32 = 256;
/// How many notes there can be.
pub const NOTES: u32 = 32;
/// How many epoll sets are shown, with poll and select.
pub const MULTIPLEXERS: u32 = 64;
/// How many receive queues are shown.
pub const QUEUES: u32 = 64;
/// How many memberships in multicast groups are shown.
pub const GROUPS: u32 = 1024;
/// How many of the last events are kept.
pub const EVENTS: u32 = 256;
/// Connections get memory for this many entries at a time: there is room for many, of which most
/// processes have few.
pub(crate) const GROWTH: u32 = 64;

/// First eight bytes of a segment, as they lie in the file. Stored last: a file that is still being
/// made is not recognized.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"vmastat\x01");

/// Entries and slots of different users never share a cache line.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// How many entries each section gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub sockets: u32,
    /// TCP connections in user space.
    pub connections: u32,
    pub rings: u32,
    pub pools: u32,
    /// Reason codes are 0 up to this number, exclusive.
    pub reasons: u32,
    /// Parameters of the library.
    pub settings: u32,
    /// Rules of `libvma.conf`.
    pub rules: u32,
}

/// Start of the segment. Fields are appended in minor versions; the section table is found through
/// `table_offset`, so the header may grow.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) major: AtomicU32,
    pub(crate) minor: AtomicU32,
    pub(crate) total_bytes: AtomicU64,
    pub(crate) pid: AtomicU32,
    /// Rows of the section table.
    pub(crate) table_rows: AtomicU32,
    /// Start of the process since boot, clock ticks (field 22 of /proc/PID/stat); 0 = not known.
    pub(crate) start_time_ticks: AtomicU64,
    pub(crate) table_offset: AtomicU32,
    pub(crate) table_row_bytes: AtomicU32,
    pub(crate) library_version: Text<8>,
    pub(crate) program: Text<8>,
}

/// A row of the section table.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct SectionRow {
    pub(crate) kind: AtomicU32,
    pub(crate) entry_bytes: AtomicU32,
    pub(crate) entries: AtomicU32,
    /// Entries that have memory: those behind have never been used, and a reader that looked at
    /// them would give them some. 0: all (a writer before version 1.6).
    pub(crate) allocated: AtomicU32,
    /// From the start of the segment, bytes, a multiple of a cache line.
    pub(crate) offset: AtomicU64,
    /// Claims that found the section full (of sections without claims: what is beyond it).
    pub(crate) overflowed: AtomicU64,
}

const _: () = assert!(offset_of!(Header, magic) == 0);
const _: () = assert!(offset_of!(Header, major) == 8);
const _: () = assert!(offset_of!(Header, minor) == 12);
const _: () = assert!(offset_of!(Header, total_bytes) == 16);
const _: () = assert!(offset_of!(Header, pid) == 24);
const _: () = assert!(offset_of!(Header, table_rows) == 28);
const _: () = assert!(offset_of!(Header, start_time_ticks) == 32);
const _: () = assert!(offset_of!(Header, table_offset) == 40);
const _: () = assert!(offset_of!(Header, table_row_bytes) == 44);
const _: () = assert!(offset_of!(Header, library_version) == 48);
const _: () = assert!(offset_of!(Header, program) == 112);
const _: () = assert!(size_of::<Header>() == 192);
const _: () = assert!(offset_of!(SectionRow, allocated) == 12);
const _: () = assert!(offset_of!(SectionRow, offset) == 16);
const _: () = assert!(offset_of!(SectionRow, overflowed) == 24);
const _: () = assert!(size_of::<SectionRow>() == 32);

/// One section of a segment that is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    pub(crate) kind: SectionKind,
    pub(crate) entry_bytes: u32,
    pub(crate) entries: u32,
    /// Entries that have memory from the start.
    pub(crate) allocated: u32,
    pub(crate) offset: usize,
}

/// Offsets of everything in a segment that is to be made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) table_offset: u32,
    /// In the order of [`SECTIONS`].
    pub(crate) places: Vec<Placement>,
    /// What has memory from the start: everything but the entries that get it when they are needed,
    /// which lie behind.
    pub(crate) allocated_bytes: usize,
    /// A multiple of a cache line.
    pub(crate) total_bytes: usize,
}

/// Kind, size of an entry, and entries asked for, of each section.
macro_rules! asked {
    ($( $kind:ident = $number:literal, $name:ident: $stats:ident => $snapshot:ident,
        $mode:ident $( by $claim:ident -> $slot:ident )?,
        $entries:expr, $told:expr, $order:expr, $help:literal; )*) => {
        fn asked(capacity: &Capacity) -> [(SectionKind, u32, u32); SECTIONS.len()] {
            let count = |entries: fn(&Capacity) -> u32| entries(capacity);
            [ $( (SectionKind::$kind, bytes_of::<crate::schema::$stats>(), count($entries)), )* ]
        }
    };
}

with_sections!(asked);

impl Plan {
    pub(crate) fn new(capacity: Capacity) -> Result<Self, CreateError> {
        for (kind, _, entries) in asked(&capacity) {
            if entries > MAX_ENTRIES {
                return Err(CreateError::Capacity {
                    section: kind.name(),
                    entries,
                    most: MAX_ENTRIES,
                });
            }
        }
        Ok(Self::at_most(capacity))
    }

    /// With no more than [`MAX_ENTRIES`] entries in any section.
    pub(crate) fn at_most(capacity: Capacity) -> Self {
        let table_offset = bytes_of::<Header>();
        let mut end = line_up(table_offset as usize + SECTIONS.len() * size_of::<SectionRow>());
        // No sum overflows: a section has at most MAX_ENTRIES entries of a few thousand bytes.
        let mut places = asked(&capacity).map(|(kind, entry_bytes, entries)| {
            let entries = entries.min(MAX_ENTRIES);
            let allocated = if grows(kind) {
                entries.min(GROWTH)
            } else {
                entries
            };
            Placement {
                kind,
                entry_bytes,
                entries,
                allocated,
                offset: 0,
            }
        });
        let mut allocated_bytes = end;
        for grown in [false, true] {
            for place in places.iter_mut().filter(|it| grows(it.kind) == grown) {
                let bytes = |entries| place.entry_bytes as usize * entries as usize;
                place.offset = end;
                allocated_bytes = line_up(end + bytes(place.allocated));
                end = line_up(end + bytes(place.entries));
            }
        }
        Self {
            table_offset,
            places: places.to_vec(),
            allocated_bytes,
            total_bytes: end,
        }
    }

    /// For a system that cannot give entries their memory later.
    pub(crate) fn allocate_all(&mut self) {
        for place in &mut self.places {
            place.allocated = place.entries;
        }
        self.allocated_bytes = self.total_bytes;
    }
}

/// Whether a section's entries get their memory as they are needed. One does: it lies at the end.
fn grows(kind: SectionKind) -> bool {
    kind == SectionKind::TcpConnections
}

/// The size of a structure of the segment, as the file holds it.
#[allow(clippy::cast_possible_truncation, reason = "asserted to fit")]
pub(crate) const fn bytes_of<T>() -> u32 {
    assert!(size_of::<T>() <= MAX_ENTRY_BYTES as usize);
    size_of::<T>() as u32
}

fn line_up(bytes: usize) -> usize {
    bytes.next_multiple_of(CACHE_LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_sections_follow_each_other_on_cache_lines() {
        let plan = Plan::new(Capacity {
            sockets: 3,
            connections: 3,
            rings: 0,
            pools: 2,
            reasons: 5,
            settings: 7,
            rules: 1,
        })
        .unwrap();
        let mut end = plan.table_offset as usize + SECTIONS.len() * size_of::<SectionRow>();
        let mut places = plan.places.clone();
        places.sort_by_key(|it| it.offset);
        assert_eq!(places.last().unwrap().kind, SectionKind::TcpConnections);
        for place in &places {
            assert!(
                place.offset >= end,
                "{:?} overlaps what is in front of it",
                place.kind
            );
            assert_eq!(place.offset % CACHE_LINE_BYTES, 0);
            assert_eq!(place.entry_bytes as usize % CACHE_LINE_BYTES, 0);
            end = place.offset + place.entry_bytes as usize * place.entries as usize;
        }
        assert_eq!(plan.total_bytes, end);
    }

    #[test]
    fn plan_largest_capacity_is_readable() {
        let most = Capacity {
            sockets: MAX_ENTRIES,
            connections: MAX_ENTRIES,
            rings: MAX_ENTRIES,
            pools: MAX_ENTRIES,
            reasons: MAX_ENTRIES,
            settings: MAX_ENTRIES,
            rules: MAX_ENTRIES,
        };
        assert!(Plan::new(most).unwrap().total_bytes as u64 <= MAX_FILE_BYTES);
        let beyond = Capacity {
            pools: MAX_ENTRIES + 1,
            ..most
        };
        assert!(matches!(
            Plan::new(beyond),
            Err(CreateError::Capacity { section: "pools", entries, most: MAX_ENTRIES })
                if entries == MAX_ENTRIES + 1
        ));
    }
}
