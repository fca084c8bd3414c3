//! What routers have said of paths.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use links::family::scope_of;

use ::tcp::Instant;

/// The largest packets that get through to destinations, as routers have said: the kernel has not
/// been told.
#[derive(Debug, Default)]
pub(in crate::tcp) struct PathMtus {
    known: Mutex<HashMap<Place, (u16, Instant)>>,
}

/// A host: its address, and the interface that it is on if that is link-local.
type Place = (IpAddr, u32);

fn place_of(peer: SocketAddr) -> Place {
    (peer.ip(), scope_of(peer))
}

/// How long one is believed (`net.ipv4.route.mtu_expires`).
const EXPIRES: Duration = Duration::from_secs(600);
/// As many as are remembered. Who sends so many messages has to begin anew.
const MOST: usize = 4096;
/// No smaller one is believed (`net.ipv4.route.min_pmtu`; RFC 8200 §5).
const fn mtu_min(peer: IpAddr) -> u16 {
    match peer {
        IpAddr::V4(_) => 552,
        IpAddr::V6(_) => 1280,
    }
}

impl PathMtus {
    pub(in crate::tcp) fn learn(&self, peer: SocketAddr, mtu: u16, now: Instant) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(place_of(peer), (mtu.max(mtu_min(peer.ip())), now + EXPIRES));
    }

    /// What gets through to `peer` of packets of `mtu` bytes.
    pub(in crate::tcp) fn at_most(&self, peer: SocketAddr, mtu: u16, now: Instant) -> u16 {
        match self.lock().get(&place_of(peer)) {
            Some((known, expires)) if now < *expires => mtu.min(*known),
            _ => mtu,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, (u16, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
