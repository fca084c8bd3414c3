//! The engine: what a process has of sockets, interfaces, frames and statistics.

pub(crate) mod completions;
pub(crate) mod control;
mod descriptors;
mod destroyed;
mod end;
mod followers;
pub(crate) mod fork;
mod guardian;
mod held_packets;
mod inline_waits;
mod kernel_sockets;
mod kinds;
pub mod monitor;
pub(crate) mod moved_descriptor;
mod multiplex;
mod network_tasks;
mod orphan_table;
mod orphans;
mod program;
mod progress;
mod retire;
pub(crate) mod rights;
mod same_host;
mod shared_ports;
mod shown_packets;
mod started;
mod streams;
mod tasks;
mod wake_channels;

use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use std::sync::{Arc, Mutex};

use dev_core::Backend;
use libc::c_int;
use links::network::Network;
use links::reason::Reason;
use links::settings::Settings;
use links::{Spawn, frames};
use stats::{PoolSlot, Segment};
use vma_config::rules::{ProcessRules, RuleError};

use crate::mux::{self, MuxCounters};
use crate::process::end_request::EndRequest;
use crate::process::sharing::Sharing;
use crate::process::thread_request::ThreadRequests;
use crate::sockets::host;
use crate::sockets::kernel_sockets::KernelSockets;
use crate::sockets::slab::Slab;
use crate::sockets::unseen;
use crate::{tcp, udp};

pub use kinds::{AnySocket, Object};
use orphan_table::Orphans;
use wake_channels::WakeChannels;

/// A UDP socket.
pub type UdpSocket<B> = udp::UdpSocket<AnySocket<B>>;
/// A TCP socket.
pub type TcpSocket<B> = tcp::TcpSocket<AnySocket<B>>;
/// An epoll set with sockets of ours in it.
pub type EpollSet<B> = mux::epoll::EpollSet<AnySocket<B>>;
/// The sockets of ours that a `poll(2)` waits for.
pub type PolledSockets<B> = mux::poll::PolledSockets<AnySocket<B>>;
/// A packet that is to be shown to a function of the program's.
pub type Shown<B> = unseen::Shown<AnySocket<B>>;
/// What sockets stand on.
pub type Host<B> = host::Host<AnySocket<B>>;

/// The sockets, interfaces, frames and statistics of the process.
#[derive(Debug)]
pub struct Engine<B: Backend> {
    host: Host<B>,
    sockets: Slab<Object<B>>,
    streams: Slab<Object<B>>,
    /// Closed by the program, and not yet by their connections; by the addresses of their sockets.
    orphans: Mutex<Orphans<B>>,
    /// What TCP sockets share.
    tcp: &'static tcp::Globals<AnySocket<B>>,
    pub(crate) epolls: Slab<Object<B>>,
    pub(crate) kernel_sockets: KernelSockets,
    pool_stats: PoolSlot,
    poll_counters: MuxCounters,
    select_counters: MuxCounters,
    pub(crate) sharing: Sharing,
    /// Of processes whose sockets this one has adopted.
    pub(crate) wake_channels: WakeChannels,
    /// In a forked child, where this engine is its parent's: the engine of the parent's own parent.
    pub(crate) older: AtomicPtr<Self>,
    pub(crate) end: EndRequest,
    pub(crate) thread_requests: ThreadRequests,
    process_id: libc::pid_t,
    /// In a descendant: the process was found running when it was asked whether it has ended.
    lives_on: AtomicBool,
    /// Where the next look for lost descriptors begins.
    look_from: AtomicU32,
}

/// An engine is a host with sockets.
impl<B: Backend> Deref for Engine<B> {
    type Target = Host<B>;

    #[inline]
    fn deref(&self) -> &Host<B> {
        &self.host
    }
}

impl<B: Backend> Engine<B> {
    /// Makes the engine. Opens no device: that is for the first socket that can use one. Callers
    /// have it on the heap only: they may have little stack.
    ///
    /// # Errors
    /// The system refused the address space for the frames.
    #[inline(never)]
    pub fn new(
        settings: Settings,
        backend: B,
        network: Box<dyn Network>,
        segment: Segment,
    ) -> std::io::Result<Box<Self>> {
        let frame_bytes = frames::frame_bytes(&network.interfaces());
        let pool = frames::make_pool(&settings, frame_bytes)?;
        let reason_names: Vec<_> = Reason::ALL.iter().map(|reason| reason.text()).collect();
        segment.reason_names(&reason_names);
        let advice: Vec<_> = Reason::ALL.iter().map(|reason| reason.advice()).collect();
        segment.reason_advice(&advice);
        let pool_stats = segment.claim_pool();
        pool_stats.frames.set(settings.pool_frames.into());
        pool_stats.frame_bytes.set(frame_bytes.into());
        pool_stats.free.set(u64::from(settings.pool_frames));
        let counters_of = |kind: &str| {
            let slot = segment.claim_multiplexer();
            slot.kind.set(kind);
            let counters = MuxCounters::new();
            counters.show(slot);
            counters
        };
        let (poll_counters, select_counters) = (counters_of("poll"), counters_of("select"));
        let host = Host::new(
            settings,
            backend,
            network,
            Box::leak(Box::new(pool)),
            segment,
        );
        let tcp = tcp::Globals::new(
            host.pool,
            Arc::clone(&host.segment),
            Arc::clone(&host.internal_thread),
            host.peers,
            &settings,
        );
        Ok(Box::new(Self {
            host,
            sockets: Slab::new(),
            streams: Slab::new(),
            orphans: Mutex::default(),
            tcp: Box::leak(Box::new(tcp)),
            epolls: Slab::new(),
            kernel_sockets: KernelSockets::default(),
            pool_stats,
            poll_counters,
            select_counters,
            sharing: Sharing::new(),
            wake_channels: WakeChannels::default(),
            older: AtomicPtr::new(ptr::null_mut()),
            end: EndRequest::default(),
            thread_requests: ThreadRequests::default(),
            process_id: sys::process_id(),
            lives_on: AtomicBool::new(false),
            look_from: AtomicU32::new(0),
        }))
    }

    /// Follows the rules of `libvma.conf` from here on.
    pub fn follow_rules(&self, rules: ProcessRules) {
        self.rules.follow(rules, &self.segment);
    }

    /// Puts rules, in the words of `libvma.conf`, in front of all others. Sockets that have been
    /// looked at already keep to those that were in force then.
    ///
    /// # Errors
    /// The text is not made of rules; then nothing changes.
    pub fn add_rules(&self, text: &str) -> Result<(), RuleError> {
        self.rules.add_first(text, &self.segment)
    }

    /// The UDP socket behind a descriptor.
    #[inline]
    pub fn udp(&self, fd: c_int) -> Option<&'static UdpSocket<B>> {
        match self.table.get(fd)? {
            Object::Udp(socket) => Some(socket),
            _ => None,
        }
    }

    /// The TCP socket behind a descriptor.
    #[inline]
    pub fn tcp(&self, fd: c_int) -> Option<&'static TcpSocket<B>> {
        match self.table.get(fd)? {
            Object::Tcp(socket) => Some(socket),
            _ => None,
        }
    }

    /// Whether there are connections or listeners in user space.
    pub fn has_streams(&self) -> bool {
        self.tcp.has_streams()
    }

    /// Whether a device is open.
    pub fn has_open_interface(&self) -> bool {
        self.links.has_open()
    }

    /// Whether the interfaces that were needed could not be opened, none of them.
    pub fn has_failed_to_open(&self) -> bool {
        self.links.has_failed_to_open()
    }

    /// Interfaces are opened by a thread that this makes, and calls wait for them as long as the
    /// settings say; otherwise calls open them.
    pub fn open_beside(&self, spawn: Spawn) {
        self.links.open_beside(spawn);
    }

    /// Whether an interface is in the hands of another process, or being opened by a thread for
    /// which a call did not wait: the internal thread waits for that.
    pub fn waits_for_interface(&self) -> bool {
        self.links.awaits_interface()
    }

    /// Brings gauges up to date that no packet touches, and kicks devices that were busy. Returns
    /// whether one still is.
    pub fn refresh_gauges(&self) -> bool {
        self.pool_stats.free.set(self.pool.free_count() as u64);
        let (exhausted, known) = (self.pool.exhausted(), self.pool_stats.exhausted.value());
        self.pool_stats
            .exhausted
            .add(exhausted.saturating_sub(known));
        self.refresh_streams();
        let is_busy = self.links.refresh();
        if self.links.are_lost_anew() {
            self.device_lost();
        }
        is_busy
    }

    /// Whether we run in a child that shares our memory (`vfork(2)`) or has a copy of it.
    pub(crate) fn is_other_process(&self) -> bool {
        sys::process_id() != self.process_id
    }
}
