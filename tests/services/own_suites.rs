//! Test suites of others' own, with the library: what they ask of sockets holds past the kernel,
//! too.
//!
//! They talk to themselves at the loopback addresses, which are no interface of ours. So these
//! become a link's, whose far end sends back what comes (`own_suites/turned.rs`). A suite runs on
//! the kernel at the same time (`judge.rs`): what fails there is not counted.

mod cpython;
mod crates;
mod judge;
mod libuv;
mod sources;
mod turned;
