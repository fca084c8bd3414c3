//! Multicast: programs that receive from groups, and send to them, see the same and show the same
//! on the wire on the kernel and with the library; what they send and get passes the kernel as far
//! as it can.
#![allow(clippy::unwrap_used, reason = "tests")]

mod any;
mod filters;
mod receiving;
mod script;
mod sending;
mod six;
