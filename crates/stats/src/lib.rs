//! Statistics in shared memory: one schema, a writer and a reader.
//!
//! A process publishes its counters in `<dir>/vmastat.<pid>`. The library maps that file and counts
//! directly into it, so a reader sees every value at once, needs no handshake and only read
//! permission, and never delays the process it looks at.
//!
//! ```text
//! header        magic, layout version, pid, start time, library version, program, place of the table
//! section table {kind, entry size, entry count, offset, overflow count} per section
//! sections      sockets | rings | buffer pools | reasons | settings | rules
//!               | closed sockets | sockets that are never accelerated | notes: arrays of cache-line aligned entries
//! ```
//!
//! * [`Segment`] is the writer. [`Segment::claim_socket`] and its siblings hand out a [`Slot`], which
//!   derefs to the counters and gives the entry back when it is dropped.
//! * [`Segment::note`] is the place for what a reader should know in words and no counter says.
//! * [`Reader`] opens a segment of another process and takes snapshots.
//! * [`SocketStats`] and its siblings, one for each section, are declared once, in `schema.rs`; layout, snapshots, differences and the [`FieldInfo`] tables follow from there.
//!
//! **Versions.** A reader accepts every minor version of [`LAYOUT_MAJOR`]. Within a major version
//! fields and sections are only appended: a reader skips section kinds it does not know, steps by the
//! entry size that the file states, and reads 0 for a field that an older file does not have.
//!
//! **Trust.** The reader treats the file as hostile. The writer never takes an offset or a size back
//! from the segment, so damage done by another process of the same user changes numbers only. The file is
//! read-only (0444); whoever truncates it all the same raises `SIGBUS` in writer and readers, whose handlers
//! call [`survive_truncation`]. A reader wants the file to belong to the process's user or to root.

#![deny(unsafe_code)]

mod error;
mod field;
mod layout;
mod lease;
#[allow(
    unsafe_code,
    reason = "the only module that touches raw memory and system calls"
)]
mod mapping;
mod process;
mod reader;
mod schema;
mod segment;
mod slot;
mod sync;

pub use error::{CreateError, ReadError};
pub use field::{
    Counter, Descriptor, Endpoint, Flag, Gauge, LargeNumber, Number, REASON_CODES, ReasonCounters,
    ReasonCounts, Remark, Text,
};
pub use layout::{
    CLOSED_SOCKETS, Capacity, KERNEL_SOCKETS, LAYOUT_MAJOR, LAYOUT_MINOR, MAX_ENTRIES, NOTES,
    SectionKind,
};
pub use mapping::{process_id, survive_truncation, survive_truncations};
pub use process::{Listing, Published, find_processes, list_directory, process_start_time_ticks};
pub use reader::{ProcessInfo, Reader};
pub use schema::{
    FieldInfo, FieldKind, KernelSocketSnapshot, KernelSocketStats, NoteSnapshot, NoteStats,
    PROTOCOL_TCP, PROTOCOL_UDP, PoolSnapshot, PoolStats, ReasonSnapshot, ReasonStats, RingSnapshot,
    RingStats, RuleSnapshot, RuleStats, SettingSnapshot, SettingStats, SocketSnapshot, SocketStats,
};
pub use segment::{Identity, Segment, Setting};
pub use slot::{KernelSocketSlot, PoolSlot, RingSlot, Slot, SocketSlot};

/// File name prefix of every segment; the process id follows.
pub const FILE_PREFIX: &str = "vmastat.";
