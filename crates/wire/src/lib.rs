//! Packet formats: Ethernet II, IPv4, IPv6, UDP and TCP, parsed from and written to caller's
//! buffers.
//!
//! Everything here is pure computation on byte slices: no allocation, no clock, no I/O. Bytes that
//! come from the network are checked once, by the parser; what it returns can be used without
//! further checks.
//!
//! - [`checksum`]: the Internet checksum (RFC 1071), also fused with a copy.
//! - [`ip::parse`]: one received frame into an IP packet; [`parse_udp`] and [`tcp::parse_tcp`] go
//!   on with its payload.
//! - [`parse_udp4`]: both at once, of IPv4.
//! - [`UdpTemplate`]: the headers of one destination, prepared once and stamped on each datagram.
//! - [`tcp`]: the same for TCP segments, whose headers are values ([`tcp::Header`]).

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

pub mod checksum;
pub mod ethernet;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod tcp;

mod flow_headers;
mod malformed;
mod udp;
mod udp_template;

pub use ethernet::EthernetAddresses;
pub use malformed::Malformed;
pub use udp::{ChecksumPolicy, UdpDatagram, parse_udp, parse_udp4};
pub use udp_template::UdpTemplate;
