//! The receiving rings of an interface. Each has some of the device's queues, a lock and counters
//! of its own, in cache lines of its own: threads that receive by two of them have nothing in
//! common. What says whose a packet is they have together, and it is changed by who holds all their
//! locks.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use descriptors::OwnDescriptor;
use dev_core::{Backend, FlowTable, GroupTable, ReceivingSide, ThreadMode};
use stats::RingStats;
use wire::Malformed;

use crate::interface::foreign_rings::ForeignRings;
use crate::interface::multi_buffer::MultiBuffer;
use crate::interface::reuseport::ReusePort;
use crate::interface::sources::RefusedSources;
use crate::interface::stream_detector::StreamDetector;
use crate::moderation::OwnModeration;
use crate::receiver::Receiver;

/// Whose a packet is.
pub(super) struct Tables<S: Receiver> {
    pub(super) flows: FlowTable<S>,
    pub(super) groups: GroupTable<S>,
    pub(super) reuseport: ReusePort<S>,
    pub(super) refused: RefusedSources,
}

impl<S: Receiver> Tables<S> {
    pub(super) fn new() -> Self {
        Self {
            flows: FlowTable::default(),
            groups: GroupTable::default(),
            reuseport: ReusePort::new(),
            refused: RefusedSources::default(),
        }
    }
}

/// A ring's part under its lock.
pub(super) struct RxSide<B: Backend> {
    pub(super) ring: B::Rx,
    /// Frames until the next one whose way to the program is timed.
    pub(super) until_timed: u32,
    /// Of a packet that is longer than a frame.
    pub(super) multi_buffer: MultiBuffer,
    pub(super) stream_detector: StreamDetector,
    /// Frames that the sending rings of other numbers were not told of.
    pub(super) answers: usize,
}

impl<B: Backend> RxSide<B> {
    pub(super) fn new(ring: B::Rx, mode: ThreadMode) -> Self {
        Self {
            ring,
            until_timed: 0,
            multi_buffer: MultiBuffer::new(mode),
            stream_detector: StreamDetector::default(),
            answers: 0,
        }
    }
}

/// A receiving ring, but for what is under its lock.
#[repr(align(128))]
pub(super) struct ReceiveRing<B: Backend> {
    pub(super) watch: B::Watch,
    wait_fds: Vec<Arc<OwnDescriptor>>,
    pub(super) stats: &'static RingStats,
    /// See `Interface::stream_gap_nsec`.
    pub(super) stream_gap_nsec: AtomicU64,
    /// How wake-ups by it are moderated, if the program has said so.
    pub(super) moderation: OwnModeration,
    /// What had been received when `Interface::drain_unpolled` was last called.
    pub(super) received_before: AtomicU64,
    pub(super) foreign: ForeignRings,
}

impl<B: Backend> ReceiveRing<B> {
    /// One of `rings`, with the side that goes under its lock.
    pub(super) fn new(
        side: ReceivingSide<B>,
        stats: &'static RingStats,
        rings: usize,
    ) -> (Self, B::Rx) {
        let ring = Self {
            watch: side.watch,
            wait_fds: side.wait_fds,
            stats,
            stream_gap_nsec: AtomicU64::new(0),
            moderation: OwnModeration::default(),
            received_before: AtomicU64::new(0),
            foreign: ForeignRings::new(rings),
        };
        (ring, side.rx)
    }

    /// Descriptors that become readable when packets wait.
    pub(super) fn wait_fds(&self) -> impl Iterator<Item = RawFd> {
        self.wait_fds.iter().map(|fd| fd.as_raw_fd())
    }

    pub(super) fn count_malformed(&self, malformed: Malformed) {
        match malformed {
            Malformed::UdpChecksum | Malformed::TcpChecksum => {
                self.stats.rx_dropped_checksum.add(1)
            }
            _ => self.stats.rx_dropped_malformed.add(1),
        }
    }
}
