//! What tests of this workspace need of a Linux machine: network namespaces joined by a veth pair,
//! programs that run inside them (with or without a preloaded library), raw Ethernet access, and
//! lossy links.
//!
//! ```no_run
//! use std::time::Duration;
//! use testkit::{Namespaces, Running, or_skip};
//!
//! fn udp_echo_survives_preload() {
//!     let pair = or_skip!(Namespaces::pair());
//!     let library = testkit::libvma_path().unwrap();
//!     let mut server = pair.b.preload("sockperf", &library);
//!     server.args(["server", "-i", "10.77.0.2"]);
//!     let mut server = Running::start(server).unwrap();
//!     assert!(server.wait_for_output("waiting", Duration::from_secs(5)));
//! }
//! ```
//!
//! Everything a test makes is named after the process that made it (`vmat-<pid>-<number>-<side>`),
//! disappears when the guard is dropped, and is swept by the next test process if this one was
//! killed.
//!
//! A test that the machine cannot run says so and passes. Where that must not happen (a CI machine
//! known to be able), set `VMA_TEST_NO_SKIP=1`, and a skip becomes a failure.
//!
//! Tests that depend on time do not fail because the machine stood still: see [`retry_if_paused`].
//!
//! `unsafe` is confined to the private module `sys`.

mod accelerated;
mod c_program;
mod cable;
mod cases;
mod comparison;
mod cost;
mod echo;
mod emulated_verbs;
mod exemptions;
mod far_host;
mod files;
mod left_to_kernel;
mod library;
pub mod link;
mod namespace;
pub mod needs;
mod obeying_peer;
mod over;
mod pair;
mod pause;
mod raw_link;
mod relay;
mod running;
mod scripted_peer;
mod skip;
mod sys;
mod tun;

pub use accelerated::{
    Accelerated, OPEN_WAIT, SOON, eventually, preloaded, preloaded_in_place, statistics_directory,
};
pub use c_program::{c_program, c_program_with, compile_c_with};
pub use cases::Case;
pub use comparison::{
    Comparison, FORKING_VARIANTS, THREAD_MODE_VARIANTS, THREADED_VARIANTS, VARIANTS, Variant,
    difference, log_tail,
};
pub use cost::Cost;
pub use echo::{Echo, call_back_streams, echo_streams};
pub use emulated_verbs::{
    VerbsQueues, emulated_verbs, emulated_verbs_directory, needs_segmentation, needs_xdp,
};
pub use exemptions::exempt_connections;
pub use far_host::{FAR_ADDRESS, far_host};
pub use files::{SOURCES, crate_paths, files_below, rust_sources};
pub use left_to_kernel::{Reason, compare_left_to_kernel};
pub use library::{
    copy_program, example_path, libvma_is_optimised, libvma_path, own_program, tool,
};
pub use namespace::{Namespace, remove_stale_namespaces};
pub use obeying_peer::obeying_peer;
pub use over::Over;
pub use pair::{Namespaces, Pair};
pub use pause::{longest_pause, panic_unless_paused, retry_if_paused};
pub use raw_link::RawLink;
pub use relay::{Port, Relay};
pub use running::{Finished, Running};
pub use scripted_peer::ScriptedPeer;
pub use skip::{Skip, skip};
pub use sys::{detach_xdp, is_root};
pub use tun::Tun;
