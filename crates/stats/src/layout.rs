//! What a segment begins with, and the bounds of all of it.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::field::text::Text;

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

/// The size of a structure of the segment, as the file holds it.
#[allow(clippy::cast_possible_truncation, reason = "asserted to fit")]
pub(crate) const fn bytes_of<T>() -> u32 {
    assert!(size_of::<T>() <= MAX_ENTRY_BYTES as usize);
    size_of::<T>() as u32
}
