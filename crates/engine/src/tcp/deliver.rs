//! Segments that came past the kernel. Everything here runs under the ring's lock: nothing calls
//! the kernel.

use std::net::SocketAddr;

use links::delivery;
use links::interface::large_packet::LargePacket;

use ::tcp::{Ecn, Instant};
use dev_core::Frame;
use wire::tcp::Segment;

use crate::sockets::payload::Received;
use crate::tcp::clock::now;
use crate::tcp::listen::Listening;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::exempt::opens;
use crate::tcp::state::origin::Origin;
use crate::tcp::stream::{Outcome, Sent, Stream};
use crate::tcp::to_kernel::hand_over::ETHERNET_HEADER_LEN;
use crate::tcp::wishes::WHOLE_SYN;

impl<S: TcpStack> TcpSocket<S> {
    /// A segment in a frame, which came in on the interface with this index. `Err`: the frame is
    /// not needed.
    #[inline]
    pub(crate) fn deliver(
        &'static self,
        segment: &Segment,
        frame: Frame,
        link_index: u32,
    ) -> Result<(), Frame> {
        let headers = self.globals.pool.data(&frame);
        let origin = Origin::of(headers, link_index);
        self.globals.saved_syns.see(segment, headers, link_index);
        if segment.payload_len == 0 {
            self.take(segment, origin, None);
            return Err(frame);
        }
        let (start, len) = (segment.payload_offset, segment.payload_len);
        let data = Received::of_frame(self.globals.pool, frame, start, len);
        self.take(segment, origin, Some(data));
        Ok(())
    }

    /// One that was merged of several, and is longer than a frame.
    pub(crate) fn deliver_large(
        &'static self,
        segment: &Segment,
        packet: LargePacket,
        link_index: u32,
    ) {
        let origin = Origin::of(packet.as_ref(), link_index);
        let data = Received::of_large(packet, segment.payload_offset, segment.payload_len);
        self.take(segment, origin, Some(data));
    }

    #[inline]
    pub(super) fn take(&'static self, segment: &Segment, origin: Origin, data: Option<Received>) {
        let is_ipv4 = segment.endpoints.source().is_ipv4();
        if !self.wishes.admits(is_ipv4, segment.ttl) {
            return;
        }
        let now = now();
        let mut role = self.role.lock();
        let outcome = match &mut *role {
            Role::Stream(stream) if stream.is_in_the_way_of(&segment.header) => {
                stream.gives_way();
                self.globals
                    .reopenings
                    .add(stream.interface, segment, origin);
                Outcome {
                    wake_up: Some(now),
                    ..Outcome::default()
                }
            }
            Role::Stream(stream) => self.take_into(stream, now, segment, data),
            Role::Listener(_)
                if self
                    .globals
                    .exempt
                    .takes((self.into(), self.generation()), segment, origin) =>
            {
                Outcome {
                    wake_up: Some(now),
                    ..Outcome::default()
                }
            }
            Role::Listener(listening) => {
                let outcome = listening.take(&self.core, self.globals, now, segment, origin, data);
                if self.wishes.saves_syn() != 0 && opens(segment.header.flags) {
                    self.keep_syn(listening, delivery::ends(segment, origin.link_index));
                }
                outcome
            }
            Role::Returning(returning) => returning.take(
                (&self.core, self.globals),
                now,
                segment,
                origin.link_index,
                data,
            ),
            Role::Moving(moving) => {
                moving.take(segment, data);
                Outcome::default()
            }
            // It was on its way when the connection went.
            // What goes through the kernel does not come here.
            Role::None | Role::Local(_) => Outcome::default(),
        };
        drop(role);
        self.announce(&outcome);
        if outcome.needs_kick || outcome.needs_egress {
            // Another interface's: the thread that polls this one does not tell that one. Or a way
            // has to be found, which this one cannot do here.
            self.globals.timers.arm(self.timer(), now);
        }
    }

    #[inline]
    fn take_into(
        &'static self,
        stream: &mut Stream<S>,
        now: Instant,
        segment: &Segment,
        data: Option<Received>,
    ) -> Outcome {
        if self.wishes.stamps().any()
            && let Some(data) = &data
        {
            stream.note_arrival(&segment.header, data);
        }
        let ecn = Ecn::from_tos(segment.tos);
        stream
            .connection
            .on_segment(now, &segment.header, ecn, data);
        let counters = self.counters();
        counters.rx_packets.add(1);
        counters.rx_bytes.add(segment.payload_len.into());
        if self.globals.pool.is_scarce() {
            stream.connection.relieve(0);
        }
        if stream.sends_after_batch() {
            if !stream.is_in_batch {
                stream.is_in_batch = true;
                stream.interface.add_to_batch(self.into());
            }
            return stream.review(&self.core, Sent::default(), now);
        }
        let mut outcome = stream.settle_in_batch(&self.core, now);
        if outcome.needs_kick
            && let Some(egress) = &stream.egress
        {
            outcome.needs_kick = !egress.sender.note_reply_to(stream.interface);
        }
        outcome
    }

    /// A segment has opened a connection, or was in vain.
    #[cold]
    fn keep_syn(&self, listening: &mut Listening<S>, ends: (SocketAddr, SocketAddr)) {
        let Some(mut headers) = self.globals.saved_syns.take(ends) else {
            return;
        };
        if self.wishes.saves_syn() != WHOLE_SYN {
            headers = headers
                .get(ETHERNET_HEADER_LEN..)
                .unwrap_or_default()
                .into();
        }
        listening.keep_syn(ends, headers);
    }

    /// All that came from an interface is taken: sends what was left to this moment. No lock may be
    /// held.
    pub(crate) fn end_batch(&'static self, polled: u32) {
        let now = now();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return;
        };
        stream.is_in_batch = false;
        let outcome = stream.settle(&self.core, now);
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        if outcome.needs_kick
            && let Some(sender) = sender
        {
            if sender.interface.spec().index == polled {
                sender.note_reply_to(sender.interface);
            } else {
                sender.start_segments();
            }
        }
        self.announce(&outcome);
        if outcome.needs_egress {
            // This thread may be in a call that must not look for one.
            self.globals.timers.arm(self.timer(), now);
        }
    }

    /// Tells those who wait of what has happened, and has the timer set. Without the socket's lock.
    #[inline]
    pub(super) fn announce(&'static self, outcome: &Outcome) {
        if outcome.has_ended {
            self.globals.ended.add(self.into());
        }
        if self.unseen.is_xtreme() {
            self.note_news(outcome.is_unseen);
        } else if outcome.is_unseen {
            self.unseen
                .add(self.into(), self.generation(), &self.interfaces);
        }
        if outcome.events != 0 {
            self.readiness.announce(outcome.events);
        }
        if let Some(at) = outcome.wake_up {
            self.globals.timers.arm(self.timer(), at);
        }
    }
}
