//! How a connection within this host gets memory: what the internal thread does with its socket.

use std::sync::Arc;

use links::family::canonical;

use libc::c_int;
use shm::{Incoming, Key, Outgoing, RING_BYTES};

use crate::sockets::host::Host;
use crate::sockets::peers::Peer;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::local::{Rings, Stage};

/// `SO_NETNS_COOKIE`
const SO_NETNS_COOKIE: c_int = 71;

impl<S: TcpStack> TcpSocket<S> {
    /// What both ends call the connection. `None`: it has none, or not yet.
    pub(crate) fn meeting_key(&self) -> Option<Key> {
        let fd = self.fd();
        let mut cookie = [0; 8];
        sys::streams::option_bytes(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie).ok()?;
        let local = canonical(sys::local_address(fd).ok()??);
        let peer = canonical(sys::peer_address(fd).ok()??);
        Key::new(u64::from_ne_bytes(cookie), local, peer)
    }

    /// The process has been at the meeting first. `false`: the socket does not look any more.
    pub(crate) fn note_announced(&self, generation: u32, key: &Key) -> bool {
        let mut role = self.role.lock();
        let Role::Local(local) = &mut *role else {
            return false;
        };
        let Stage::Asked(since) = &local.stage else {
            return false;
        };
        if self.generation() != generation {
            return false;
        }
        local.stage = Stage::Announced(*since, key.clone());
        true
    }

    /// There is memory for the connection. `false`: it does not want any.
    pub(crate) fn shares(&self, generation: u32, peer: &Arc<Peer<S>>, slot: u32) -> bool {
        let capacity = capacity(self.fd());
        let mut role = self.role.lock();
        let Role::Local(local) = &mut *role else {
            return false;
        };
        let is_looking = matches!(&local.stage, Stage::Asked(_) | Stage::Announced(..));
        let Ok(memory) = peer.slot(slot) else {
            return false;
        };
        if self.generation() != generation || !is_looking || self.is_committed() {
            return false;
        }
        let incoming = Incoming::begin(memory.direction(peer.side().other()), local.taken);
        local.stage = Stage::Shared(Rings {
            peer: Arc::clone(peer),
            slot,
            out: Outgoing::new(local.sent, capacity),
            incoming,
            asked_nsec: 0,
            is_reset: false,
        });
        drop(role);
        // Who waits for the kernel alone would not hear of what comes from here on.
        self.interfaces_changed();
        true
    }

    /// The peer is ready for a ring, perhaps.
    pub(crate) fn may_open(&'static self, host: &Host<S>, generation: u32) {
        let are_open = match &mut *self.role.lock() {
            Role::Local(local) if self.generation() == generation => {
                if let Stage::Shared(rings) = &mut local.stage {
                    rings.open();
                }
                local.look(&self.readiness);
                local.are_open()
            }
            _ => return,
        };
        self.follow_rings(host, are_open);
    }
}

/// Octets that a ring may hold, so that the kernel's connection takes them when it is closed.
fn capacity(fd: c_int) -> usize {
    let size = |name| {
        let size = sys::option_int(fd, libc::SOL_SOCKET, name).unwrap_or(0);
        usize::try_from(size).unwrap_or(0)
    };
    // Half of each is for what the kernel needs beside the octets.
    let room = (size(libc::SO_SNDBUF) + size(libc::SO_RCVBUF)) / 4;
    room.clamp(1, RING_BYTES)
}
