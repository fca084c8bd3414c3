//! The host's interfaces: which are open, which could be, and what is common to them.

mod holder;
mod idle;
mod not_open;
mod opener;
mod opening;
mod recording;
mod senders;
mod states;
mod takeover;

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use dev_core::{Admission, Backend, FramePool, LinkSpec, Protocol};
use stats::Segment;

use crate::family::link_of;
use crate::interface::Interface;
use crate::internal_thread::InternalThread;
use crate::network::{InterfaceFacts, Network};
use crate::reason::Reason;
use crate::receiver::Receiver;
use crate::settings::Settings;
use idle::IdleTimes;
use opener::Opener;
pub use opener::Spawn;
pub use states::Absent;
use states::States;
use takeover::Leaving;
pub use takeover::TakeOver;

/// The interfaces, and what is needed to open one.
#[derive(Debug)]
pub struct Links<S: Receiver> {
    settings: Settings,
    backend: S::Backend,
    network: Arc<dyn Network>,
    pool: &'static FramePool,
    segment: Arc<Segment>,
    internal_thread: Arc<InternalThread>,
    states: States<S>,
    /// Sockets have chosen by which rings they send, or receive.
    sending_is_chosen: AtomicBool,
    receiving_is_chosen: AtomicBool,
    /// An interface could not be opened.
    has_failed: AtomicBool,
    /// One of them is in the hands of another process.
    is_held: AtomicBool,
    /// Ancestors that may leave theirs to this process.
    leaving: Mutex<Vec<Leaving>>,
    /// Interfaces that a broker has opened that has ended, of which rings are still here.
    left_by_broker: Mutex<Vec<&'static Interface<S>>>,
    /// How long interfaces have been of no use.
    idle: Mutex<IdleTimes>,
    /// Makes the thread that opens interfaces; without it, callers do that themselves.
    spawn: OnceLock<Spawn>,
    opener: Opener,
    /// An interface was opened of which others were told that it is being opened.
    is_opened_late: AtomicBool,
    /// A sending ring has, perhaps, frames of which its device was not told.
    frames_wait: AtomicBool,
    /// Interfaces that could be opened when the facts were last asked for.
    usable_count: AtomicUsize,
    /// Packets are recorded for who asks for them.
    is_recorded: AtomicBool,
    /// Through it the kernel gets datagrams that came past it. Opened with the first interface, not
    /// by the internal thread when a descendant asks: a new descriptor has the lowest number until
    /// it is moved away, which the program may expect.
    return_socket: OnceLock<sys::RawSocket>,
}

impl<S: Receiver> Links<S> {
    pub fn new(
        settings: Settings,
        backend: S::Backend,
        network: Arc<dyn Network>,
        pool: &'static FramePool,
        segment: Arc<Segment>,
        internal_thread: Arc<InternalThread>,
    ) -> Self {
        Self {
            settings,
            backend,
            network,
            pool,
            segment,
            internal_thread,
            states: States::new(),
            sending_is_chosen: AtomicBool::new(false),
            receiving_is_chosen: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            leaving: Mutex::default(),
            left_by_broker: Mutex::default(),
            idle: Mutex::default(),
            spawn: OnceLock::new(),
            opener: Opener::default(),
            is_opened_late: AtomicBool::new(false),
            frames_wait: AtomicBool::new(false),
            usable_count: AtomicUsize::new(0),
            is_recorded: AtomicBool::new(false),
            return_socket: OnceLock::new(),
        }
    }

    /// An interface that is open.
    pub fn get(&self, index: u32) -> Result<&'static Interface<S>, Absent> {
        self.states.get(index)
    }

    /// Why an interface could not be opened, if that was tried.
    pub fn failure(&self, index: u32) -> Option<Reason> {
        self.states.failure(index)
    }

    /// Whether a device is open.
    pub fn has_open(&self) -> bool {
        !self.states.open().is_empty()
    }

    /// Whether the interfaces that were needed could not be opened, none of them.
    pub fn has_failed_to_open(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) && !self.has_open()
    }

    /// The way of datagrams that came past the kernel back to it.
    pub fn return_socket(&self) -> Option<&sys::RawSocket> {
        self.return_socket.get().filter(|raw| raw.is_open())
    }

    /// Whether the device of any interface notes the time at which it receives a packet.
    pub fn has_hardware_stamps(&self) -> bool {
        let interfaces = self.network.interfaces();
        interfaces.iter().any(|it| self.backend.has_clock(&it.spec))
    }

    /// Whether that is so of one whose driver does not show it past the kernel.
    pub fn has_hidden_stamps(&self) -> bool {
        let interfaces = self.network.interfaces();
        let is_shown = |spec: &LinkSpec| {
            self.backend.may_show_clock(spec)
                && netconf::shows_device_times(spec.index).unwrap_or(false)
        };
        interfaces
            .iter()
            .any(|it| self.backend.has_clock(&it.spec) && !is_shown(&it.spec))
    }

    /// Whether a broker listens, which may give several processes their parts of an interface.
    pub fn has_broker(&self) -> bool {
        self.backend.has_broker()
    }

    /// The process is about to give up rights, and may ask a broker for interfaces later. Returns
    /// whether there is one.
    pub fn reserve_places(&self) -> bool {
        let count = count_usable(&self.network.interfaces());
        self.backend.reserve_places(count)
    }

    /// The same for a process that inherits this, of which another thread may have had any lock
    /// when that was forked: for as many interfaces as were known.
    pub fn reserve_places_of_descendant(&self) {
        let count = self.usable_count.load(Ordering::Relaxed);
        self.backend.reserve_places(count);
    }

    /// Whether a broker has opened all that is open.
    pub fn are_joint(&self) -> bool {
        self.states.open().iter().all(|it| it.is_joint())
    }

    /// The way of connections into the queues of the kernel's listening sockets.
    pub fn admission(&self) -> io::Result<Box<dyn Admission>> {
        // The program may have lowered its rights for a while.
        let _raised = sys::Raised::begin();
        self.backend.admission()
    }

    /// Links or addresses have changed. What could not be opened, or was lost, gets another chance.
    pub fn follow_change(&self) {
        let present = self.network.interfaces();
        for interface in self.states.open() {
            self.bring_up_to_date(interface, &present);
        }
        self.wait_for_brokers();
        self.states.forget_failed();
    }

    /// Whether a device was given up since this was last asked. One that a broker has opened is
    /// waited for.
    pub fn are_lost_anew(&self) -> bool {
        let open = self.states.open();
        let lost = open.iter().filter(|interface| interface.take_loss());
        let are_lost = lost.count() > 0;
        if are_lost {
            self.wait_for_brokers();
        }
        are_lost
    }

    /// Brings gauges up to date that no packet touches, and kicks devices that were busy. Returns
    /// whether one still is.
    pub fn refresh(&self) -> bool {
        let open = self.states.open();
        open.iter().filter(|interface| interface.refresh()).count() > 0
    }

    /// Sockets choose their rings: interfaces that are opened from here on have several. Those that
    /// are open stay as they are.
    pub fn rings_are_chosen(&self, sending: bool, receiving: bool) {
        let is_new = |asked, known: &AtomicBool| asked && !known.swap(true, Ordering::Relaxed);
        let sends = is_new(sending, &self.sending_is_chosen);
        let receives = is_new(receiving, &self.receiving_is_chosen);
        for interface in self.states.open() {
            let name = &interface.spec().name;
            if sends && !interface.has_several_sending_rings() {
                log::warn!(
                    "{name}: sockets that choose rings share its one for sending: it is open"
                );
            }
            if receives && !interface.has_several_rings() {
                log::warn!(
                    "{name}: sockets that choose rings share its one for receiving: it is open"
                );
            }
        }
    }

    /// Frames that all interfaces have received so far.
    pub fn frames_received(&self) -> u64 {
        let open = self.states.open();
        open.iter()
            .map(|interface| interface.frames_received())
            .sum()
    }

    /// The process is about to end: see [`Interface::process_ends`].
    pub fn process_ends(&self) {
        let open = self.states.open();
        open.iter().for_each(|it| it.process_ends());
    }

    /// Takes in what has come on every open interface.
    pub fn drain(&self) {
        let open = self.states.open();
        open.iter().for_each(|interface| {
            interface.poll_all();
        });
    }

    /// Takes in what has come for threads that sleep and do not watch the interfaces themselves.
    pub fn receive_for_followers(&self, spares_leaders: bool) {
        for interface in self.states.open().iter() {
            interface.receive_for_followers(spares_leaders);
        }
    }

    /// Takes in what has come on interfaces that nobody polls. Returns whether anybody has received
    /// since the last time.
    pub fn drain_unpolled(&self, max: usize) -> bool {
        let open = self.states.open();
        open.iter().filter(|it| it.drain_unpolled(max)).count() > 0
    }

    /// Descriptors that become readable when packets wait, of every interface.
    pub fn wait_fds(&self) -> impl Iterator<Item = RawFd> {
        let open = self.states.open().into_iter();
        let present = open.filter(|interface| !interface.is_lost());
        present.flat_map(Interface::wait_fds)
    }

    /// The socket that gets TCP segments from `peer` to `local` past the kernel.
    pub fn owner_of_segments(&self, local: SocketAddr, peer: SocketAddr) -> Option<S> {
        let link = link_of(local, peer);
        let open = self.states.open();
        open.iter()
            .filter(|interface| link == 0 || interface.spec().index == link)
            .find_map(|interface| interface.owner_of(Protocol::Tcp, local, peer))
    }

    /// The host's interfaces as far as they matter for the offload decision.
    pub fn facts(&self) -> Vec<InterfaceFacts> {
        let mut facts = self.network.interfaces();
        self.usable_count
            .store(count_usable(&facts), Ordering::Relaxed);
        let is_open = |index| {
            let lost = Absent::Refused(Reason::DeviceLost);
            self.states
                .get(index)
                .map_or_else(|absent| absent == lost, |_| true)
        };
        // A closed interface that is down cannot be opened; an open one keeps its flows until it is
        // up again.
        facts.retain(|interface| interface.up || is_open(interface.spec.index));
        facts
    }

    /// The interface, open or not, that has the address of `local`, or any if that is unspecified.
    pub fn owner_of(&self, local: SocketAddr, interfaces: &[InterfaceFacts]) -> Option<u32> {
        let address = local.ip();
        let owns = |interface: &&InterfaceFacts| {
            interface.is_eligible()
                && !interface.loopback
                && (address.is_unspecified() || interface.addresses.contains(&address))
        };
        interfaces
            .iter()
            .find(owns)
            .map(|interface| interface.spec.index)
    }
}

fn count_usable(interfaces: &[InterfaceFacts]) -> usize {
    interfaces.iter().filter(|it| it.is_usable()).count()
}
