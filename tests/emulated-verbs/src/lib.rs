//! A `libibverbs.so.1` for tests: a device for each interface that `EMULATED_VERBS` names, with
//! queue pairs of raw packets, flow rules, registered memory and completion queues. The wire is the
//! interface's: frames come and go by a packet socket, and those of flow rules are dropped behind
//! it, so that the kernel does not have them, too (`steal.rs`).
//!
//! It believes nothing: who posts memory that is not registered, or that the device has, or polls
//! too late, is ended with a line that says so (`violation.rs`). `EMULATED_VERBS_FAULT` makes it a
//! worse device.
//!
//! It runs inside of programs with the library under test. So it makes its system calls itself, and
//! its descriptors are out of the program's way.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the interfaces mix widths; what is cast is bounded by a queue, a frame or a number's range"
)]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one promise covers a pointer and what it leads to"
)]
#![allow(
    clippy::missing_safety_doc,
    unreachable_pub,
    reason = "what is exported is as rdma-core's manual pages say"
)]

mod bpf;
mod calls;
mod device;
mod flows;
mod mlx5;
mod queues;
mod steal;
mod sys;
mod violation;
mod wire;
