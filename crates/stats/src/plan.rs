//! Where everything lies in a segment that is to be made.

use crate::cache_line::CACHE_LINE_BYTES;
use crate::error::CreateError;
use crate::layout::{GROWTH, Header, MAX_ENTRIES, SectionRow, bytes_of};
use crate::sections::{SECTIONS, SectionKind, with_sections};

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

fn line_up(bytes: usize) -> usize {
    bytes.next_multiple_of(CACHE_LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MAX_FILE_BYTES;

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
