//! Which connection a segment is for: from its addresses and ports to the owner's number of the
//! connection or listener.

use core::net::SocketAddr;

use crate::address;

mod burst;
mod table;

pub use burst::{Burst, in_turn};
pub use table::{ConnectionTable, MAX_VALUE};

/// Finds connections by both ends, and listeners by the local one. Values are at most
/// [`MAX_VALUE`].
///
/// An IPv4 connection takes a slot of 16 octets (IPv6: 48), and between three sixteenths and three
/// eighths of the slots are in use. Peers choose addresses and ports, so the hash is keyed: nobody
/// without the key can make flows collide.
#[derive(Clone, Debug)]
pub struct Demux {
    connections: Connections,
    listeners: Connections,
    /// Changes of the connections, modulo 2^32.
    changes: u32,
}

/// A look-up of a connection whose hash is reckoned, but that has touched no memory of the table's.
/// It is good for the [`Demux`] that prepared it, whatever is inserted or removed until it is
/// finished.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    hash: u64,
    key: Key,
}

/// One table for each version of IP.
#[derive(Clone, Debug)]
struct Connections {
    ipv4: ConnectionTable<IPV4_KEY_LEN>,
    ipv6: ConnectionTable<IPV6_KEY_LEN>,
}

/// A flow as octets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Ipv4([u8; IPV4_KEY_LEN]),
    Ipv6([u8; IPV6_KEY_LEN]),
}

impl Demux {
    /// `key` is random and secret.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        let tables = Connections {
            ipv4: ConnectionTable::new(key),
            ipv6: ConnectionTable::new(key),
        };
        Self {
            connections: tables.clone(),
            listeners: tables,
            changes: 0,
        }
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// There is one with these ends already: its value.
    pub fn insert(&mut self, local: SocketAddr, remote: SocketAddr, value: u32) -> Result<(), u32> {
        self.changes = self.changes.wrapping_add(1);
        self.connections.insert(&Key::new(local, remote), value)
    }

    /// Takes a connection out.
    pub fn remove(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        self.changes = self.changes.wrapping_add(1);
        self.connections.remove(&Key::new(local, remote))
    }

    /// The connection between two ends.
    #[inline]
    #[must_use]
    pub fn connection(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        self.connections.look_up(&Key::new(local, remote))
    }

    /// The first half of [`connection`](Self::connection).
    #[inline]
    #[must_use]
    pub fn prepare(&self, local: SocketAddr, remote: SocketAddr) -> Prepared {
        let key = Key::new(local, remote);
        let hash = match &key {
            Key::Ipv4(key) => self.connections.ipv4.hash(key),
            Key::Ipv6(key) => self.connections.ipv6.hash(key),
        };
        Prepared { hash, key }
    }

    /// The memory that [`finish`](Self::finish) will look at first, for the processor to fetch;
    /// null if there is none.
    #[inline]
    #[must_use]
    pub fn address(&self, look_up: &Prepared) -> *const u8 {
        match look_up.key {
            Key::Ipv4(_) => self.connections.ipv4.address(look_up.hash),
            Key::Ipv6(_) => self.connections.ipv6.address(look_up.hash),
        }
    }

    /// The second half: what [`connection`](Self::connection) would return.
    #[inline]
    #[must_use]
    pub fn finish(&self, look_up: &Prepared) -> Option<u32> {
        match &look_up.key {
            Key::Ipv4(key) => self.connections.ipv4.look_up_hashed(look_up.hash, key),
            Key::Ipv6(key) => self.connections.ipv6.look_up_hashed(look_up.hash, key),
        }
    }

    /// Adds a listener on an address, or on all of them if it is unspecified.
    ///
    /// # Errors
    /// There is one on exactly this address and port already: its value.
    pub fn listen(&mut self, local: SocketAddr, value: u32) -> Result<(), u32> {
        self.listeners.insert(&Key::of_listener(local), value)
    }

    /// Takes a listener out.
    pub fn unlisten(&mut self, local: SocketAddr) -> Option<u32> {
        self.listeners.remove(&Key::of_listener(local))
    }

    /// The listener for a SYN to `local`: one on the address before one on all of them.
    #[must_use]
    pub fn listener(&self, local: SocketAddr) -> Option<u32> {
        self.listeners
            .look_up(&Key::of_listener(local))
            .or_else(|| {
                self.listeners
                    .look_up(&Key::of_listener(unspecified(local)))
            })
    }

    /// Connections that are in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections
            .ipv4
            .len()
            .saturating_add(self.connections.ipv6.len())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Prepared {
    /// Of no flow.
    fn default() -> Self {
        Self {
            hash: 0,
            key: Key::Ipv4([0; 12]),
        }
    }
}

impl Connections {
    fn insert(&mut self, key: &Key, value: u32) -> Result<(), u32> {
        match key {
            Key::Ipv4(key) => self.ipv4.insert(key, value),
            Key::Ipv6(key) => self.ipv6.insert(key, value),
        }
    }

    fn remove(&mut self, key: &Key) -> Option<u32> {
        match key {
            Key::Ipv4(key) => self.ipv4.remove(key),
            Key::Ipv6(key) => self.ipv6.remove(key),
        }
    }

    #[inline]
    fn look_up(&self, key: &Key) -> Option<u32> {
        match key {
            Key::Ipv4(key) => self.ipv4.look_up(key),
            Key::Ipv6(key) => self.ipv6.look_up(key),
        }
    }
}

/// Lengths of keys, in octets.
pub(crate) const IPV4_KEY_LEN: usize = 12;
pub(crate) const IPV6_KEY_LEN: usize = 36;

impl Key {
    #[inline]
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        match (local, remote) {
            (SocketAddr::V4(local), SocketAddr::V4(remote)) => Self::Ipv4(ipv4_key(local, remote)),
            (SocketAddr::V6(_), _) | (_, SocketAddr::V6(_)) => Self::Ipv6(ipv6_key(local, remote)),
        }
    }

    /// No segment comes from port 0 of no address.
    fn of_listener(local: SocketAddr) -> Self {
        Self::new(local, SocketAddr::new(unspecified(local).ip(), 0))
    }
}

/// The key of a flow over IPv4: addresses and ports in network order, the local ones first.
#[inline]
#[must_use]
pub fn ipv4_key(local: core::net::SocketAddrV4, remote: core::net::SocketAddrV4) -> [u8; 12] {
    // In whole words: a processor that reads together what was written in parts waits until all of
    // it is in the cache.
    let words = u128::from(local.ip().to_bits()) << 96
        | u128::from(remote.ip().to_bits()) << 64
        | u128::from(local.port()) << 48
        | u128::from(remote.port()) << 32;
    let [key @ .., _, _, _, _] = words.to_be_bytes();
    key
}

fn ipv6_key(local: SocketAddr, remote: SocketAddr) -> [u8; 36] {
    let fields: [&[u8]; 4] = [
        &address::octets(local.ip()),
        &address::octets(remote.ip()),
        &local.port().to_be_bytes(),
        &remote.port().to_be_bytes(),
    ];
    let mut key = [0; 36];
    for (byte, value) in key.iter_mut().zip(fields.into_iter().flatten()) {
        *byte = *value;
    }
    key
}

fn unspecified(address: SocketAddr) -> SocketAddr {
    let ip = match address {
        SocketAddr::V4(_) => core::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => core::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests;
