//! What the library uses of rdma-core (`infiniband/verbs.h`, `infiniband/mlx5dv.h`), by its names
//! there: structures, constants, and the functions of `libibverbs.so.1` and `libmlx5.so.1`, which
//! are looked up when a device is wanted. Where there are no such libraries, nothing of this costs
//! anything.
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
mod mlx5;
mod operations;
mod structures;

pub use constants::*;
pub use library::{Missing, Mlx5, Verbs};
pub use mlx5::*;
pub use operations::{
    clock_cycles, create_flow, destroy_flow, longest_packet_to_cut, poll_cq, post_recv, post_send,
    req_notify_cq,
};
pub use structures::*;
