//! A connection within this host: what its process knows of the two rings.

use std::sync::Arc;

use links::reason::Reason;
use shm::{Direction, Hostile, Incoming, Key, Outgoing, Place, Side, Slot};

use crate::sockets::events;
use crate::sockets::peers::Peer;
use crate::sockets::readiness::{Readiness, Watcher};
use crate::sockets::stack::Stack;

/// A connection within this host.
#[derive(Debug)]
pub(in crate::tcp) struct Local<S: Stack> {
    /// Octets that went through the kernel before there were rings.
    pub(in crate::tcp) sent: u64,
    pub(in crate::tcp) taken: u64,
    pub(in crate::tcp) calls: u32,
    pub(in crate::tcp) stage: Stage<S>,
}

#[derive(Debug)]
pub(in crate::tcp) enum Stage<S: Stack> {
    /// Nothing was asked.
    Begun,
    /// The peer is looked for, since this time.
    Asked(u64),
    /// This process has been there first.
    Announced(u64, Key),
    /// There is memory for both.
    Shared(Rings<S>),
}

/// Both directions of a connection.
#[derive(Debug)]
pub(in crate::tcp) struct Rings<S: Stack> {
    pub(in crate::tcp) peer: Arc<Peer<S>>,
    pub(in crate::tcp) slot: u32,
    pub(in crate::tcp) out: Outgoing,
    pub(in crate::tcp) incoming: Incoming,
    /// At which tick the kernel was asked whether its connection has ended.
    pub(in crate::tcp) asked_nsec: u64,
    /// Something was sent after the peer's end.
    pub(in crate::tcp) is_reset: bool,
}

/// What follows a step of a call.
pub(in crate::tcp) enum Step<T> {
    /// The call goes on with this.
    Go(T),
    /// The call waits, if it does.
    Nothing,
    /// It looks once more.
    Again,
    /// The connection is the kernel's from here on.
    Leave(Reason),
}

impl<S: Stack> Rings<S> {
    pub(in crate::tcp) fn memory(&self) -> Result<Slot<'_>, Hostile> {
        self.peer.slot(self.slot)
    }

    pub(in crate::tcp) fn side(&self) -> Side {
        self.peer.side()
    }

    /// The direction that this process writes.
    pub(in crate::tcp) fn ours(&self) -> Result<&Direction, Hostile> {
        Ok(self.memory()?.direction(self.side()))
    }

    /// Where the next octet comes from.
    #[inline]
    pub(in crate::tcp) fn place(&mut self) -> Result<Place, Hostile> {
        let memory = self.peer.slot(self.slot)?;
        let direction = memory.direction(self.peer.side().other());
        self.incoming.look(direction)
    }

    /// Opens the ring that this process writes, if the peer is ready for it.
    pub(in crate::tcp) fn open(&mut self) -> bool {
        if self.out.is_open() || self.out.is_over() || !self.peer.can_be_woken() {
            return self.out.is_open();
        }
        let Ok(memory) = self.peer.slot(self.slot) else {
            return false;
        };
        let is_open = self.out.open(memory.direction(self.peer.side()));
        if is_open {
            self.peer.ring(self.slot);
        }
        is_open
    }

    /// Whether all goes through memory.
    pub(in crate::tcp) fn are_open(&self) -> bool {
        self.out.is_open() && self.incoming.is_open()
    }

    pub(in crate::tcp) fn room(&mut self) -> Result<usize, Hostile> {
        let memory = self.peer.slot(self.slot)?;
        self.out.room(memory.direction(self.peer.side()))
    }
}

impl<S: Stack> Local<S> {
    pub(in crate::tcp) fn new() -> Self {
        Self {
            sent: 0,
            taken: 0,
            calls: 0,
            stage: Stage::Begun,
        }
    }

    pub(in crate::tcp) fn are_open(&self) -> bool {
        matches!(&self.stage, Stage::Shared(rings) if rings.are_open())
    }

    /// Shows what the rings are ready for; returns that. Under the socket's lock.
    pub(in crate::tcp) fn look<W: Watcher>(&mut self, readiness: &Readiness<W>) -> u32 {
        let Stage::Shared(rings) = &mut self.stage else {
            return 0;
        };
        let mut ready = match rings.place() {
            Ok(Place::Ring(0)) if !rings.peer.is_gone() => 0,
            // The next call finds out what to do.
            Ok(Place::Ring(_)) | Err(Hostile) => events::IN,
            // Whoever hears of its end gives the connection to the kernel, which says the rest.
            Ok(Place::Kernel) => 0,
        };
        if rings.are_open() && rings.room() != Ok(0) {
            ready |= events::OUT;
        }
        readiness.clear(events::IN | events::OUT);
        readiness.set(ready);
        ready
    }
}
