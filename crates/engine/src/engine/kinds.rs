//! The kinds of sockets that there are.

use std::net::{IpAddr, SocketAddr};

use dev_core::{Backend, Frame};
use links::delivery::{Arrival, Parsed};
use links::interface::large_packet::LargePacket;
use links::{Identity, Receiver};

use crate::mux::Registration;
use crate::mux::epoll::EpollSet;
use crate::sockets::direct::DirectReceive;
use crate::sockets::host::Host;
use crate::sockets::pacing::limit::RateLimit;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::{Described, MayOpen, Stack};
use crate::tcp::{TcpSocket, TcpStack};
use crate::udp::{UdpSocket, UdpStack};

/// A socket of any kind.
#[derive(Debug)]
pub enum AnySocket<B: Backend> {
    /// A UDP socket.
    Udp(&'static UdpSocket<Self>),
    /// A TCP socket.
    Tcp(&'static TcpSocket<Self>),
}

impl<B: Backend> Clone for AnySocket<B> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for AnySocket<B> {}

impl<B: Backend> From<&'static UdpSocket<Self>> for AnySocket<B> {
    #[inline]
    fn from(socket: &'static UdpSocket<Self>) -> Self {
        Self::Udp(socket)
    }
}

impl<B: Backend> From<&'static TcpSocket<Self>> for AnySocket<B> {
    #[inline]
    fn from(socket: &'static TcpSocket<Self>) -> Self {
        Self::Tcp(socket)
    }
}

impl<B: Backend> AnySocket<B> {
    /// What was last said of its rate in VMA's words, if that was the last word.
    pub fn rate_limit(self) -> Option<RateLimit> {
        self.core().attachment().rate_limit
    }
}

impl<B: Backend> UdpStack for AnySocket<B> {
    fn as_udp(self) -> Option<&'static UdpSocket<Self>> {
        match self {
            Self::Udp(socket) => Some(socket),
            Self::Tcp(_) => None,
        }
    }
}

impl<B: Backend> TcpStack for AnySocket<B> {
    fn as_tcp(self) -> Option<&'static TcpSocket<Self>> {
        match self {
            Self::Tcp(socket) => Some(socket),
            Self::Udp(_) => None,
        }
    }
}

impl<B: Backend> Receiver for AnySocket<B> {
    type Backend = B;

    #[inline]
    fn identity(self) -> Identity {
        self.core().identity()
    }

    #[inline]
    fn may_share(self) -> bool {
        match self {
            Self::Udp(_) => true,
            Self::Tcp(socket) => socket.may_share(),
        }
    }

    fn each_waiting(self, local: SocketAddr, ends: &mut dyn FnMut(SocketAddr, SocketAddr)) {
        match self {
            Self::Udp(_) => {}
            Self::Tcp(socket) => socket.each_waiting(local, ends),
        }
    }

    #[inline]
    fn deliver(self, packet: &Parsed, frame: Frame, arrival: Arrival) -> Result<(), Frame> {
        match (self, packet) {
            (Self::Udp(socket), Parsed::Udp(datagram)) => socket.deliver(datagram, frame, arrival),
            (Self::Tcp(socket), Parsed::Tcp(segment)) => {
                socket.deliver(segment, frame, arrival.interface)
            }
            // No flow leads to a socket of another protocol.
            _ => Err(frame),
        }
    }

    fn deliver_large(self, packet: &Parsed, large: LargePacket, link_index: u32) {
        if let (Self::Tcp(socket), Parsed::Tcp(segment)) = (self, packet) {
            socket.deliver_large(segment, large, link_index);
        }
    }

    fn end_batch(self, polled: u32) {
        match self {
            Self::Udp(_) => {}
            Self::Tcp(socket) => socket.end_batch(polled),
        }
    }
}

impl<B: Backend> Stack for AnySocket<B> {
    type Object = Object<B>;
    type Place = Registration<Self>;

    #[inline]
    fn core(self) -> &'static SocketCore<Self> {
        match self {
            Self::Udp(socket) => socket,
            Self::Tcp(socket) => socket,
        }
    }

    #[inline]
    fn look(self) -> u32 {
        match self {
            Self::Udp(socket) => socket.look(),
            Self::Tcp(socket) => socket.look(),
        }
    }

    #[inline]
    fn receive_at_once(
        self,
        call: &mut DirectReceive<'_, '_, Self>,
        packet: &Parsed,
        frame: &Frame,
        arrival: Arrival,
    ) {
        // A stream's octets are read from its queue.
        if let (Self::Udp(socket), Parsed::Udp(datagram)) = (self, packet) {
            socket.receive_at_once(call, datagram, frame, arrival);
        }
    }

    fn follow_kernel(self, host: &Host<Self>, may_open: MayOpen) -> Vec<u32> {
        match self {
            Self::Udp(socket) => socket.follow_kernel(host, may_open),
            Self::Tcp(socket) => socket.follow_kernel(host, may_open),
        }
    }

    fn follow_group(self, host: &Host<Self>, group: IpAddr) -> bool {
        match self {
            Self::Udp(socket) => socket.follow_group(host, group),
            Self::Tcp(_) => true,
        }
    }

    fn hand_over_queue(self, host: &Host<Self>) {
        match self {
            Self::Udp(socket) => socket.hand_over_queue(host),
            Self::Tcp(socket) => socket.hand_over_rest(host),
        }
    }

    fn prepare_hand_over(self, host: &Host<Self>) {
        match self {
            Self::Udp(socket) => {
                socket.leaves_shares(host);
                socket.leaves_groups(host);
            }
            Self::Tcp(socket) => {
                socket.hand_over_stream(host);
                socket.leaves_with_others(host);
            }
        }
    }

    fn peer_has_news(self, host: &Host<Self>, generation: u32) {
        match self {
            Self::Udp(_) => {}
            Self::Tcp(socket) => socket.peer_has_news(host, generation),
        }
    }

    fn receive_limit_changed(self) {
        match self {
            Self::Udp(socket) => socket.refresh_receive_limit(),
            Self::Tcp(_) => {}
        }
    }

    fn headers_changed(self) {
        match self {
            Self::Udp(socket) => socket.forget_destinations(),
            Self::Tcp(_) => {}
        }
    }

    fn message_options_changed(self) {
        match self {
            Self::Udp(socket) => socket.refresh_message_options(),
            Self::Tcp(_) => {}
        }
    }

    fn follow_ring_choice(self, host: &Host<Self>) {
        match self {
            Self::Udp(socket) => socket.follow_ring_choice(host),
            Self::Tcp(_) => {}
        }
    }
}

/// What a descriptor stands for.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "objects live in slabs of one kind each"
)]
pub enum Object<B: Backend> {
    /// A UDP socket.
    Udp(UdpSocket<AnySocket<B>>),
    /// A TCP socket.
    Tcp(TcpSocket<AnySocket<B>>),
    /// An epoll set that has such sockets in it.
    Epoll(EpollSet<AnySocket<B>>),
}

impl<B: Backend> Described<AnySocket<B>> for Object<B> {
    #[inline]
    fn socket(&'static self) -> Option<AnySocket<B>> {
        match self {
            Self::Udp(socket) => Some(AnySocket::Udp(socket)),
            Self::Tcp(socket) => Some(AnySocket::Tcp(socket)),
            Self::Epoll(_) => None,
        }
    }
}
