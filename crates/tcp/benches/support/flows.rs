//! Many connections of one server, and which of them is next.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// The server.
pub(crate) fn local() -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443).into()
}

/// The client of a connection: an address has 32 of them.
pub(crate) fn remote(index: u32) -> SocketAddr {
    let ip = Ipv4Addr::from_bits(0x0a00_0000 | index >> 5);
    SocketAddrV4::new(ip, 32_768 + (index & 31) as u16).into()
}

/// A linear congruential generator (Knuth's MMIX): a nanosecond, and no two neighbours in memory
/// follow on each other.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}
