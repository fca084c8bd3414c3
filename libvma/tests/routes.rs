//! Routing that changes under traffic: programs with the library follow as the kernel's own sockets
//! do, and soon.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "routes/change.rs"]
mod change;
#[path = "routes/choice.rs"]
mod choice;
#[path = "routes/datagrams.rs"]
mod datagrams;
#[path = "routes/devices.rs"]
mod devices;
#[path = "routes/link_local.rs"]
mod link_local;
#[path = "routes/seen.rs"]
mod seen;
#[path = "routes/servers.rs"]
mod servers;
#[path = "routes/stage.rs"]
mod stage;
#[path = "routes/streams.rs"]
mod streams;
