//! Whose a packet is: the sockets of the process, by their addresses. The packets themselves do not
//! say, so that recording one is as short as can be.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use stats::{Direction, PROTOCOL_UDP, Reader};

use super::packet::Headers;

/// How old what is known may be: a number may be another socket's since.
const KEPT: Duration = Duration::from_secs(1);
/// How soon it is looked again for a packet that is nobody's, or a listener's.
const LOOKED: Duration = Duration::from_millis(2);

/// Whose a packet is, as far as is known.
struct Found {
    fds: Vec<i32>,
    /// Nothing else can be found soon: what is a listener's now is a connection's in a moment.
    is_final: bool,
}

/// A socket's number and its ends.
struct Known {
    fd: i32,
    protocol: u32,
    local: SocketAddr,
    peer: Option<SocketAddr>,
}

#[derive(Default)]
pub(super) struct Owners {
    known: Vec<Known>,
    looked: Option<Instant>,
    /// What was found for these ends.
    found: HashMap<(u32, SocketAddr, SocketAddr), Vec<i32>>,
}

impl Owners {
    /// The descriptors of the sockets whose a packet is: one, or those that share its addresses.
    pub(super) fn of(
        &mut self,
        reader: &Reader,
        headers: &Headers,
        direction: Direction,
    ) -> Vec<i32> {
        let (local, peer) = match direction {
            Direction::Received => (headers.destination, headers.source),
            Direction::Sent => (headers.source, headers.destination),
        };
        let key = (headers.protocol, local, peer);
        let age = self.looked.map(|looked| looked.elapsed());
        if age.is_none_or(|age| age >= KEPT) {
            self.look(reader);
        }
        if let Some(fds) = self.found.get(&key) {
            return fds.clone();
        }
        let mut found = self.find(key);
        if !found.is_final && age.is_some_and(|age| age >= LOOKED) {
            self.look(reader);
            found = self.find(key);
        }
        if found.is_final {
            self.found.insert(key, found.fds.clone());
        }
        found.fds
    }

    fn look(&mut self, reader: &Reader) {
        self.looked = Some(Instant::now());
        self.found.clear();
        let closed = reader.closed_sockets().unwrap_or_default();
        let open = reader.sockets().unwrap_or_default();
        // Those that are open first: of two at the same addresses one is closed.
        let sockets = open.into_iter().chain(closed.into_iter().rev());
        let known = sockets.filter_map(|socket| {
            Some(Known {
                fd: socket.fd,
                protocol: socket.protocol,
                local: plain(socket.local?),
                peer: socket.peer.map(plain),
            })
        });
        self.known = known.collect();
    }

    fn find(&self, (protocol, local, peer): (u32, SocketAddr, SocketAddr)) -> Found {
        let (local, peer) = (plain(local), plain(peer));
        let of_port =
            |known: &&Known| known.protocol == protocol && known.local.port() == local.port();
        let is_local = |known: &Known| {
            let ip = known.local.ip();
            ip == local.ip() || ip.is_unspecified() || local.ip().is_multicast()
        };
        let candidates: Vec<_> = self
            .known
            .iter()
            .filter(of_port)
            .filter(|known| is_local(known))
            .collect();
        // A connection is one socket's; listeners and unconnected sockets may share.
        if let Some(known) = candidates.iter().find(|known| known.peer == Some(peer)) {
            return Found {
                fds: vec![known.fd],
                is_final: true,
            };
        }
        let mut fds: Vec<_> = candidates
            .iter()
            .filter(|known| known.peer.is_none())
            .map(|known| known.fd)
            .collect();
        fds.sort_unstable();
        fds.dedup();
        let is_final = protocol == PROTOCOL_UDP && !fds.is_empty();
        Found { fds, is_final }
    }
}

/// Without what a packet does not have: scope, and the prefix of IPv4 in IPv6.
fn plain(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V6(ip) => ip.to_canonical(),
        v4 => v4,
    };
    SocketAddr::new(ip, address.port())
}
