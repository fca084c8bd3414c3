//! An open interface: its rings, who receives its packets, and its part of the data path.

mod batch;
mod capturing;
pub mod datagrams;
mod device_clock;
mod drain;
mod flows;
mod foreign_rings;
mod groups;
pub mod gso;
pub mod large_packet;
mod multi_buffer;
pub mod own_ring;
mod polling;
mod receive_ring;
mod receiving;
mod reuseport;
pub mod ring_set;
pub mod segments;
mod send_ring;
pub mod sending;
mod sending_gso;
pub mod set;
mod sharing;
mod sleepers;
mod sources;
pub mod stamped_interfaces;
mod stamps;
mod stream_detector;
mod streams;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dev_core::{
    Backend, FramePool, LinkSpec, Merging, Port, RxWatch, ShardedLock, Steering, Upper,
};
use stats::{CaptureRing, QueueSlot, RingSlot, RingStats};
use wire::ChecksumPolicy;

use crate::delivery::Checksums;
use crate::lead::Lead;
use crate::receiver::{NoCall, Receiver};
use crate::rings::{RingPolicy, SharedRingTable};
use crate::settings::Settings;
use batch::Batch;
use capturing::Condition;
use gso::Gso;
use receive_ring::{ReceiveRing, RxSide, Tables};
use ring_set::PerRing;
use send_ring::SendRing;
use sources::RefusedSources;
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
    /// Whether anything is as it rarely is.
    condition: Condition,
    /// Where packets are recorded, if they were asked for once.
    recorder: OnceLock<&'static CaptureRing>,
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
    /// What the rings' statistics belong to: they go with the process, and a search for leaks finds
    /// them here.
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
            has_replies: AtomicBool::new(false),
            batch: Batch::new(mode),
            gso: Gso::new(port.segmenter),
            condition: Condition::default(),
            recorder: OnceLock::new(),
            lost_is_known: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            stamps: Stamps::new(settings.device_times),
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

    /// A VLAN or a bond may have its packets by other devices.
    pub fn follow_carriers(&self, upper: Option<&Upper>) {
        if let Some(upper) = upper {
            self.steering.follow_carriers(&upper.carriers);
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

    /// Whether anything has come by any ring that nobody has delivered, or not to its end. Costs
    /// two loads a queue.
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
        self.condition.is_lost()
    }

    /// Whether somebody else had opened it for this process, and has ended.
    pub fn has_broker_ended(&self) -> bool {
        self.is_joint() && self.steering.is_taken_away()
    }

    /// Whether the next flow must come from a thread in the interface's network namespace.
    pub fn is_resting(&self) -> bool {
        self.steering.is_resting()
    }

    /// Whether the device was given up since this was last asked.
    pub fn take_loss(&self) -> bool {
        self.is_lost() && !self.lost_is_known.swap(true, Ordering::Relaxed)
    }

    /// The process is about to end: nothing that it has asked of the device stays behind, nor holds
    /// it up.
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

    /// Leaves the device to other processes, if no packets of it are anybody's here. Under the
    /// control lock.
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
            self.condition.lose();
            self.lost_is_known.store(true, Ordering::Relaxed);
            self.show_left();
        }
        drop((tx, rx));
        is_left
    }

    /// Somebody else has ended the device's work for this process, which uses it no more: keeps
    /// nobody from opening it anew.
    pub fn let_go(&self) {
        let rx = self.rx.lock_all();
        let tx: Vec<_> = self.send_rings.iter().map(|ring| ring.tx.lock()).collect();
        if let Err(error) = self.steering.let_go() {
            log::warn!("{}: its queues stay taken: {error}", self.spec.name);
        }
        self.show_left();
        drop((tx, rx));
    }

    /// So that nobody takes this process for the one that has its queues.
    fn show_left(&self) {
        for slot in self.ring_slots {
            slot.ifindex.set(0);
            slot.mode.set("left to others");
        }
    }

    /// Gives up the device: every packet is the kernel's from here on.
    pub fn mark_lost(&self) {
        if !self.condition.lose() {
            self.steering.give_back();
        }
    }

    /// Brings the counters up to date that no packet touches, and kicks a device that was too busy
    /// to take everything. Returns whether it still is.
    pub fn refresh(&self) -> bool {
        self.steering.rest_if_unused();
        self.steering.settle();
        self.follow_device_clock();
        // Without their port they are none.
        self.count_exemptions();
        if !self.is_lost() && self.steering.is_taken_away() {
            log::warn!(
                "{}: its device was taken away, so the interface is the kernel's",
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

    /// Has [`Receiver::end_batch`] called for a socket that is receiving from this interface, when
    /// the batch is over. Once for each call.
    #[inline]
    pub fn add_to_batch(&self, socket: S) {
        self.batch.add(socket);
    }

    /// No lock may be held.
    #[inline]
    fn end_batch(&self) {
        self.batch.end(self.spec.index);
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
