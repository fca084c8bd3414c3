//! Routing that changes under traffic: programs with the library follow as the kernel's own sockets
//! do, and soon.

mod change;
mod choice;
mod datagrams;
mod devices;
mod link_local;
mod seen;
mod servers;
mod stage;
mod streams;
