//! Flows: which packets belong to which socket.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::SocketAddrV4;

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
    /// Destination address and port of the packets.
    pub local: SocketAddrV4,
    /// Source of the packets (5-tuple), or anyone (3-tuple).
    pub peer: Option<SocketAddrV4>,
}

/// Maps packets to values: the exact flow first, then whoever owns the port.
#[derive(Debug)]
pub struct FlowTable<T> {
    exact: HashMap<(u64, u64), T, BuildHasherDefault<FlowHasher>>,
    port: HashMap<u64, T, BuildHasherDefault<FlowHasher>>,
}

impl<T> Default for FlowTable<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::default(),
            port: HashMap::default(),
        }
    }
}

impl<T: Copy> FlowTable<T> {
    /// Adds a flow. `Err`: it is there already, with this value.
    pub fn insert(&mut self, flow: &Flow, value: T) -> Result<(), T> {
        let local = key(flow.protocol, flow.local);
        let taken = match flow.peer {
            Some(peer) => self.exact.get(&(local, key(flow.protocol, peer))).copied(),
            None => self.port.get(&local).copied(),
        };
        if let Some(owner) = taken {
            return Err(owner);
        }
        match flow.peer {
            Some(peer) => self.exact.insert((local, key(flow.protocol, peer)), value),
            None => self.port.insert(local, value),
        };
        Ok(())
    }

    /// Removes a flow and returns its value.
    pub fn remove(&mut self, flow: &Flow) -> Option<T> {
        let local = key(flow.protocol, flow.local);
        match flow.peer {
            Some(peer) => self.exact.remove(&(local, key(flow.protocol, peer))),
            None => self.port.remove(&local),
        }
    }

    /// Whose packet is this?
    #[inline]
    pub fn look_up(
        &self,
        protocol: Protocol,
        source: SocketAddrV4,
        destination: SocketAddrV4,
    ) -> Option<T> {
        let local = key(protocol, destination);
        if !self.exact.is_empty()
            && let Some(value) = self.exact.get(&(local, key(protocol, source)))
        {
            return Some(*value);
        }
        self.port.get(&local).copied()
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.exact.len() + self.port.len()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[inline]
pub(crate) fn key(protocol: Protocol, address: SocketAddrV4) -> u64 {
    u64::from(u32::from(*address.ip())) << 32 | u64::from(address.port()) << 16 | protocol as u64
}

/// Multiplicative hashing: the keys are our own sockets' addresses, so nobody else can choose colliding ones.
#[derive(Debug, Default)]
pub(crate) struct FlowHasher(u64);

impl Hasher for FlowHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    fn flow(local: &str, peer: Option<&str>) -> Flow {
        Flow {
            protocol: Protocol::Udp,
            local: address(local),
            peer: peer.map(address),
        }
    }

    #[test]
    fn exact_flow_wins_over_the_port() {
        let mut table = FlowTable::default();
        table.insert(&flow("10.0.0.1:53", None), 1).unwrap();
        table
            .insert(&flow("10.0.0.1:53", Some("10.0.0.2:9")), 2)
            .unwrap();
        let find = |source, destination| {
            table.look_up(Protocol::Udp, address(source), address(destination))
        };
        assert_eq!(find("10.0.0.2:9", "10.0.0.1:53"), Some(2));
        assert_eq!(find("10.0.0.2:8", "10.0.0.1:53"), Some(1));
        assert_eq!(find("10.0.0.3:9", "10.0.0.1:53"), Some(1));
        assert_eq!(find("10.0.0.2:9", "10.0.0.1:54"), None);
        assert_eq!(find("10.0.0.2:9", "10.0.0.4:53"), None);
    }

    #[test]
    fn a_taken_flow_names_its_owner() {
        let mut table = FlowTable::default();
        for peer in [None, Some("10.0.0.2:9")] {
            table.insert(&flow("10.0.0.1:53", peer), 1).unwrap();
            assert_eq!(table.insert(&flow("10.0.0.1:53", peer), 2), Err(1));
            assert_eq!(table.remove(&flow("10.0.0.1:53", peer)), Some(1));
            assert_eq!(table.remove(&flow("10.0.0.1:53", peer)), None);
        }
        assert!(table.is_empty());
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
