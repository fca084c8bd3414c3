//! What ICMP says of connections. The kernel's sockets have not sent the segments and ignore the
//! messages, so they are looked at here (`sys/path_notices.rs`). A SYN whose next hop is not known
//! goes through the kernel, which asks for the neighbour and tells by ICMP, too, if there is none.

use std::net::SocketAddr;

use links::family::link_of;

use ::tcp::{IcmpError, Instant, SeqNumber, State, Transmit};
use sys::SegmentError;
use wire::EthernetAddresses;
use wire::tcp::Template;

use crate::sockets::host::Host;
use crate::tcp::clock::now;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::{Outcome, Stream};
use crate::tcp::to_kernel::hand_over::ETHERNET_HEADER_LEN;

impl<S: TcpStack> TcpSocket<S> {
    /// ICMP says that a segment did not arrive, which is the socket's or of a connection that it
    /// has not accepted. No lock may be held.
    pub(crate) fn take_segment_error(&'static self, host: &Host<S>, error: &SegmentError) {
        let (kind, code) = error.kind;
        let kind = match error.peer {
            SocketAddr::V4(_) => {
                let mtu = u16::try_from(error.mtu).unwrap_or(u16::MAX);
                IcmpError::from_icmp(kind, code, mtu)
            }
            SocketAddr::V6(_) => IcmpError::from_icmpv6(kind, code, error.mtu),
        };
        let Some(kind) = kind else {
            return;
        };
        if !self.wishes.admits(error.peer.is_ipv4(), error.hops_left) {
            return;
        }
        let now = now();
        let seq = SeqNumber(error.seq);
        let mut role = self.role.lock();
        let outcome = match &mut *role {
            Role::Stream(stream) if (stream.local, stream.peer) == (error.local, error.peer) => {
                self.tell(stream, kind, seq, now);
                let outcome = stream.settle(&self.core, now);
                let sender = stream.egress.as_ref().map(|egress| *egress.sender);
                drop(role);
                return self.after(host, &outcome, sender);
            }
            Role::Listener(listening) => {
                let key = (error.local, error.peer);
                let tell = |stream: &mut Stream<S>| self.tell(stream, kind, seq, now);
                listening.with_child(key, &self.core, self.globals, now, tell)
            }
            Role::Returning(returning) => {
                let key = (error.local, error.peer);
                let tell = |stream: &mut Stream<S>| self.tell(stream, kind, seq, now);
                let listening = &mut returning.listening;
                listening.with_child(key, &self.core, self.globals, now, tell)
            }
            _ => Outcome::default(),
        };
        drop(role);
        self.announce(&outcome);
        self.globals.timers.arm(self.timer(), now);
    }

    fn tell(&self, stream: &mut Stream<S>, error: IcmpError, seq: SeqNumber, now: Instant) {
        let numbers = stream.connection.numbers();
        // Whoever makes one up has to guess a number that is outstanding (RFC 5927).
        let is_outstanding = numbers.snd_una <= seq && seq < numbers.snd_nxt;
        if let IcmpError::PacketTooBig { mtu } = error
            && is_outstanding
        {
            self.globals.path_mtus.learn(stream.peer, mtu, now);
        }
        stream.connection.on_icmp(error, seq);
    }

    /// Lets the kernel send a SYN: it finds the neighbour, or that there is none.
    pub(super) fn open_through_kernel(&self, host: &Host<S>) {
        let now = now();
        let mut packets = Vec::new();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return;
        };
        if stream.connection.state() != State::SynSent {
            return;
        }
        let nowhere = EthernetAddresses {
            source: [0; 6],
            destination: [0; 6],
        };
        let hop_limit = host.network().hop_limit(stream.interface.spec().index);
        let template =
            stream
                .headers
                .template(nowhere, (stream.local, stream.peer), hop_limit, false);
        let mut transmit = Transmit::default();
        while stream.connection.poll_transmit(now, &mut transmit) {
            let payload = stream.connection.payload(&transmit);
            let len: usize = payload.clone().map(<[u8]>::len).sum();
            let mut frame = vec![0; Template::MAX_HEADERS_LEN + len];
            let ecn = transmit.ecn as u8;
            if let Some(len) = template.emit(&mut frame, 0, ecn, &transmit.header, payload) {
                frame.truncate(len);
                packets.push(frame.split_off(ETHERNET_HEADER_LEN));
            }
        }
        stream.publish();
        let link = link_of(stream.local, stream.peer);
        let wake_up = stream.connection.poll_wake_up();
        drop(role);
        if let Some(raw) = host.return_socket() {
            for packet in packets {
                raw.send(&packet, link);
            }
        }
        if let Some(at) = wake_up {
            self.globals.timers.arm(self.timer(), at);
        }
    }
}
