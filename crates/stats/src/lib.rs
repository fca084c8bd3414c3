//! Statistics in shared memory: one schema, a writer and a reader.
//!
//! A process publishes its counters in `<dir>/vmastat.<pid>`. The library maps that file and counts
//! directly into it, so a reader sees every value at once, needs no handshake and only read
//! permission, and never delays the process it looks at.
//!
//! ```text
//! header        magic, layout version, pid, start time, library version, program, place of the table
//! section table {kind, entry size, entry count, offset, overflow count} per section
//! sections      sockets | rings | buffer pools | reasons | ...: arrays of cache-line aligned entries; all of them: [`SECTIONS`]
//! ```
//!
//! * [`Segment`] is the writer. [`Segment::claim_socket`] and its siblings hand out a [`Slot`],
//!   which derefs to the counters and gives the entry back when it is dropped.
//! * [`Segment::note`] is the place for what a reader should know in words and no counter says.
//! * [`ask`] sends a process a [`Request`], which a [`ControlSocket`] answers.
//! * [`CaptureRing`] takes the packets that pass by the kernel while somebody asks for them; a
//!   [`CaptureReader`] finds them there.
//! * [`Reader`] opens a segment of another process and takes snapshots.
//! * [`Statistics`] is a snapshot of everything, with the difference of two of them.
//! * Sections are declared once, in `sections.rs`, and their entries ([`SocketStats`] and its
//!   siblings) in `schema/tables/`; layout, snapshots, differences and the [`FieldInfo`] tables
//!   follow from there.
//!
//! **Versions.** A reader accepts every minor version of [`LAYOUT_MAJOR`]. Within a major version
//! fields and sections are only appended: a reader skips section kinds it does not know, steps by
//! the entry size that the file states, and reads 0 for a field that an older file does not have.
//!
//! **Trust.** The reader treats the file as hostile. The writer never takes an offset or a size back
//! from the segment, so damage done by another process of the same user changes numbers only. The
//! file is read-only, and of its user only (0400); whoever truncates it all the same raises
//! `SIGBUS` in writer and readers, whose handlers call [`survive_truncation`]. A reader wants the
//! file to belong to the process's user or to root.

#![deny(unsafe_code)]

#[cfg(feature = "serde")]
mod broker;
mod cache_line;
mod capture;
mod control;
mod counter;
#[cfg(test)]
mod docs;
mod dump;
mod error;
mod field;
mod layout;
mod lease;
mod leftovers;
mod listing;
#[allow(
    unsafe_code,
    reason = "the only module that touches raw memory and system calls"
)]
mod mapping;
mod names;
mod plan;
mod process;
mod reader;
mod schema;
mod sections;
mod segment;
mod shares;
mod slot;
mod statistics;
mod sync;

#[cfg(feature = "serde")]
pub use broker::{
    BROKER_SOCKET, BrokerClient, BrokerInterface, BrokerStatus, PORTS_SHOWN, Refusal,
};
pub use capture::{CaptureReader, CaptureRing, CapturedPacket, Direction, SNAP_MAX};
pub use control::{ControlError, ControlSocket, Request, ask, remove_stale_control};
pub use counter::{Counter, Gauge, Peak};
pub use dump::tcp_state;
pub use error::{CreateError, ReadError};
pub use field::FieldKind;
pub use field::endpoint::Endpoint;
pub use field::histogram::{Distribution, Histogram};
pub use field::reasons::{REASON_CODES, ReasonCounters, ReasonCounts};
pub use field::remark::Remark;
pub use field::scalar::{Descriptor, Flag, LargeNumber, Number};
pub use field::text::Text;
pub use field::value::Value;
pub use layout::{
    CLOSED_SOCKETS, EVENTS, GROUPS, KERNEL_SOCKETS, LAYOUT_MAJOR, LAYOUT_MINOR, MAX_ENTRIES,
    MULTIPLEXERS, NOTES, QUEUES,
};
pub use leftovers::remove_leftovers;
pub use listing::{Listing, Published, find_processes, list_directory};
pub use mapping::{
    Credentials, Message, Sender, process_id, receive_with_credentials, send_to,
    survive_truncation, survive_truncations,
};
pub use names::FILE_PREFIX;
pub use plan::Capacity;
pub use process::process_start_time_ticks;
pub use reader::{ProcessInfo, Reader, SegmentFile};
pub use schema::{
    CallShare, EventSnapshot, EventStats, FieldInfo, GroupSnapshot, GroupStats,
    KernelSocketSnapshot, KernelSocketStats, MultiplexerSnapshot, MultiplexerStats, NoteSnapshot,
    NoteStats, PROTOCOL_TCP, PROTOCOL_UDP, PoolSnapshot, PoolStats, QueueSnapshot, QueueStats,
    ReasonSnapshot, ReasonStats, RingSnapshot, RingStats, Row, RuleSnapshot, RuleStats,
    SettingSnapshot, SettingStats, SocketSnapshot, SocketStats, TcpSnapshot, TcpStats,
};
pub use sections::{PLANNED, SECTIONS, SectionInfo, SectionKind};
pub use segment::{Identity, OpenRing, OpenSockets, Segment, Setting};
pub use shares::{SHARES, Share, Shares};
pub use slot::{
    GroupSlot, KernelSocketSlot, MultiplexerSlot, PoolSlot, QueueSlot, RingSlot, Slot, SocketSlot,
    TcpSlot,
};
pub use statistics::Statistics;
