//! What stands for the crate of this name: its files that are modelled, with loom's atomics and
//! locks.

#[path = "../../../crates/links/src/doorbell.rs"]
pub mod doorbell;
#[path = "../../../crates/links/src/lead.rs"]
pub mod lead;
#[path = "../../../crates/links/src/reason.rs"]
pub mod reason;
mod sync;
pub mod wait;
