//! An open interface: its rings, who receives its packets, and its part of the data path.

mod batch;
mod datagrams;
mod groups;
mod long;
mod one_way;
mod pieces;
mod segments;
mod sending;
mod set;
mod shares;
mod sources;
mod unpolled;
mod whole;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use descriptors::OwnDescriptor;
use dev_core::{
    Backend, Flow, FlowTable, Frame, FramePool, GroupTable, LinkSpec, Lock, Merging, Port,
    Protocol, RxRing, Steering,
};
use stats::{QueueSlot, RingSlot, RingStats};
use wire::ip::Endpoints;
use wire::{ChecksumPolicy, Malformed};

use crate::sockets::delivery::{Arrival, Checksums, Parsed};
use crate::sockets::direct::DirectReceive;
use crate::sockets::rings::{RingPolicy, RingTable};
use crate::sockets::settings::Settings;
use crate::sockets::stack::Stack;
use crate::sys;
use batch::Batch;
pub(crate) use datagrams::datagrams;
pub(crate) use long::LongPacket;
use one_way::OneWay;
use pieces::Pieces;
use sending::SendRing;
pub(crate) use sending::{RingLease, Sender, Transmitted};
pub(crate) use set::InterfaceSet;
use shares::Shares;
use sources::RefusedSources;
use whole::Whole;
pub(crate) use whole::{WHOLE_MAX, segments};

/// An interface that a back-end has opened. Lives as long as the process.
pub(crate) struct Interface<S: Stack> {
    spec: LinkSpec,
    rx: Lock<RxSide<S>>,
    /// At least one.
    send_rings: Box<[SendRing<S::Backend>]>,
    ring_policy: RingPolicy,
    /// Which of them is whose. A leaf.
    ring_table: Mutex<RingTable>,
    /// Hardware address, as a number.
    mac: AtomicU64,
    steering: <S::Backend as Backend>::Steering,
    wait_fds: Vec<Arc<OwnDescriptor>>,
    mtu_max: u32,
    checksums: Checksums,
    merging: Merging,
    pool: &'static FramePool,
    poll_batch_max: usize,
    /// Frames are in a sending ring, perhaps, that the device did not take at the last kick.
    kick_pending: AtomicBool,
    lost: AtomicBool,
    /// What was received has made sockets send, and the device does not know.
    has_replies: AtomicBool,
    batch: Batch<S>,
    whole: Whole<<S::Backend as Backend>::Segmenter>,
    /// [`Interface::is_lost_anew`] has said so.
    lost_is_known: AtomicBool,
    /// What the device had dropped when its counter was last looked at.
    dropped: AtomicU64,
    /// What had been received when [`Interface::take_unpolled`] was last called.
    received_before: AtomicU64,
    stats: &'static RingStats,
    /// What the rings' statistics belong to: they go with the process, and a search for leaks finds them here.
    _ring_slots: &'static [RingSlot],
    /// See [`Interface::stream_gap_nsec`].
    stream_gap_nsec: AtomicU64,
    /// What is known of the device's receive queues together.
    queue_stats: QueueSlot,
}

struct RxSide<S: Stack> {
    ring: <S::Backend as Backend>::Rx,
    flows: FlowTable<S>,
    groups: GroupTable<S>,
    shares: Shares<S>,
    refused: RefusedSources,
    /// Frames until the next one whose way to the program is timed.
    until_timed: u32,
    /// Of a packet that is longer than a frame.
    pieces: Pieces,
    one_way: OneWay,
}

/// One of so many frames is timed: two looks at the clock cost as much as a counter, spread over all of them.
const FRAMES_PER_TIMED: u32 = 64;

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

impl<S: Stack> Interface<S> {
    pub(crate) fn new(
        spec: LinkSpec,
        port: Port<S::Backend>,
        pool: &'static FramePool,
        settings: &Settings,
        ring_slots: &'static [RingSlot],
        queue_stats: QueueSlot,
    ) -> Self {
        let (spec_mac, mode) = (spec.mac, settings.thread_mode);
        let of_ring =
            |number: usize| -> &'static RingStats { &ring_slots[number.min(ring_slots.len() - 1)] };
        let senders = port.senders.into_iter().enumerate();
        let send_rings: Box<[_]> = senders
            .map(|(number, sender)| SendRing::new(sender, mode, of_ring(number)))
            .collect();
        Self {
            spec,
            rx: Lock::new(
                mode,
                RxSide {
                    ring: port.rx,
                    flows: FlowTable::default(),
                    groups: GroupTable::default(),
                    shares: Shares::new(),
                    refused: RefusedSources::default(),
                    until_timed: 0,
                    pieces: Pieces::new(mode),
                    one_way: OneWay::default(),
                },
            ),
            ring_table: Mutex::new(RingTable::new(send_rings.len())),
            send_rings,
            ring_policy: settings.rings_tx,
            mac: AtomicU64::new(mac_number(spec_mac)),
            steering: port.steering,
            wait_fds: port.wait_fds,
            mtu_max: port.mtu_max,
            checksums: Checksums {
                udp: policy(port.partial_checksums),
                tcp: policy(port.partial_checksums || port.merging == Merging::InPieces),
            },
            merging: port.merging,
            pool,
            poll_batch_max: settings.poll_batch_max,
            kick_pending: AtomicBool::new(false),
            has_replies: AtomicBool::new(false),
            batch: Batch::new(mode),
            whole: Whole::new(port.segmenter),
            lost: AtomicBool::new(false),
            lost_is_known: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            received_before: AtomicU64::new(0),
            stream_gap_nsec: AtomicU64::new(0),
            stats: of_ring(0),
            _ring_slots: ring_slots,
            queue_stats,
        }
    }

    pub(crate) fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// How sockets choose one of its rings.
    pub(crate) fn ring_policy(&self) -> RingPolicy {
        self.ring_policy
    }

    /// The interface's hardware address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        let [_, _, mac @ ..] = self.mac.load(Ordering::Relaxed).to_be_bytes();
        mac
    }

    /// The interface has, perhaps, another hardware address.
    pub(crate) fn follow_mac(&self, mac: [u8; 6]) {
        if self.mac() == mac {
            return;
        }
        match self.steering.set_mac(mac) {
            Ok(()) => self.mac.store(mac_number(mac), Ordering::Relaxed),
            Err(error) => {
                log::warn!(
                    "{}: cannot follow a change of hardware address: {error}",
                    self.spec.name
                );
                self.mark_lost();
            }
        }
    }

    /// Drops packets from these addresses from here on, as the kernel does.
    pub(crate) fn refuse_sources(&self, addresses: Vec<Ipv4Addr>) {
        let refused = RefusedSources::new(addresses);
        self.rx.lock().refused = refused;
    }

    /// The largest IP packet in bytes that comes past the kernel.
    pub(crate) fn mtu_max(&self) -> u32 {
        self.mtu_max
    }

    /// Descriptors that become readable when packets wait.
    pub(crate) fn wait_fds(&self) -> impl Iterator<Item = RawFd> {
        self.wait_fds.iter().map(|fd| fd.as_raw_fd())
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether the next flow must come from a thread in the interface's network namespace.
    pub(crate) fn is_resting(&self) -> bool {
        self.steering.is_resting()
    }

    /// Whether the device was given up since this was last asked.
    pub(crate) fn is_lost_anew(&self) -> bool {
        self.is_lost() && !self.lost_is_known.swap(true, Ordering::Relaxed)
    }

    /// Gives up the device: every packet is the kernel's from here on.
    pub(crate) fn mark_lost(&self) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            self.steering.give_back();
        }
    }

    /// The process is about to end.
    pub(crate) fn process_ends(&self) {
        self.steering.process_ends();
    }

    /// Brings the counters up to date that no packet touches, and kicks a device that was too busy to take everything.
    /// Returns whether it still is.
    pub(crate) fn refresh(&self) -> bool {
        self.steering.rest_if_unused();
        let dropped = self.steering.dropped();
        let known = self.dropped.swap(dropped, Ordering::Relaxed);
        let dropped = dropped.saturating_sub(known);
        self.stats.rx_dropped_no_frame.add(dropped);
        self.queue_stats.rx_dropped.add(dropped);
        self.kick_again_if_pending()
    }

    /// Its counters.
    pub(crate) fn stats(&self) -> &'static RingStats {
        self.stats
    }

    /// Gives a flow's packets to a socket. `Err(Some(owner))`: the flow belongs to another socket; `Err(None)`: the
    /// steering refused it.
    pub(crate) fn attach(&self, flow: &Flow, socket: S) -> Result<(), Option<S>> {
        // The owner is known before the first packet can come.
        self.rx.lock().flows.insert(flow, socket).map_err(Some)?;
        self.steering.add(flow).map_err(|error| {
            log::warn!(
                "{}: cannot steer {flow:?} to user space: {error}",
                self.spec.name
            );
            self.detach(flow);
            None
        })
    }

    /// Gives a flow's packets, which were another socket's so far, to a socket. `change` runs when no packet is on its way.
    /// `false`: the steering refused it, or it is taken; then `change` has not run.
    pub(crate) fn take_over(&self, flow: &Flow, socket: S, change: impl FnOnce()) -> bool {
        if self.steering.add(flow).is_err() {
            let _ = self.steering.remove(flow);
            return false;
        }
        let mut side = self.rx.lock();
        let is_free = side.flows.insert(flow, socket).is_ok();
        if is_free {
            change();
        }
        is_free
    }

    /// The socket that gets packets from `peer` to `local`.
    pub(crate) fn owner_of(
        &self,
        protocol: Protocol,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<S> {
        self.rx.lock().flows.look_up(protocol, peer, local)
    }

    /// Leaves a flow's packets to the kernel. Those that are in the receiving ring already are delivered first.
    pub(crate) fn detach(&self, flow: &Flow) {
        self.stop_steering(flow);
        self.rx.lock().flows.remove(flow);
    }

    /// What has come so far is delivered before this returns.
    fn stop_steering(&self, flow: &Flow) {
        if let Err(error) = self.steering.remove(flow)
            && !self.is_lost()
        {
            // Nobody would receive them: the process may have given up its privileges, or a filter denies bpf(2).
            log::warn!(
                "{}: cannot leave {flow:?} to the kernel, so it gets the whole interface: {error}",
                self.spec.name
            );
            self.mark_lost();
        }
        self.drain();
    }

    /// Receives what has come, up to a batch, and delivers it. Returns the number of frames.
    #[inline]
    pub(crate) fn poll(&self) -> usize {
        self.poll_for(&mut None)
    }

    /// The same; the first packet for the socket of `direct` goes straight into its call's buffers.
    #[inline]
    pub(crate) fn poll_for(&self, direct: &mut Option<DirectReceive<'_, '_, S>>) -> usize {
        if self.kick_pending.load(Ordering::Relaxed) {
            self.kick_again_if_pending();
        }
        let mut side = self.rx.lock();
        let RxSide {
            ring,
            flows,
            groups,
            shares,
            refused,
            until_timed,
            pieces,
            one_way,
        } = &mut *side;
        let (mut bytes, mut in_pieces) = (0, 0);
        let count = ring.poll(self.pool, self.poll_batch_max, |frame| {
            bytes += frame.len();
            if pieces.are_missing() || frame.continues() {
                in_pieces += 1;
                return self.take_piece(flows, refused, frame, pieces);
            }
            let arrived_nsec = arrival_nsec(until_timed);
            self.deliver(
                (flows, groups, shares),
                refused,
                frame,
                arrived_nsec,
                direct,
            );
        });
        if count > 0 {
            self.count_received(count, bytes);
            if one_way.received(count - in_pieces) {
                self.look_at_answers(one_way, ring);
            }
        }
        drop(side);
        self.end_batch();
        self.start_replies();
        count
    }

    /// Receives and delivers all that has come so far. What comes meanwhile may wait for the next call: a sender without pauses
    /// must not keep this one from returning. Returns the number of frames.
    #[cold]
    fn drain(&self) -> usize {
        if self.kick_pending.load(Ordering::Relaxed) {
            self.kick_again_if_pending();
        }
        let mut side = self.rx.lock();
        let RxSide {
            ring,
            flows,
            groups,
            shares,
            refused,
            until_timed,
            pieces,
            one_way,
        } = &mut *side;
        let (mut bytes, mut in_pieces) = (0, 0);
        let count = ring.drain(self.pool, |frame| {
            bytes += frame.len();
            if pieces.are_missing() || frame.continues() {
                in_pieces += 1;
                return self.take_piece(flows, refused, frame, pieces);
            }
            let arrived_nsec = arrival_nsec(until_timed);
            self.deliver(
                (flows, groups, shares),
                refused,
                frame,
                arrived_nsec,
                &mut None,
            );
        });
        if count > 0 {
            self.count_received(count, bytes);
            if one_way.received(count - in_pieces) {
                self.look_at_answers(one_way, ring);
            }
        }
        drop(side);
        self.end_batch();
        self.start_replies();
        count
    }

    /// Under the ring's lock.
    #[inline]
    fn count_received(&self, count: usize, bytes: usize) {
        self.senders_have_answers(count);
        self.queue_stats.rx_drained_max.raise_to(count as u64);
        self.stats.rx_packets.add(count as u64);
        self.stats.rx_bytes.add(bytes as u64);
    }

    /// Under the ring's lock.
    #[cold]
    fn look_at_answers(&self, one_way: &mut OneWay, ring: &mut <S::Backend as Backend>::Rx) {
        let sent = self.send_rings.iter().map(SendRing::sent).sum();
        let gap_nsec = one_way.look(sent, sys::now_nsec());
        ring.expect_bursts(gap_nsec.is_some());
        self.stream_gap_nsec
            .store(gap_nsec.unwrap_or(0), Ordering::Relaxed);
    }

    /// Nanoseconds from packet to packet of a stream that nobody answers; 0 if none comes.
    pub(crate) fn stream_gap_nsec(&self) -> u64 {
        self.stream_gap_nsec.load(Ordering::Relaxed)
    }

    /// A stream is one again when more has come.
    pub(crate) fn stream_has_paused(&self) {
        self.stream_gap_nsec.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn deliver(
        &self,
        (flows, groups, shares): (&FlowTable<S>, &GroupTable<S>, &Shares<S>),
        refused: &RefusedSources,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<DirectReceive<'_, '_, S>>,
    ) {
        let packet = match Parsed::of(self.pool.data(&frame), self.checksums) {
            Ok(packet) => packet,
            Err(malformed) => return self.drop_malformed(frame, malformed),
        };
        // Asked once which version it is: what is done for IPv4 stays as short as it would be alone.
        let owner = match *packet.endpoints() {
            Endpoints::V4 {
                source,
                destination,
            } => {
                if refused.contains(*source.ip()) {
                    self.stats.rx_dropped_malformed.add(1);
                    return self.pool.give(frame);
                }
                if destination.ip().is_multicast() {
                    return self.deliver_to_group(groups, &packet, frame, arrived_nsec, direct);
                }
                flows.look_up(packet.protocol(), source, destination)
            }
            Endpoints::V6 { .. } => self.owner_v6(flows, refused, &packet),
        };
        let Some(socket) = owner else {
            // It was on its way when the socket went.
            self.stats.rx_dropped_no_socket.add(1);
            return self.pool.give(frame);
        };
        let socket = if shares.is_empty() {
            socket
        } else {
            shares.choose(&packet, socket)
        };
        self.deliver_to(socket, &packet, frame, arrived_nsec, direct);
    }

    #[inline(never)]
    fn owner_v6(
        &self,
        flows: &FlowTable<S>,
        refused: &RefusedSources,
        packet: &Parsed,
    ) -> Option<S> {
        if refused.contains_source(packet.source()) {
            return None;
        }
        flows.look_up(packet.protocol(), packet.source(), packet.destination())
    }

    #[inline(always)]
    fn deliver_to(
        &self,
        socket: S,
        packet: &Parsed,
        frame: Frame,
        arrived_nsec: u64,
        direct: &mut Option<DirectReceive<'_, '_, S>>,
    ) {
        if let Some(call) = direct
            && call.waits_for(socket)
        {
            socket.receive_at_once(call, packet, &frame, arrived_nsec);
            if call.result.is_some() {
                return self.pool.give(frame);
            }
        }
        let arrival = Arrival {
            nsec: arrived_nsec,
            interface: self.spec.index,
        };
        if let Err(dropped) = socket.deliver(packet, frame, arrival) {
            self.pool.give(dropped);
        }
    }

    #[cold]
    fn drop_malformed(&self, frame: Frame, malformed: Malformed) {
        self.count_malformed(malformed);
        self.pool.give(frame);
    }

    fn count_malformed(&self, malformed: Malformed) {
        match malformed {
            Malformed::UdpChecksum | Malformed::TcpChecksum => {
                self.stats.rx_dropped_checksum.add(1)
            }
            _ => self.stats.rx_dropped_malformed.add(1),
        }
    }
}

impl<S: Stack> fmt::Debug for Interface<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interface")
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

fn policy(accepts_partial: bool) -> ChecksumPolicy {
    if accepts_partial {
        ChecksumPolicy::AcceptPartial
    } else {
        ChecksumPolicy::Verify
    }
}

fn mac_number(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}
