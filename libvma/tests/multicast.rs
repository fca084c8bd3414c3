//! Multicast: programs that receive from groups, and send to them, see the same and show the same
//! on the wire on the kernel and with the library; what they send and get passes the kernel as far
//! as it can.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "multicast/any.rs"]
mod any;
#[path = "multicast/filters.rs"]
mod filters;
#[path = "multicast/receiving.rs"]
mod receiving;
#[path = "multicast/script.rs"]
mod script;
#[path = "multicast/sending.rs"]
mod sending;
#[path = "multicast/six.rs"]
mod six;
