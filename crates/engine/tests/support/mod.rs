//! What the tests share: a device that does as it is told, a network that can change, an engine
//! over both, and the loops around the engine's calls that the C ABI has.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "each test binary uses a part of this; lengths are small; a skipped test says why on standard error"
)]

pub mod calls;
pub mod device;
pub mod host;
pub mod isolation;
pub mod multiplex;
pub mod network;

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::{EthernetAddresses, UdpTemplate};

pub const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Address of the first interface.
pub const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Address of the second interface.
pub const SECOND_IP: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
pub const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 7777);
/// Index of the first interface; the second one's follows.
pub const FIRST_LINK: u32 = 101;
pub const SECOND_LINK: u32 = 102;

/// A frame as a peer sends it.
pub fn frame(source: SocketAddrV4, destination: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let eth = EthernetAddresses {
        source: PEER_MAC,
        destination: OUR_MAC,
    };
    let template = UdpTemplate::new(eth, source, destination, 64, 0, true);
    let mut bytes = vec![0; template.header_len() + payload.len()];
    let len = template.emit_one(&mut bytes, 1, payload).unwrap();
    bytes.truncate(len);
    bytes
}

/// A generator of repeatable "random" numbers (Knuth's MMIX constants).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
