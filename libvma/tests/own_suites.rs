//! Test suites of others' own, with the library: what they ask of sockets holds past the kernel,
//! too.
//!
//! They talk to themselves at the loopback addresses, which are no interface of ours. So these
//! become a link's, whose far end sends back what comes (`own_suites/turned.rs`). A suite runs on
//! the kernel at the same time (`judge.rs`): what fails there is not counted.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "own_suites/cpython.rs"]
mod cpython;
#[path = "own_suites/crates.rs"]
mod crates;
#[path = "own_suites/judge.rs"]
mod judge;
#[path = "own_suites/libuv.rs"]
mod libuv;
#[path = "own_suites/sources.rs"]
mod sources;
#[path = "own_suites/turned.rs"]
mod turned;
