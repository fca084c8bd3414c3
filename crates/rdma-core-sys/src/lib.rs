//! What the library uses of rdma-core (`infiniband/verbs.h`), by its names there: structures,
//! constants, and the functions of `libibverbs.so.1`, which are looked up when a device is wanted.
//! Where there is no such library, nothing of this costs anything.
//!
//! `tests/layout.rs` compares every size, offset and number with the headers of the system.

#![allow(
    non_camel_case_types,
    reason = "structures have the names that rdma-core's manual pages use"
)]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one promise covers a pointer and what it leads to"
)]

mod constants;
mod library;
mod operations;
mod structures;

pub use constants::*;
pub use library::{Missing, Verbs};
pub use operations::{create_flow, destroy_flow, poll_cq, post_recv, post_send, req_notify_cq};
pub use structures::*;
