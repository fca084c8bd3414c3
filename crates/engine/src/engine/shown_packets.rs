//! Packets that functions of the program's are to see first. They run without a lock, and outside
//! of the library: it may be used in them.

use dev_core::Backend;
use sys::Errno;

use crate::engine::held_packets::owner_of;
use crate::engine::kinds::AnySocket;
use crate::engine::{Engine, Shown};
use crate::sockets::events;
use crate::sockets::stack::Stack;
use crate::sockets::unseen::{Callback, Verdict};

impl<B: Backend> Engine<B> {
    /// Has a function of the program's see what comes to a socket, before calls receive it; `None`
    /// ends that.
    ///
    /// # Errors
    /// `EINVAL`: the socket is the kernel's. `EOPNOTSUPP`: the program takes packets by rings.
    pub fn show_packets(
        &self,
        socket: impl Into<AnySocket<B>>,
        callback: Option<Callback>,
    ) -> Result<(), Errno> {
        let socket = socket.into();
        if self.is_xtreme() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if socket.core().is_committed() {
            return Err(Errno(libc::EINVAL));
        }
        match socket {
            AnySocket::Udp(socket) => socket.show_to(callback),
            AnySocket::Tcp(socket) => socket.show_to(self, callback),
        }
        Ok(())
    }

    /// Whether there is something to be shown.
    #[inline]
    pub fn has_unseen(&self) -> bool {
        self.unseen.has_any()
    }

    /// The next packet to be shown, outside of the library. [`settle`](Self::settle) follows.
    pub fn next_unseen(&self) -> Option<Shown<B>> {
        loop {
            let (socket, generation) = self.unseen.take()?;
            let is_copied = self.held_packets.are_many(self.held_frames_max());
            let next = match socket {
                AnySocket::Udp(socket) => socket.show_next(generation, is_copied),
                AnySocket::Tcp(socket) => socket.show_next(generation, is_copied),
            };
            if next.is_some() {
                return next;
            }
        }
    }

    /// What becomes of a packet that was shown. Once is enough: later it is too late.
    pub fn settle(&self, shown: &Shown<B>, verdict: Verdict) {
        let held = match shown.socket {
            AnySocket::Udp(socket) => socket.settle_shown(shown, verdict),
            AnySocket::Tcp(socket) => socket.settle_shown(self, shown, verdict),
        };
        if let Some(packet) = held {
            let owner = owner_of(shown.socket);
            let counters = shown.socket.core().counters();
            let gauge = &counters.rx_zero_copy_packets;
            self.held_packets.hold_seen(owner, shown.id, packet, gauge);
            let core = shown.socket.core();
            core.unseen.note_held();
            core.readiness.announce(events::IN);
        }
    }
}
