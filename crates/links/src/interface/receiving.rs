//! Receiving: whose a packet is, and its way there.

use std::sync::atomic::Ordering;

use dev_core::{Backend, Frame, RxRing};
use stats::Direction;
use wire::ip::{self, Endpoints};
use wire::{Malformed, ipv4, ipv6};

use crate::delivery::{Arrival, Parsed};
use crate::interface::Interface;
use crate::interface::multi_buffer::MultiBuffer;
use crate::interface::receive_ring::{ReceiveRing, RxSide, Tables};
use crate::interface::send_ring::SendRing;
use crate::interface::stream_detector::StreamDetector;
use crate::receiver::{DirectCall, Receiver};
use crate::wait::WakesLater;

/// One of so many frames is timed: two looks at the clock cost as much as a counter, spread over
/// all of them.
const FRAMES_PER_TIMED: u32 = 64;
/// Where several rings receive, each tells the sending rings of other numbers of so many frames at
/// a time: a fraction of what makes a bulk sender (`doorbell.rs`).
const ANSWERS_MIN: usize = 64;

/// The time if this frame is to be timed, else 0.
#[inline]
fn arrival_nsec(until_timed: &mut u32) -> u64 {
    if *until_timed > 0 {
        *until_timed -= 1;
        return 0;
    }
    *until_timed = FRAMES_PER_TIMED - 1;
    sys::now_nsec()
}

impl<S: Receiver> Interface<S> {
    /// Receives up to a batch from a ring, and delivers it. Returns the number of frames.
    #[inline]
    pub(super) fn poll_ring<D: DirectCall<S>>(
        &self,
        number: usize,
        direct: &mut Option<D>,
    ) -> usize {
        if self.condition.concerns_receivers() && self.look_before_receiving() {
            return self.poll_recorded(number);
        }
        let _wakes = WakesLater::begin();
        let mut guard = self.rx.lock(number);
        let (tables, side) = guard.both();
        let count = self.receive::<true, false, _>(tables, side, number, direct);
        drop(guard);
        self.end_batch();
        self.start_replies();
        count
    }

    /// A batch, or what has come so far: what comes meanwhile may wait for the next call, so that a
    /// sender without pauses does not keep this one from returning. The two have code of their own:
    /// the batch's is a ping-pong's. So has what is recorded.
    #[inline(always)]
    pub(super) fn receive<const BATCH: bool, const RECORDED: bool, D: DirectCall<S>>(
        &self,
        tables: &Tables<S>,
        side: &mut RxSide<S::Backend>,
        number: usize,
        direct: &mut Option<D>,
    ) -> usize {
        let receiver = self.receivers.get(number);
        let RxSide {
            ring,
            until_timed,
            multi_buffer,
            stream_detector,
            answers,
        } = side;
        let (mut bytes, mut in_pieces) = (0, 0);
        let sink = |frame: Frame| {
            bytes += frame.len();
            if multi_buffer.are_missing() || frame.continues() {
                in_pieces += 1;
                return self.take_piece(receiver, tables, frame, multi_buffer);
            }
            if RECORDED {
                self.record(Direction::Received, self.pool.data(&frame));
            }
            let arrived_nsec = arrival_nsec(until_timed);
            self.deliver(receiver, tables, frame, arrived_nsec, direct);
        };
        let count = if BATCH {
            ring.poll(self.pool, self.poll_batch_max, sink)
        } else {
            ring.drain(self.pool, sink)
        };
        if count > 0 {
            if self.receivers.is_one() {
                self.senders_have_answers(count);
            } else {
                self.sender_has_answers(number, count, answers);
            }
            self.queue_stats.rx_drained_max.raise_to(count as u64);
            receiver.stats.rx_packets.add(count as u64);
            receiver.stats.rx_bytes.add(bytes as u64);
            if stream_detector.received(count - in_pieces) {
                let has_groups = tables.groups.any_steered();
                self.look_at_answers(receiver, stream_detector, has_groups, ring);
            }
        }
        count
    }

    /// Those who send by other rings than one of the same number wait for answers that come by this
    /// one, too, but not as a rule.
    #[inline(never)]
    fn sender_has_answers(&self, number: usize, frames: usize, for_others: &mut usize) {
        if let Some(ring) = self.send_rings.get(number) {
            ring.doorbell.frames_received(frames);
        }
        *for_others += frames;
        if *for_others >= ANSWERS_MIN {
            let frames = std::mem::take(for_others);
            self.senders_have_answers(frames);
        }
    }

    /// Takes a piece, and delivers the packet if it is the last. Under the ring's lock.
    #[cold]
    fn take_piece(
        &self,
        receiver: &ReceiveRing<S::Backend>,
        tables: &Tables<S>,
        frame: Frame,
        multi_buffer: &mut MultiBuffer,
    ) {
        let continues = frame.continues();
        let packet = multi_buffer.take(self.pool.data(&frame), continues);
        self.pool.give(frame);
        let Some(long) = packet else {
            return;
        };
        self.record(Direction::Received, long.as_ref());
        let packet = match Parsed::of(long.as_ref(), self.checksums) {
            Ok(packet) => packet,
            Err(malformed) => return receiver.count_malformed(malformed),
        };
        if tables.refused.contains_source(packet.source()) {
            return receiver.stats.rx_dropped_malformed.add(1);
        }
        let (source, destination) = (packet.source(), packet.destination());
        match tables.flows.look_up(packet.protocol(), source, destination) {
            Some(socket) => {
                let socket = tables.reuseport.choose(&tables.flows, &packet, socket);
                socket.deliver_large(&packet, long, self.spec.index);
            }
            None => receiver.stats.rx_dropped_no_socket.add(1),
        }
    }

    /// Until the next look at what kind of traffic comes.
    pub(super) fn expect_bursts(&self) {
        for ring in 0..self.receivers.count() {
            self.rx.lock(ring).both().1.ring.expect_bursts(true);
        }
    }

    /// Under the ring's lock.
    #[cold]
    fn look_at_answers(
        &self,
        receiver: &ReceiveRing<S::Backend>,
        stream_detector: &mut StreamDetector,
        has_groups: bool,
        ring: &mut <S::Backend as Backend>::Rx,
    ) {
        let sent = self.send_rings.iter().map(SendRing::sent).sum();
        let gap_nsec = stream_detector.look(sent, sys::now_nsec());
        ring.expect_bursts(gap_nsec.is_some() || has_groups);
        receiver
            .stream_gap_nsec
            .store(gap_nsec.unwrap_or(0), Ordering::Relaxed);
    }

    /// Each version has its own copy of the same code: IPv4's is as short as it would be alone.
    #[allow(
        clippy::redundant_closure,
        reason = "what calls a function by its name is not inlined"
    )]
    #[inline]
    fn deliver<D: DirectCall<S>>(
        &self,
        receiver: &ReceiveRing<S::Backend>,
        tables: &Tables<S>,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<D>,
    ) {
        if ip::is_v4(self.pool.data(&frame)) {
            self.deliver_as(
                |it| ipv4::parse(it),
                receiver,
                tables,
                frame,
                arrived_nsec,
                direct,
            );
        } else {
            self.deliver_v6(receiver, tables, frame, arrived_nsec, direct);
        }
    }

    #[allow(
        clippy::redundant_closure,
        reason = "what calls a function by its name is not inlined"
    )]
    #[inline(never)]
    fn deliver_v6<D: DirectCall<S>>(
        &self,
        receiver: &ReceiveRing<S::Backend>,
        tables: &Tables<S>,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<D>,
    ) {
        self.deliver_as(
            |it| ipv6::parse(it),
            receiver,
            tables,
            frame,
            arrived_nsec,
            direct,
        );
    }

    #[inline(always)]
    fn deliver_as<D: DirectCall<S>>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<ip::Packet<'_>, Malformed>,
        receiver: &ReceiveRing<S::Backend>,
        tables: &Tables<S>,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<D>,
    ) {
        let checksums = self.checksums.of_frame(&frame);
        let packet = match parse(self.pool.data(&frame)) {
            Ok(packet) => packet,
            Err(malformed) => return self.drop_malformed(receiver, frame, malformed),
        };
        // Each protocol has its own copy of what follows, too: together they would copy what was
        // parsed, to one place of the size of the larger one.
        let to = (receiver, tables);
        match packet.protocol {
            ip::PROTOCOL_UDP => match wire::parse_udp(&packet, checksums.udp) {
                Ok(datagram) => {
                    let parsed = Parsed::Udp(datagram);
                    self.deliver_parsed(to, &parsed, frame, arrived_nsec, direct);
                }
                Err(malformed) => self.drop_malformed(receiver, frame, malformed),
            },
            ip::PROTOCOL_TCP => match wire::tcp::parse_tcp(&packet, checksums.tcp) {
                Ok(segment) => {
                    let parsed = Parsed::Tcp(segment);
                    self.deliver_parsed(to, &parsed, frame, arrived_nsec, direct);
                }
                Err(malformed) => self.drop_malformed(receiver, frame, malformed),
            },
            // No flow of another protocol leads here.
            _ => self.drop_malformed(receiver, frame, Malformed::NotUdp),
        }
    }

    #[inline(always)]
    fn deliver_parsed<D: DirectCall<S>>(
        &self,
        (receiver, tables): (&ReceiveRing<S::Backend>, &Tables<S>),
        packet: &Parsed,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<D>,
    ) {
        let Tables {
            flows,
            groups,
            reuseport,
            refused,
        } = tables;
        let owner = match *packet.endpoints() {
            Endpoints::V4 {
                source,
                destination,
            } => {
                if refused.contains(*source.ip()) {
                    receiver.stats.rx_dropped_malformed.add(1);
                    return self.pool.give(frame);
                }
                if destination.ip().is_multicast() {
                    let at = (receiver, groups);
                    return self.deliver_to_group(at, packet, frame, arrived_nsec, direct);
                }
                flows.look_up(packet.protocol(), source, destination)
            }
            Endpoints::V6 { destination, .. } if destination.0.is_multicast() => {
                let at = (receiver, groups);
                return self.deliver_to_group(at, packet, frame, arrived_nsec, direct);
            }
            Endpoints::V6 { .. } => {
                if refused.contains_source(packet.source()) {
                    receiver.stats.rx_dropped_malformed.add(1);
                    return self.pool.give(frame);
                }
                flows.look_up(packet.protocol(), packet.source(), packet.destination())
            }
        };
        let Some(socket) = owner else {
            // It was on its way when the socket went.
            receiver.stats.rx_dropped_no_socket.add(1);
            return self.pool.give(frame);
        };
        let socket = if reuseport.is_empty() {
            socket
        } else {
            reuseport.choose(flows, packet, socket)
        };
        self.deliver_to(socket, packet, frame, arrived_nsec, direct);
    }

    #[inline(always)]
    pub(super) fn deliver_to<D: DirectCall<S>>(
        &self,
        socket: S,
        packet: &Parsed,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<D>,
    ) {
        let arrival = Arrival {
            nsec: arrived_nsec,
            interface: self.spec.index,
        };
        if let Some(call) = direct
            && call.waits_for(socket)
            && call.receive(socket, packet, &frame, arrival)
        {
            if let Err(read) = call.keep(self.pool, frame) {
                self.pool.give(read);
            }
            return;
        }
        if let Err(dropped) = socket.deliver(packet, frame, arrival) {
            self.pool.give(dropped);
        }
    }

    #[cold]
    fn drop_malformed(
        &self,
        receiver: &ReceiveRing<S::Backend>,
        frame: Frame,
        malformed: Malformed,
    ) {
        receiver.count_malformed(malformed);
        self.pool.give(frame);
    }
}
