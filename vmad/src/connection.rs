//! What the daemon knows of a connection.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV6};

/// A TCP connection of a process on this host. Flow labels are zero, and so are scopes but those of
/// link-local addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection {
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

impl Connection {
    /// Whether the addresses can be those of a connection that another host has an end of.
    pub fn is_plausible(&self) -> bool {
        let usable = |end: &SocketAddr| {
            let ip = end.ip();
            let is_special = match end {
                SocketAddr::V4(four) => four.ip().is_broadcast(),
                // The first say something only together with an interface, the others are in no
                // packet.
                SocketAddr::V6(six) => {
                    let has_no_link = six.ip().is_unicast_link_local() && six.scope_id() == 0;
                    has_no_link || six.ip().to_ipv4_mapped().is_some()
                }
            };
            end.port() != 0
                && !ip.is_unspecified()
                && !ip.is_loopback()
                && !ip.is_multicast()
                && !is_special
        };
        usable(&self.local) && usable(&self.peer) && self.local.is_ipv4() == self.peer.is_ipv4()
    }

    /// Index of the interface that it belongs to, as one of its addresses is link-local; 0: none.
    pub fn link(&self) -> u32 {
        match scope(self.peer) {
            0 => scope(self.local),
            link => link,
        }
    }

    /// The same connection, if it is one of this interface. `None`: it has no link-local address.
    pub fn on_link(&self, link: u32) -> Option<Self> {
        let scoped = |end| match end {
            SocketAddr::V6(six) if six.ip().is_unicast_link_local() => {
                SocketAddrV6::new(*six.ip(), six.port(), 0, link).into()
            }
            end => end,
        };
        let found = Self {
            local: scoped(self.local),
            peer: scoped(self.peer),
        };
        (found.link() != 0).then_some(found)
    }
}

/// Index of the interface that an address names; 0: none.
pub(crate) fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(six) => six.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} -> {}", self.local, self.peer)
    }
}

/// A connection that a process left open, with what is known of its state: the one thing that
/// sources of connections (messages, statistics) hand to [`Resets`](crate::resets::Resets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub connection: Connection,
    /// The sequence number that the peer expects next, if the source knows it. The peer is asked
    /// otherwise, and also if it is out of date.
    pub next_sequence: Option<u32>,
    /// Whose word it is, if nobody has checked that it was that user's while the process lived.
    pub user: Option<u32>,
}

impl Claim {
    /// A claim without a sequence number.
    pub fn unknown(connection: Connection) -> Self {
        Self {
            connection,
            next_sequence: None,
            user: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_a_connection_can_have_are_plausible() {
        let good = Connection {
            local: "10.0.0.1:80".parse().unwrap(),
            peer: "10.0.0.2:4000".parse().unwrap(),
        };
        let six = Connection {
            local: "[2001:db8::1]:80".parse().unwrap(),
            peer: "[2001:db8::2]:4000".parse().unwrap(),
        };
        let near = Connection {
            local: "[fe80::1%3]:80".parse().unwrap(),
            peer: "[fe80::2%3]:4000".parse().unwrap(),
        };
        assert!(good.is_plausible() && six.is_plausible() && near.is_plausible());
        for (good, bad) in [
            (good, "0.0.0.0:1"),
            (good, "10.0.0.1:0"),
            (good, "127.0.0.1:1"),
            (good, "224.0.0.1:1"),
            (good, "255.255.255.255:1"),
            (good, "[2001:db8::1]:1"),
            (six, "[::]:1"),
            (six, "[2001:db8::1]:0"),
            (six, "[::1]:1"),
            (six, "[ff02::1]:1"),
            (six, "[fe80::1]:1"),
            (six, "[::ffff:10.0.0.1]:1"),
            (six, "10.0.0.1:1"),
        ] {
            let end = bad.parse().unwrap();
            assert!(!Connection { local: end, ..good }.is_plausible(), "{bad}");
            assert!(!Connection { peer: end, ..good }.is_plausible(), "{bad}");
        }
    }
}
