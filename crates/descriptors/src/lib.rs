//! File descriptors as a library inside a foreign process sees them: tables by their numbers, and
//! numbers for the library's own that the program does not meet.

#![warn(missing_docs)]

mod number;
pub mod own;
mod table;

pub use number::{lowest_number, room_for_closed, table_size};
pub use own::OwnDescriptor;
pub use table::DescriptorTable;
