//! Packets that the program holds.

use std::sync::atomic::Ordering;

use dev_core::Backend;
use libc::c_int;
use sys::Errno;

use crate::engine::Engine;
use crate::engine::kinds::AnySocket;
use crate::sockets::stack::Stack;
use crate::sockets::zero_copy::{HeldPacket, Owner, PacketSink};

impl<B: Backend> Engine<B> {
    /// What a receive call has left in a sink is the program's until it gives it back.
    pub fn hold_packets(
        &self,
        socket: impl Into<AnySocket<B>>,
        sink: PacketSink,
    ) -> impl Iterator<Item = HeldPacket> {
        let socket = socket.into();
        let (owner, counters) = (owner_of(socket), socket.core().counters());
        let frames_max = self.held_frames_max();
        let hold = move |packet| {
            let gauge = &counters.rx_zero_copy_packets;
            self.held_packets.hold(owner, packet, frames_max, gauge)
        };
        sink.into_packets().map(hold)
    }

    /// So many frames can be held: half of them serve the rings, whatever the program holds, and
    /// all if they are scarce.
    pub(super) fn held_frames_max(&self) -> usize {
        match self.pool.is_scarce() {
            true => 0,
            false => self.pool.frame_count() as usize / 2,
        }
    }

    /// The program gives packets of a socket back, each by one of two ids: the first that is right.
    ///
    /// # Errors
    /// `ENOENT`: one is none of that socket's, or was given back before. Those before it are free.
    /// `EINVAL`: nor can the socket have any, which is the kernel's.
    pub fn free_packets(
        &self,
        socket: impl Into<AnySocket<B>>,
        ids: impl Iterator<Item = [usize; 2]>,
    ) -> Result<(), Errno> {
        let socket = socket.into();
        let (owner, counters) = (owner_of(socket), socket.core().counters());
        let gauge = &counters.rx_zero_copy_packets;
        let (mut octets, mut result) = (0, Ok(()));
        for ids in ids {
            let mut ids = ids.into_iter();
            match ids.find_map(|id| self.held_packets.take_back(owner, id, gauge)) {
                Some(packet) => octets += packet.as_ref().len(),
                None => {
                    let is_ours = socket.core().is_offloaded();
                    result = Err(Errno(if is_ours { libc::ENOENT } else { libc::EINVAL }));
                    break;
                }
            }
        }
        if let (AnySocket::Tcp(stream), 1..) = (socket, octets) {
            stream.release_held(self, octets);
        }
        result
    }

    /// Threads have asked for acceleration of their sockets, whatever the parameters say.
    pub fn offload_by_thread(&self) {
        self.offloads_by_thread.store(true, Ordering::Relaxed);
    }

    /// Whether sockets are accelerated of threads that have not said anything.
    pub fn offloads_by_default(&self) -> bool {
        self.settings().offloaded_sockets
    }

    /// The counters of a descriptor, or of all (0), as lines.
    pub fn statistics_of(&self, fd: c_int) -> Option<Vec<String>> {
        self.refresh_streams();
        let sockets = self
            .sockets()
            .filter(|(number, _)| fd == 0 || *number == fd);
        let lines: Vec<_> = sockets
            .map(|(_, socket)| socket.core().counters().lines())
            .collect();
        (fd == 0 || !lines.is_empty()).then(|| lines.concat())
    }
}

pub(super) fn owner_of<B: Backend>(socket: AnySocket<B>) -> Owner {
    let core = socket.core();
    Owner {
        socket: std::ptr::from_ref(core).addr(),
        generation: core.generation(),
    }
}
