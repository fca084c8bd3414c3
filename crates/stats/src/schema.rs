//! The entries of each section, declared once.
//!
//! The `entry!` tables in `schema/tables/` give, for every field, its name, type, unit and meaning;
//! `schema/entry.rs` says what becomes of a table. The first group shares a cache line with the
//! entry's generation, every further group starts a line of its own. From a table follow the shared
//! `repr(C)` structure, the `FIELDS` list for columns and documents, the snapshot that a reader
//! returns, the difference of two snapshots, and the values of a snapshot in the order of `FIELDS`.
//! Which sections exist, and how large they are, stands in `sections.rs`.
//!
//! Order and types are the file format: append to the end of an entry and raise
//! [`LAYOUT_MINOR`](crate::LAYOUT_MINOR); anything else raises
//! [`LAYOUT_MAJOR`](crate::LAYOUT_MAJOR).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::field::{Remark, Text, Value};
use crate::mapping::EntryView;
use crate::shares::SHARES;

mod entry;
mod tables;

pub use tables::*;

/// [`SocketStats::protocol`] of a TCP socket (IANA protocol number).
pub const PROTOCOL_TCP: u32 = 6;
/// [`SocketStats::protocol`] of a UDP socket (IANA protocol number).
pub const PROTOCOL_UDP: u32 = 17;

/// One field of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    pub name: &'static str,
    pub kind: FieldKind,
    /// How it is stored: the name of a type of this crate.
    pub type_name: &'static str,
    /// Plural noun, or empty where the value has none.
    pub unit: &'static str,
    pub help: &'static str,
    /// From the start of the entry, bytes.
    pub offset: usize,
}

/// How a field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Says what the entry is about.
    Identity,
    /// Only grows: readers show differences.
    Counter,
    /// Rises and falls: readers show the present value.
    Gauge,
    /// The most that a gauge ever was.
    Peak,
}

/// A snapshot of an entry, whatever its section.
pub trait Row: Clone {
    /// What [`values`](Self::values) are, in their order.
    const FIELDS: &'static [FieldInfo];

    /// Place of the entry in its section.
    fn place(&self) -> u32;

    /// Tells the users of one place apart.
    fn generation(&self) -> u64;

    /// Every field.
    fn values(&self) -> Vec<Value>;

    /// The increase of every counter since `earlier`, a snapshot of the same place and
    /// generation; all else as it is now.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self;
}

/// What the segment's code needs of every entry.
pub(crate) trait Entry: Default {
    type Snapshot: Row;

    fn head(&self) -> &Head;

    /// All fields as in a fresh entry; the generation stays.
    fn reset(&self);

    /// Takes over all fields of another entry; the generation stays.
    fn copy_from(&self, other: &Self);

    /// Counters and peaks begin anew.
    fn zero(&self);

    /// Reads the fields once; the caller checks the generation around it.
    fn read(entry: &EntryView<'_>, index: u32, generation: u64) -> Self::Snapshot;
}

/// First word of every entry: odd while the entry is in use, even while it is free, one more at
/// each change, so a reader that sees the same odd value before and after has read one user's data.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Head {
    generation: AtomicU64,
}

impl Head {
    /// Whether the entry is in use.
    pub(crate) fn is_open(&self) -> bool {
        !self.generation.load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Makes a reset entry visible.
    pub(crate) fn open(&self) {
        // Even, unless the file was damaged.
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1) | 1;
        self.generation.store(next, Ordering::Release);
    }

    /// Takes the entry away from readers, before the next user resets it.
    pub(crate) fn close(&self) {
        // Odd, unless the file was damaged.
        let next = (self.generation.load(Ordering::Relaxed) | 1).wrapping_add(1);
        self.generation.store(next, Ordering::Release);
        // Everything that the next user stores comes after the even generation.
        fence(Ordering::Release);
    }
}

/// Moves the field that follows to a new cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct LineStart;

pub(crate) type Text16 = Text<2>;
pub(crate) type Text64 = Text<8>;
pub(crate) type Text128 = Text<16>;
pub(crate) type Text192 = Text<24>;
pub(crate) type Text256 = Text<32>;
pub(crate) type Remark120 = Remark<15>;

/// What all shares of a counter have counted: the first at `offset`, and each a line behind the
/// other. What an older layout does not have reads as 0.
pub(crate) fn sum_of_shares(entry: &EntryView<'_>, offset: usize, line_bytes: usize) -> u64 {
    let shares = (0..SHARES).map(|share| entry.load_u64(offset.saturating_add(share * line_bytes)));
    shares.fold(0, u64::wrapping_add)
}

impl SocketStats {
    /// Records that the socket runs in user space.
    pub fn set_offloaded(&self) {
        self.rule.set(0);
        self.offloaded.publish(true);
        self.reason.publish(0);
    }

    /// Records that the kernel serves the socket and why: a reason, and the number of the rule
    /// behind it or 0. Both are stored first, so a reader never sees "not offloaded" with a reason
    /// of the past.
    pub fn set_not_offloaded(&self, reason: u32, rule: u32) {
        self.rule.set(rule);
        self.reason.publish(reason);
        self.offloaded.publish(false);
    }
}

#[cfg(test)]
mod tests;
