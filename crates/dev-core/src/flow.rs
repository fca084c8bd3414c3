//! Flows: which packets belong to which socket.

mod table;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use table::Table;

/// Transport protocol of a flow, by its IANA number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// RFC 9293.
    Tcp = 6,
    /// RFC 768.
    Udp = 17,
}

/// The packets that a socket wants: all that reach `local`, or only those from `peer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Destination address and port of the packets. Flow label and scope do not count. The
    /// unspecified address, without a peer: any of the interface's own.
    pub local: SocketAddr,
    /// Source of the packets (5-tuple), of the same family, or anyone (3-tuple).
    pub peer: Option<SocketAddr>,
}

/// The same port at any address of the version of IP.
pub fn at_any_address(local: SocketAddr) -> SocketAddr {
    match local {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, local.port()).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, local.port()).into(),
    }
}

/// Maps packets to values: the exact flow first, then whoever owns the port, at one address or at
/// any.
#[derive(Debug)]
pub struct FlowTable<T> {
    v4: Table<u64, T, FlowHash>,
    v6: Table<V6Key, T, RandomState>,
}

impl<T> Default for FlowTable<T> {
    fn default() -> Self {
        Self {
            v4: Table::default(),
            v6: Table::default(),
        }
    }
}

impl<T: Copy> FlowTable<T> {
    /// Adds a flow. `Err`: it is there already, with this value, or, of a port at any address, at
    /// one of them, or the other way round.
    pub fn insert(&mut self, flow: &Flow, value: T) -> Result<(), T> {
        let port = number(flow.protocol, flow.local.port());
        let is_wildcard = flow.local.ip().is_unspecified();
        match Keys::of(flow.protocol, flow.local, flow.peer) {
            Keys::V4(local, Some(peer)) => self.v4.insert(local, peer, value),
            Keys::V6(local, Some(peer)) => self.v6.insert(local, peer, value),
            Keys::V4(local, None) => self.v4.insert_port(local, port, is_wildcard, value),
            Keys::V6(local, None) => self.v6.insert_port(local, port, is_wildcard, value),
        }
    }

    /// Removes a flow and returns its value.
    pub fn remove(&mut self, flow: &Flow) -> Option<T> {
        let port = number(flow.protocol, flow.local.port());
        let is_wildcard = flow.local.ip().is_unspecified();
        match Keys::of(flow.protocol, flow.local, flow.peer) {
            Keys::V4(local, Some(peer)) => self.v4.remove(local, peer),
            Keys::V6(local, Some(peer)) => self.v6.remove(local, peer),
            Keys::V4(local, None) => self.v4.remove_port(local, port, is_wildcard),
            Keys::V6(local, None) => self.v6.remove_port(local, port, is_wildcard),
        }
    }

    /// Whose packet is this? Flow label and scope do not count.
    #[inline]
    pub fn look_up(
        &self,
        protocol: Protocol,
        source: impl Into<SocketAddr>,
        destination: impl Into<SocketAddr>,
    ) -> Option<T> {
        match (source.into(), destination.into()) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
                let port = number(protocol, destination.port());
                let local = key(protocol, destination);
                self.v4.look_up(local, port, || key(protocol, source))
            }
            (source, destination) => {
                let port = number(protocol, destination.port());
                let local = v6_key(protocol, destination);
                self.v6.look_up(local, port, || v6_key(protocol, source))
            }
        }
    }

    /// Whether a packet has a flow of its own, that of its two ends.
    pub fn is_exact(
        &self,
        protocol: Protocol,
        source: impl Into<SocketAddr>,
        destination: impl Into<SocketAddr>,
    ) -> bool {
        match Keys::of(protocol, destination.into(), Some(source.into())) {
            Keys::V4(local, Some(peer)) => self.v4.has(local, peer),
            Keys::V6(local, Some(peer)) => self.v6.has(local, peer),
            Keys::V4(_, None) | Keys::V6(_, None) => false,
        }
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The keys of a flow: its local end, and its peer's.
enum Keys {
    V4(u64, Option<u64>),
    V6(V6Key, Option<V6Key>),
}

impl Keys {
    fn of(protocol: Protocol, local: SocketAddr, peer: Option<SocketAddr>) -> Self {
        match (local, peer) {
            (SocketAddr::V4(local), None) => Self::V4(key(protocol, local), None),
            (SocketAddr::V4(local), Some(SocketAddr::V4(peer))) => {
                Self::V4(key(protocol, local), Some(key(protocol, peer)))
            }
            (local, peer) => Self::V6(
                v6_key(protocol, local),
                peer.map(|peer| v6_key(protocol, peer)),
            ),
        }
    }
}

/// A port of a protocol.
#[inline]
fn number(protocol: Protocol, port: u16) -> u64 {
    u64::from(port) << 16 | protocol as u64
}

/// Address, and port and protocol.
pub(crate) type V6Key = (u128, u32);

/// Of an address of IPv4 beside one of IPv6 it is that of the mapped one (RFC 4291 §2.5.5.2), which
/// no packet has.
#[inline]
pub(crate) fn v6_key(protocol: Protocol, address: SocketAddr) -> V6Key {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    (
        ip.to_bits(),
        u32::from(address.port()) << 16 | protocol as u32,
    )
}

#[inline]
pub(crate) fn key(protocol: Protocol, address: SocketAddrV4) -> u64 {
    u64::from(u32::from(*address.ip())) << 32 | u64::from(address.port()) << 16 | protocol as u64
}

/// Hashing of addresses of IPv4, by multiplication with a secret number: whoever chooses the
/// addresses and ports that connections come from does not know which of them collide. Not for
/// IPv6, where a peer has 2^64 addresses to try.
#[derive(Clone, Debug)]
pub(crate) struct FlowHash {
    seed: u64,
    factor: u64,
}

impl Default for FlowHash {
    fn default() -> Self {
        let secret = RandomState::new();
        Self {
            seed: secret.hash_one(0_u8),
            factor: secret.hash_one(1_u8) | 1,
        }
    }
}

impl BuildHasher for FlowHash {
    type Hasher = FlowHasher;

    #[inline]
    fn build_hasher(&self) -> FlowHasher {
        FlowHasher {
            state: self.seed,
            factor: self.factor,
        }
    }
}

#[derive(Debug)]
pub(crate) struct FlowHasher {
    state: u64,
    factor: u64,
}

impl Hasher for FlowHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.state ^ value) * u128::from(self.factor);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV6;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn flow(local: &str, peer: Option<&str>) -> Flow {
        Flow {
            protocol: Protocol::Udp,
            local: address(local),
            peer: peer.map(address),
        }
    }

    /// As one who knows the code would choose them: many of one port that differ in few bits.
    #[test]
    fn peers_that_are_chosen_to_collide_do_not() {
        const COUNT: usize = 1 << 13;
        let mut shift = 0;
        while shift <= 64 - 13 {
            let hash = FlowHash::default();
            let mut in_bucket = vec![0_u32; COUNT];
            for peer in 0..COUNT as u64 {
                let bucket = hash.hash_one((1_u64, peer << shift)) % COUNT as u64;
                in_bucket[usize::try_from(bucket).unwrap()] += 1;
            }
            let most = in_bucket.iter().max().unwrap();
            assert!(*most < 32, "{most} in one bucket, from bit {shift} on");
            shift += 1;
        }
        let [one, other] = [(); 2].map(|()| FlowHash::default());
        assert_ne!(one.hash_one(1_u64), other.hash_one(1_u64));
    }

    #[test]
    fn exact_flow_wins_over_the_port() {
        let mut table = FlowTable::default();
        // Alike but for the family, or for one half of the address.
        for (net, value) in [("10.0.0.", 0), ("[fd00::1:", 10), ("[fd00:0:0:1::", 20)] {
            let end = |host: &str, port: u16| match net.contains(':') {
                true => format!("{net}{host}]:{port}"),
                false => format!("{net}{host}:{port}"),
            };
            let (local, peer) = (end("1", 53), end("2", 9));
            table.insert(&flow(&local, None), value + 1).unwrap();
            table.insert(&flow(&local, Some(&peer)), value + 2).unwrap();
            let find = |source: &str, destination: &str| {
                table.look_up(Protocol::Udp, address(source), address(destination))
            };
            assert_eq!(find(&peer, &local), Some(value + 2));
            assert_eq!(find(&end("2", 8), &local), Some(value + 1));
            assert_eq!(find(&end("3", 9), &local), Some(value + 1));
            assert_eq!(find(&peer, &end("1", 54)), None);
            assert_eq!(find(&peer, &end("4", 53)), None);
            let is_exact =
                |source: &str| table.is_exact(Protocol::Udp, address(source), address(&local));
            assert!(is_exact(&peer) && !is_exact(&end("2", 8)));
        }
        assert_eq!(table.len(), 6);
    }

    #[test]
    fn scope_and_flow_label_do_not_count() {
        let mut table = FlowTable::default();
        let scoped = |scope| SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 53, 7, scope));
        let flow = Flow {
            protocol: Protocol::Udp,
            local: scoped(3),
            peer: None,
        };
        table.insert(&flow, 1).unwrap();
        let found = table.look_up(Protocol::Udp, scoped(5), scoped(0));
        assert_eq!(found, Some(1));
    }

    #[test]
    fn families_do_not_meet_in_one_flow() {
        let mut table = FlowTable::default();
        let mixed = flow("10.0.0.1:53", Some("[fd00::2]:9"));
        table.insert(&mixed, 1).unwrap();
        let packets = [
            ("10.0.0.2:9", "10.0.0.1:53"),
            ("[fd00::2]:9", "[fd00::1]:53"),
        ];
        for (source, destination) in packets {
            let found = table.look_up(Protocol::Udp, address(source), address(destination));
            assert_eq!(found, None);
        }
        assert_eq!(table.remove(&mixed), Some(1));
        assert!(table.is_empty());
    }

    #[test]
    fn a_taken_flow_names_its_owner() {
        let mut table = FlowTable::default();
        for (local, peer) in [
            ("10.0.0.1:53", None),
            ("10.0.0.1:53", Some("10.0.0.2:9")),
            ("[fd00::1]:53", None),
            ("[fd00::1]:53", Some("[fd00::2]:9")),
        ] {
            table.insert(&flow(local, peer), 1).unwrap();
            assert_eq!(table.insert(&flow(local, peer), 2), Err(1));
            assert_eq!(table.remove(&flow(local, peer)), Some(1));
            assert_eq!(table.remove(&flow(local, peer)), None);
        }
        assert!(table.is_empty());
    }

    #[test]
    fn a_port_at_any_address_is_nobody_elses_at_one() {
        for (any, one, peer) in [
            ("0.0.0.0:53", "10.0.0.1:53", "10.0.0.2:9"),
            ("[::]:53", "[fd00::1]:53", "[fd00::2]:9"),
        ] {
            let mut table = FlowTable::default();
            let find = |table: &FlowTable<i32>, source: &str| {
                table.look_up(Protocol::Udp, address(source), address(one))
            };
            table.insert(&flow(any, None), 1).unwrap();
            assert_eq!(find(&table, peer), Some(1));
            assert_eq!(table.insert(&flow(one, None), 2), Err(1));
            assert_eq!(table.insert(&flow(any, None), 2), Err(1));
            // One peer's are.
            table.insert(&flow(one, Some(peer)), 3).unwrap();
            assert_eq!(find(&table, peer), Some(3));
            assert_eq!(table.len(), 2);
            let of_tcp = Flow {
                protocol: Protocol::Tcp,
                ..flow(one, None)
            };
            table.insert(&of_tcp, 4).unwrap();
            assert_eq!(table.remove(&flow(any, None)), Some(1));
            assert_eq!(find(&table, one), None);

            table.insert(&flow(one, None), 5).unwrap();
            assert_eq!(table.insert(&flow(any, None), 6), Err(5));
            assert_eq!(table.remove(&flow(any, None)), None);
            assert_eq!(table.remove(&flow(one, None)), Some(5));
            table.insert(&flow(any, None), 6).unwrap();
            assert_eq!(find(&table, one), Some(6));
        }
    }

    #[test]
    fn protocols_have_ports_of_their_own() {
        let mut table = FlowTable::default();
        let udp = flow("10.0.0.1:53", None);
        let tcp = Flow {
            protocol: Protocol::Tcp,
            ..udp
        };
        table.insert(&udp, 1).unwrap();
        table.insert(&tcp, 2).unwrap();
        let find = |protocol| table.look_up(protocol, address("10.0.0.2:9"), udp.local);
        assert_eq!(find(Protocol::Udp), Some(1));
        assert_eq!(find(Protocol::Tcp), Some(2));
    }
}
