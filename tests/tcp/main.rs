//! Streams past the kernel: every octet once and in order, and the ends that the kernel has.
#![allow(clippy::unwrap_used, reason = "tests")]

mod any_address;
mod bulk_streams;
mod closes;
mod destroyed;
mod held_listeners;
mod leftovers;
mod listeners;
mod lossy_streams;
mod remains;
mod returned;
mod seldom;
mod shared_listeners;
mod soak;
mod stream_calls;
mod stream_options;
mod stream_ports;
mod stream_states;
mod stream_transfers;
mod streams;
mod tcp_safety;
mod verbs;
mod within_host;
