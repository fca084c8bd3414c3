//! An open interface: its rings, who receives its packets, and its part of the data path.

mod batch;
mod datagrams;
mod drain;
mod foreign_rings;
mod groups;
mod gso;
mod large_packet;
mod multi_buffer;
mod own_ring;
mod receiving;
mod reuseport;
mod ring_set;
mod segments;
mod sending;
mod set;
mod sleepers;
mod sources;
mod stamps;
mod stream_detector;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fmt, io};

use dev_core::{
    Backend, Flow, FramePool, LinkSpec, Merging, Port, Protocol, RxWatch, ShardedLock, Steering,
};
use stats::{QueueSlot, RingSlot, RingStats};
use wire::ChecksumPolicy;

use crate::delivery::Checksums;
use crate::lead::Lead;
use crate::receiver::{NoCall, Receiver};
use crate::rings::{RingPolicy, SharedRingTable};
use crate::settings::Settings;
use batch::Batch;
pub use datagrams::datagrams;
use gso::Gso;
pub use gso::{GSO_MAX, segments};
pub use large_packet::LargePacket;
pub use own_ring::OwnRing;
use receiving::{ReceiveRing, RxSide, Tables};
use ring_set::PerRing;
pub use ring_set::{RINGS_MAX, RingSet};
pub use segments::Burst;
use sending::SendRing;
pub use sending::{RingLease, Sender, Transmitted};
pub use set::InterfaceSet;
use sources::RefusedSources;
pub use stamps::StampedInterfaces;
use stamps::Stamps;

/// An interface that a back-end has opened. Lives as long as the process.
pub struct Interface<S: Receiver> {
    spec: LinkSpec,
    /// Whose packets are, and under a lock of each the receiving rings.
    rx: ShardedLock<Tables<S>, RxSide<S::Backend>>,
    /// The same rings, but for what is under their locks.
    receivers: PerRing<ReceiveRing<S::Backend>>,
    /// At least one.
    send_rings: Box<[SendRing<S::Backend>]>,
    ring_policy: RingPolicy,
    /// Which of them is whose.
    ring_table: SharedRingTable,
    /// The same of the receiving ones.
    receiving_policy: RingPolicy,
    receiving_table: SharedRingTable,
    /// Hardware address, as a number.
    mac: AtomicU64,
    steering: <S::Backend as Backend>::Steering,
    mtu_max: u32,
    /// `VMA_MTU`
    stream_mtu_max: u32,
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
    gso: Gso<<S::Backend as Backend>::Segmenter>,
    /// [`Interface::take_loss`] has said so.
    lost_is_known: AtomicBool,
    /// What the device had dropped when its counter was last looked at.
    dropped: AtomicU64,
    /// The counters of its first rings.
    stats: &'static RingStats,
    /// What the rings' statistics belong to: they go with the process, and a search for leaks finds them here.
    ring_slots: &'static [RingSlot],
    stamps: Stamps,
    lead: Lead,
    /// What is known of the device's receive queues together.
    queue_stats: QueueSlot,
}

/// What every host can reassemble (RFC 791 §3.1); streams of less would be headers mostly.
const STREAM_MTU_MIN: u32 = 576;

impl<S: Receiver> Interface<S> {
    /// `ring_slots`: at least one. `None`: the port has no receiving ring.
    pub fn new(
        spec: LinkSpec,
        port: Port<S::Backend>,
        pool: &'static FramePool,
        settings: &Settings,
        ring_slots: &'static [RingSlot],
        queue_stats: QueueSlot,
    ) -> Option<Self> {
        let (spec_mac, mode) = (spec.mac, settings.thread_mode);
        let of_ring =
            |number: usize| -> &'static RingStats { &ring_slots[number.min(ring_slots.len() - 1)] };
        let senders = port.senders.into_iter().enumerate();
        let send_rings: Box<[_]> = senders
            .map(|(number, sender)| SendRing::new(sender, mode, of_ring(number)))
            .collect();
        let rings = port.receivers.len();
        let receivers = port.receivers.into_iter().enumerate();
        let (receivers, sides): (Vec<_>, Vec<_>) = receivers
            .map(|(number, side)| ReceiveRing::new(side, of_ring(number), rings))
            .unzip();
        let mut sides = sides.into_iter().map(|side| RxSide::new(side, mode));
        let first = sides.next()?;
        Some(Self {
            spec,
            rx: ShardedLock::new(mode, Tables::new(), first, sides),
            receivers: PerRing::new(receivers)?,
            ring_table: SharedRingTable::new(send_rings.len()),
            send_rings,
            ring_policy: settings.rings_tx,
            receiving_policy: settings.rings_rx,
            receiving_table: SharedRingTable::new(rings),
            mac: AtomicU64::new(mac_number(spec_mac)),
            steering: port.steering,
            mtu_max: port.mtu_max,
            stream_mtu_max: match settings.tcp_mtu {
                0 => u32::MAX,
                mtu => mtu.max(STREAM_MTU_MIN),
            },
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
            gso: Gso::new(port.segmenter),
            lost: AtomicBool::new(false),
            lost_is_known: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            stamps: Stamps::default(),
            lead: Lead::default(),
            stats: of_ring(0),
            ring_slots,
            queue_stats,
        })
    }

    pub fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// How sockets choose one of its sending rings, if they do not say.
    pub fn ring_policy(&self) -> RingPolicy {
        self.ring_policy
    }

    /// The interface's hardware address.
    pub fn mac(&self) -> [u8; 6] {
        let [_, _, mac @ ..] = self.mac.load(Ordering::Relaxed).to_be_bytes();
        mac
    }

    /// The interface has, perhaps, another hardware address.
    pub fn follow_mac(&self, mac: [u8; 6]) {
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
    pub fn refuse_sources(&self, addresses: Vec<Ipv4Addr>) {
        let refused = RefusedSources::new(addresses);
        self.rx.lock_all().refused = refused;
    }

    /// The interface has these addresses from here on.
    pub fn follow_addresses(&self, addresses: &[IpAddr]) {
        if let Err(error) = self.steering.set_addresses(addresses)
            && !self.is_lost()
        {
            log::warn!(
                "{}: cannot leave packets to an address that is gone to the kernel, so it gets the whole interface: {error}",
                self.spec.name
            );
            self.mark_lost();
        }
    }

    /// The largest IP packet in bytes that comes past the kernel.
    pub fn mtu_max(&self) -> u32 {
        self.mtu_max
    }

    /// The largest packet of a stream over a path with this MTU.
    pub fn stream_mtu(&self, path_mtu: u32) -> u16 {
        let mtu = path_mtu.min(self.mtu_max).min(self.stream_mtu_max);
        u16::try_from(mtu).unwrap_or(u16::MAX)
    }

    /// Whether anything has come by any ring that nobody has delivered, or not to its end. Costs two loads a queue.
    #[inline]
    fn has_waiting(&self) -> bool {
        let mut rings = self.receivers.iter();
        rings.any(|ring| ring.watch.waiting().is_some())
    }

    /// Whether it receives by several rings.
    #[inline]
    pub fn has_several_rings(&self) -> bool {
        !self.receivers.is_one()
    }

    /// Whether it sends by several rings.
    pub fn has_several_sending_rings(&self) -> bool {
        self.send_rings.len() > 1
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether the next flow must come from a thread in the interface's network namespace.
    pub fn is_resting(&self) -> bool {
        self.steering.is_resting()
    }

    /// Whether the device was given up since this was last asked.
    pub fn take_loss(&self) -> bool {
        self.is_lost() && !self.lost_is_known.swap(true, Ordering::Relaxed)
    }

    /// The process is about to end: nothing that it has asked of the device stays behind, nor holds it up.
    pub fn process_ends(&self) {
        self.steering.process_ends();
    }

    /// Whether packets of it may come to sockets of this process.
    pub fn has_flows(&self) -> bool {
        self.steering.has_flows()
    }

    /// Frames and whole packets that it has sent so far.
    pub fn sent(&self) -> u64 {
        self.send_rings.iter().map(|ring| ring.sent()).sum()
    }

    /// Leaves the device to other processes, if no packets of it are anybody's here. Under the control lock.
    pub fn leave_if_unused(&self) -> bool {
        if self.is_lost() {
            return false;
        }
        let rx = self.rx.lock_all();
        let tx: Vec<_> = self.send_rings.iter().map(|ring| ring.tx.lock()).collect();
        let closed = self.steering.close_if_unused();
        if let Err(error) = &closed {
            log::warn!("{}: its queues stay taken: {error}", self.spec.name);
        }
        let is_left = closed.unwrap_or(true);
        if is_left {
            self.lost.store(true, Ordering::Relaxed);
            self.lost_is_known.store(true, Ordering::Relaxed);
            // So that nobody takes this process for the one that has its queues.
            for slot in self.ring_slots {
                slot.ifindex.set(0);
                slot.mode.set("left to others");
            }
        }
        drop((tx, rx));
        is_left
    }

    /// Gives up the device: every packet is the kernel's from here on.
    pub fn mark_lost(&self) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            self.steering.give_back();
        }
    }

    /// Brings the counters up to date that no packet touches, and kicks a device that was too busy to take everything.
    /// Returns whether it still is.
    pub fn refresh(&self) -> bool {
        self.steering.rest_if_unused();
        // Without their port they are none.
        self.count_exemptions();
        if !self.is_lost() && self.steering.is_taken_away() {
            log::warn!(
                "{}: its XDP program was taken away, so the interface is the kernel's",
                self.spec.name
            );
            self.mark_lost();
        }
        let dropped = self.steering.dropped();
        let known = self.dropped.swap(dropped, Ordering::Relaxed);
        let dropped = dropped.saturating_sub(known);
        self.stats.rx_dropped_no_frame.add(dropped);
        self.queue_stats.rx_dropped.add(dropped);
        self.kick_again_if_pending()
    }

    /// Gives a flow's packets to a socket. `Err(Some(owner))`: the flow belongs to another socket; `Err(None)`: the
    /// steering refused it.
    pub fn attach(&self, flow: &Flow, socket: S) -> Result<(), Option<S>> {
        // The owner is known before the first packet can come.
        self.rx
            .lock_all()
            .flows
            .insert(flow, socket)
            .map_err(Some)?;
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
    pub fn take_over(&self, flow: &Flow, socket: S, change: impl FnOnce()) -> bool {
        if self.steering.add(flow).is_err() {
            let _ = self.steering.remove(flow);
            return false;
        }
        let mut tables = self.rx.lock_all();
        let is_free = tables.flows.insert(flow, socket).is_ok();
        if is_free {
            change();
        }
        is_free
    }

    /// Leaves a connection's packets to the kernel, if all that reaches its port comes past it (see [`Steering::exempt`]). Returns
    /// whether that was so.
    pub fn exempt(&self, flow: &Flow) -> io::Result<bool> {
        if self.is_lost() {
            return Ok(false);
        }
        let exempt = self.steering.exempt(flow);
        match &exempt {
            Ok(true) => self.count_exemptions(),
            Ok(false) => {}
            Err(_) => self.queue_stats.exempt_refused.add(1),
        }
        exempt
    }

    fn count_exemptions(&self) {
        let count = self.steering.exemptions();
        self.queue_stats.exempt.set(count as u64);
    }

    /// Takes that back.
    pub fn end_exemption(&self, flow: &Flow) {
        if let Err(error) = self.steering.end_exemption(flow)
            && !self.is_lost()
        {
            log::debug!("{}: {flow:?} stays the kernel's: {error}", self.spec.name);
        }
        self.count_exemptions();
    }

    /// The socket that gets packets from `peer` to `local`.
    pub fn owner_of(&self, protocol: Protocol, local: SocketAddr, peer: SocketAddr) -> Option<S> {
        let guard = self.rx.lock(0);
        let Tables {
            flows, reuseport, ..
        } = guard.common();
        let owner = flows.look_up(protocol, peer, local)?;
        // As packets have them: without a link.
        let end = |end: SocketAddr| SocketAddr::new(end.ip(), end.port());
        Some(reuseport.choose_between(flows, protocol, (end(peer), end(local)), owner))
    }

    /// Whether a connection has just this flow.
    pub fn has_connection(&self, flow: &Flow) -> bool {
        let guard = self.rx.lock(0);
        let flows = &guard.common().flows;
        flow.peer
            .is_some_and(|peer| flows.is_exact(flow.protocol, peer, flow.local))
    }

    /// Leaves a flow's packets to the kernel. Those that are in the receiving rings already are delivered first.
    pub fn detach(&self, flow: &Flow) {
        self.stop_steering(flow);
        self.rx.lock_all().flows.remove(flow);
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
        (0..self.receivers.count()).for_each(|ring| {
            self.drain_ring(ring);
        });
    }

    /// Receives up to a batch by each ring, whoever's it is.
    pub fn poll_all(&self) -> usize {
        let rings = 0..self.receivers.count();
        rings
            .map(|ring| self.poll_ring(ring, &mut None::<NoCall>))
            .sum()
    }
}

impl<S: Receiver> fmt::Debug for Interface<S> {
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
