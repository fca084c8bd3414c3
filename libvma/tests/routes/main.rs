//! Routing that changes under traffic: programs with the library follow as the kernel's own sockets do, and soon.
#![allow(clippy::unwrap_used, reason = "tests")]

mod change;
mod choice;
mod datagrams;
mod seen;
mod stage;
mod streams;
