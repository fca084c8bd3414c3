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

mod entry;
mod row;
mod tables;

pub(crate) use entry::{Entry, Head};
pub use row::{FieldInfo, Row};
pub use tables::*;

#[cfg(test)]
mod tests;
