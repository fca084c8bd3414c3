//! The network and the machine at their worst: links, routes and devices that change, frames that
//! nobody should send, a library that cannot start.
#![allow(clippy::unwrap_used, reason = "tests")]

mod exceptions;
mod firewall;
mod link;
mod link_errors;
mod malformed;
mod path_mtu;
mod routes;
mod stress;
