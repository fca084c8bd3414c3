//! File descriptors as a library inside a foreign process sees them: tables by their numbers, and numbers for the library's own
//! that the program does not meet.

#![warn(missing_docs)]

mod number;
mod table;

pub use number::{duplicate_out_of_the_way, lowest_number, move_out_of_the_way, table_size};
pub use table::DescriptorTable;
