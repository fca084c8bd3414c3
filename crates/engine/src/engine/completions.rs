//! What a ring of the program's has to tell (SocketXtreme): packets as they are in the library's
//! memory, events, and connections that were accepted.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use dev_core::Backend;
use libc::c_int;
use links::interface::ring_set::RingSet;
use links::moderation::Moderation;
use sys::Errno;

use crate::engine::kinds::AnySocket;
use crate::engine::{Engine, TcpSocket};
use crate::sockets::channels::Channel;
use crate::sockets::events;
use crate::sockets::payload::Received;
use crate::sockets::stack::Stack;

/// A ring of the program's.
#[derive(Debug)]
pub struct ProgramRing<B: Backend>(&'static Channel<AnySocket<B>>);

/// A packet that the program has, until [`Engine::release`].
#[derive(Debug)]
pub struct LentPacket<B: Backend> {
    socket: AnySocket<B>,
    generation: u32,
    packet: Received,
}

impl<B: Backend> LentPacket<B> {
    /// Its octets, which stay where they are.
    #[inline]
    pub fn octets(&self) -> &[u8] {
        self.packet.as_ref()
    }
}

/// What has come.
#[derive(Debug)]
pub enum News<B: Backend> {
    /// A packet.
    Packet(LentPacket<B>),
    /// Events of epoll.
    Events(u32),
    /// A connection, which has got a descriptor, of the listener behind another.
    Accepted(c_int),
}

/// It, with whom it is of: what the program calls the socket, and the peer.
#[derive(Debug)]
pub struct Completion<B: Backend> {
    /// What has come.
    pub news: News<B>,
    /// `SO_VMA_USER_DATA`, or the descriptor.
    pub user_data: u64,
    /// The peer.
    pub source: Option<SocketAddr>,
    /// When it came by the device's clock, if the socket asks for that; else 0.
    pub device_nsec: u64,
}

impl<B: Backend> Engine<B> {
    /// The ring behind a descriptor. `Err`: `EOPNOTSUPP`, the program is not one of SocketXtreme;
    /// `EBADFD`, it is none.
    pub fn program_ring(&self, fd: RawFd) -> Result<ProgramRing<B>, Errno> {
        let channels = self.unseen.channels();
        let channels = channels.ok_or(Errno(libc::EOPNOTSUPP))?;
        let found = channels.iter().find(|channel| channel.is_known_by(fd));
        found.map(ProgramRing).ok_or(Errno(libc::EBADFD))
    }

    /// Takes up to `max` completions of a ring; receives if there are none yet.
    #[inline]
    pub fn complete(
        &self,
        ring: ProgramRing<B>,
        max: usize,
        mut give: impl FnMut(Completion<B>),
    ) -> usize {
        let count = self.take_completions(ring.0, max, &mut give);
        if count > 0 || max == 0 {
            return count;
        }
        ring.0.receive();
        self.take_completions(ring.0, max, &mut give)
    }

    fn take_completions(
        &self,
        channel: &Channel<AnySocket<B>>,
        max: usize,
        give: &mut impl FnMut(Completion<B>),
    ) -> usize {
        let mut count = 0;
        while count < max
            && let Some((socket, generation)) = channel.take()
        {
            let user_data = socket.core().unseen.user_data.load(Ordering::Relaxed);
            let mut packet = |packet: Received, source, device_nsec| {
                let lent = LentPacket {
                    socket,
                    generation,
                    packet: self.held_packets.lend(packet, self.held_frames_max()),
                };
                give(Completion {
                    news: News::Packet(lent),
                    user_data,
                    source: Some(source),
                    device_nsec,
                });
            };
            count += match socket {
                AnySocket::Udp(socket) => socket.take_unseen(generation, max - count, &mut packet),
                AnySocket::Tcp(socket) if socket.is_listener() => {
                    self.accept_some(socket, generation, max - count, give)
                }
                AnySocket::Tcp(socket) => {
                    let (packets, now) = socket.take_unseen(generation, max - count, &mut packet);
                    if let Some(events) = now {
                        give(Completion {
                            news: News::Events(events),
                            user_data,
                            source: None,
                            device_nsec: 0,
                        });
                    }
                    packets + usize::from(now.is_some())
                }
            };
        }
        count
    }

    /// Accepts connections that wait. No lock is held.
    #[cold]
    fn accept_some(
        &self,
        listener: &'static TcpSocket<B>,
        generation: u32,
        max: usize,
        give: &mut impl FnMut(Completion<B>),
    ) -> usize {
        listener.begin_taking_news();
        let fd = listener.fd();
        let mut count = 0;
        while count < max
            && listener.generation() == generation
            && listener.readiness.now() & events::IN != 0
        {
            let Some(Ok((accepted, peer))) = self.accept(listener, 0) else {
                break;
            };
            count += 1;
            let user_data = accepted as u64;
            give(Completion {
                news: News::Accepted(fd),
                user_data,
                source: Some(peer),
                device_nsec: 0,
            });
            if let Some(socket) = self.tcp(accepted) {
                socket.tells_news(self);
            }
        }
        if count == max {
            listener.tells_news(self);
        }
        count
    }

    /// The program is through with a packet.
    pub fn release(&self, lent: LentPacket<B>) {
        self.held_packets.came_back(&lent.packet);
        if let AnySocket::Tcp(stream) = lent.socket
            && stream.generation() == lent.generation
        {
            stream.release_held(self, lent.packet.as_ref().len());
        }
    }

    /// The rings by which a socket receives, or would if it did: none is known of one without an
    /// address.
    pub fn rings_of(&self, socket: impl Into<AnySocket<B>>) -> Vec<RawFd> {
        let socket = socket.into();
        let channels = self.unseen.rings();
        let of = |interface, rings| channels.of(interface, rings)?.fd();
        let present: Vec<_> = socket
            .core()
            .interfaces
            .iter_rings()
            .filter_map(|(interface, rings)| of(interface, rings))
            .collect();
        if !present.is_empty() {
            return present;
        }
        self.interfaces_at(socket)
            .into_iter()
            .filter_map(|index| self.links.open_for_flows(index).ok())
            .filter_map(|interface| of(interface, RingSet::of(0)))
            .collect()
    }

    /// The interfaces that the address of a socket leads to, or the device that it is bound to.
    fn interfaces_at(&self, socket: AnySocket<B>) -> Vec<u32> {
        let facts = self.links.facts();
        let eligible = facts.iter().filter(|facts| facts.is_eligible());
        let device = sys::option_int(
            socket.core().fd(),
            libc::SOL_SOCKET,
            crate::sockets::options::SO_BINDTOIFINDEX,
        );
        if let Ok(device @ 1..) = device {
            let device = device.cast_unsigned();
            let found = eligible.map(|facts| facts.spec.index);
            return found.filter(|index| *index == device).collect();
        }
        match links::family::Addresses::of(socket.core().fd()) {
            Ok(Some(addresses)) if addresses.local.port() == 0 => Vec::new(),
            Ok(Some(addresses)) if addresses.local.ip().is_unspecified() => {
                eligible.map(|facts| facts.spec.index).collect()
            }
            Ok(Some(addresses)) => {
                let found = self.links.owner_of(addresses.local, &facts);
                found.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// What completions of a socket carry from here on.
    pub fn set_user_data(&self, socket: impl Into<AnySocket<B>>, data: u64) {
        let socket = socket.into();
        socket
            .core()
            .unseen
            .user_data
            .store(data, Ordering::Relaxed);
    }

    /// What they carry.
    pub fn user_data(&self, socket: impl Into<AnySocket<B>>) -> u64 {
        let socket = socket.into();
        socket.core().unseen.user_data.load(Ordering::Relaxed)
    }

    /// `SO_VMA_FLOW_TAG`: a number of the program's for what the socket receives.
    pub fn set_flow_tag(&self, socket: impl Into<AnySocket<B>>, tag: u32) {
        let socket = socket.into();
        socket.core().unseen.flow_tag.store(tag, Ordering::Relaxed);
    }

    /// That; 0 for none.
    pub fn flow_tag(&self, socket: impl Into<AnySocket<B>>) -> u32 {
        let socket = socket.into();
        socket.core().unseen.flow_tag.load(Ordering::Relaxed)
    }

    /// How wake-ups by the ring behind a descriptor are moderated from here on. `Err`: `EBADFD`, it
    /// is none.
    pub fn moderate_ring(&self, fd: RawFd, moderation: Moderation) -> Result<(), Errno> {
        let mut rings = self.unseen.rings().iter();
        let ring = rings.find(|channel| channel.is_known_by(fd));
        ring.ok_or(Errno(libc::EBADFD))?.moderate(moderation);
        Ok(())
    }

    /// The headers of what a socket sends to its peer: with that of UDP, without that of TCP, which
    /// differs. `None`: it has no peer, or is the kernel's.
    pub fn network_header(&self, socket: impl Into<AnySocket<B>>) -> Option<Vec<u8>> {
        match socket.into() {
            AnySocket::Udp(socket) => socket.network_header(self),
            AnySocket::Tcp(socket) => socket.network_header(),
        }
    }

    /// Whether the program takes completions.
    pub fn is_xtreme(&self) -> bool {
        self.unseen.channels().is_some()
    }
}
