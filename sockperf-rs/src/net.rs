//! Addresses, sockets of all kinds, and the messages of a stream.

pub mod address;
pub mod feed;
pub mod inbox;
pub mod multicast;
pub mod mux;
pub mod open;
pub mod packets;
pub mod rings;
pub mod socket;
