//! The engine: what a process has of sockets, interfaces, frames and statistics.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use descriptors::OwnDescriptor;
use dev_core::{Backend, FramePool, LinkSpec, MemoryKind, OpenError, ThreadMode};
use libc::c_int;
use stats::{PoolSlot, Segment, SocketStats};
use vma_config::rules::{ProcessRule, ProcessRules, RuleError};

use crate::end_request::EndRequest;
use crate::fd_table::FdTable;
use crate::fork::Sharing;
use crate::frames;
use crate::interface::Interface;
use crate::interfaces::{Absent, Interfaces, Opening};
use crate::interrupt;
use crate::kernel_sockets::KernelSockets;
use crate::mux::MuxCounters;
use crate::mux::epoll::EpollSet;
use crate::mux::epoll_may_be_shared;
use crate::network::{InterfaceFacts, Network, NetworkChange};
use crate::next_hops::{NextHopKey, NextHops, SharedNextHop};
use crate::notice;
use crate::offload;
use crate::reason::Reason;
use crate::slab::Slab;
use crate::sys;
use crate::takeover::NotOpen;
use crate::udp::{MayOpen, UdpSocket};
use vma_config::ExceptionHandling;

/// What the configuration says to the engine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `VMA_OFFLOADED_SOCKETS`
    pub offloaded_sockets: bool,
    /// `VMA_EXCEPTION_HANDLING`
    pub exceptions: ExceptionHandling,
    /// `VMA_THREAD_MODE`
    pub thread_mode: ThreadMode,
    /// `VMA_RX_POLL`: polls of a blocking receive call before it sleeps; negative means without end.
    pub rx_poll: i32,
    /// `VMA_RX_POLL_YIELD`: polls of a blocking receive call between two offers of the CPU to others; 0 for none.
    pub rx_poll_yield: u32,
    /// `VMA_POLL_SHARED_CPU`: poll on a CPU that other threads need, too.
    pub poll_shared_cpu: bool,
    /// `VMA_RX_UDP_POLL_OS_RATIO`
    pub rx_udp_poll_os_ratio: u32,
    /// `VMA_SELECT_POLL` in microseconds; negative means without end.
    pub select_poll_usec: i32,
    /// `VMA_SELECT_POLL_OS_RATIO`
    pub select_poll_os_ratio: u32,
    /// `VMA_SELECT_SKIP_OS`
    pub select_skip_os: u32,
    /// `VMA_CQ_POLL_BATCH_MAX`: frames taken from a ring at once.
    pub poll_batch_max: usize,
    /// Frames of the pool.
    pub pool_frames: u32,
    /// `VMA_MEM_ALLOC_TYPE`
    pub memory: MemoryKind,
    /// The user has set it.
    pub memory_is_asked_for: bool,
}

/// Descriptors that are looked at in one go for whether they are still what they were: a third of a millisecond.
const LOOKED_AT_ONCE: usize = 1024;

/// What a descriptor stands for.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "objects live in slabs of one kind each"
)]
pub enum Object<B: Backend> {
    /// A UDP socket over IPv4.
    Udp(UdpSocket<B>),
    /// An epoll set that has such sockets in it.
    Epoll(EpollSet<B>),
}

/// The sockets, interfaces, frames and statistics of the process.
#[derive(Debug)]
pub struct Engine<B: Backend> {
    settings: Settings,
    backend: B,
    network: Box<dyn Network>,
    next_hops: NextHops,
    pool: &'static FramePool,
    pub(crate) table: FdTable<Object<B>>,
    sockets: Slab<Object<B>>,
    pub(crate) epolls: Slab<Object<B>>,
    pub(crate) interfaces: Interfaces<B>,
    /// One of them is in the hands of another process.
    pub(crate) waits_for_interface: AtomicBool,
    control: Mutex<()>,
    /// Replaced as a whole, never freed: sockets keep what they have seen.
    rules: RwLock<&'static ProcessRules>,
    pub(crate) segment: Segment,
    pub(crate) kernel_sockets: KernelSockets,
    unseen: &'static SocketStats,
    pool_stats: PoolSlot,
    pub(crate) poll_counters: MuxCounters,
    pub(crate) select_counters: MuxCounters,
    /// An interface could not be opened.
    open_failed: AtomicBool,
    /// Wakes the internal thread to look after frames that wait in a sending ring, once the thread runs.
    sender_watch: OnceLock<OwnDescriptor>,
    /// How often the internal thread has begun anew to look what there is to do; 0: it does not run.
    pub(crate) rounds: AtomicU32,
    /// A sending ring has, perhaps, frames of which its device was not told.
    frames_wait: AtomicBool,
    /// Through it the kernel gets datagrams that came past it. Opened with the first interface, not by the internal thread when
    /// a descendant asks: a new descriptor has the lowest number until it is moved away, which the program may expect.
    return_socket: OnceLock<sys::RawSocket>,
    pub(crate) sharing: Sharing,
    /// In a forked child, where this engine is its parent's: the engine of the parent's own parent.
    pub(crate) older: AtomicPtr<Self>,
    end: EndRequest,
    process_id: libc::pid_t,
    /// Where the next look for lost descriptors begins.
    look_from: AtomicU32,
}

impl<B: Backend> Engine<B> {
    /// Makes the engine. Opens no device: that is for the first socket that can use one.
    ///
    /// # Errors
    /// The system refused the address space for the frames.
    pub fn new(
        settings: Settings,
        backend: B,
        network: Box<dyn Network>,
        segment: Segment,
    ) -> std::io::Result<Self> {
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
        Ok(Self {
            settings,
            backend,
            network,
            next_hops: NextHops::default(),
            pool: Box::leak(Box::new(pool)),
            table: FdTable::new(),
            sockets: Slab::new(),
            epolls: Slab::new(),
            interfaces: Interfaces::new(),
            waits_for_interface: AtomicBool::new(false),
            control: Mutex::new(()),
            rules: RwLock::new(const { &ProcessRules::NONE }),
            segment,
            kernel_sockets: KernelSockets::default(),
            unseen: Box::leak(Box::default()),
            pool_stats,
            poll_counters,
            select_counters,
            open_failed: AtomicBool::new(false),
            sender_watch: OnceLock::new(),
            rounds: AtomicU32::new(0),
            frames_wait: AtomicBool::new(false),
            return_socket: OnceLock::new(),
            sharing: Sharing::new(),
            older: AtomicPtr::new(ptr::null_mut()),
            end: EndRequest::default(),
            process_id: sys::process_id(),
            look_from: AtomicU32::new(0),
        })
    }

    /// The settings that the engine was made with.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The rules for sockets that are looked at from here on.
    pub(crate) fn rules(&self) -> &'static ProcessRules {
        *self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the rules of `libvma.conf` from here on.
    pub fn follow_rules(&self, rules: ProcessRules) {
        let mut current = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        for rule in rules.iter() {
            self.describe_rule(rule);
        }
        *current = Box::leak(Box::new(rules));
    }

    /// Puts rules, in the words of `libvma.conf`, in front of all others. Sockets that have been looked at already keep to
    /// those that were in force then.
    ///
    /// # Errors
    /// The text is not made of rules; then nothing changes.
    pub fn add_rules(&self, text: &str) -> Result<(), RuleError> {
        let mut current = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let rules = current.with_first(text)?;
        let known = current.iter().count();
        for rule in rules.iter().filter(|rule| rule.number as usize > known) {
            log::debug!("rule {rule}");
            self.describe_rule(rule);
        }
        *current = Box::leak(Box::new(rules));
        Ok(())
    }

    fn describe_rule(&self, rule: &ProcessRule) {
        let (text, origin) = (rule.rule.to_string(), rule.origin());
        self.segment.describe_rule(rule.number, &text, &origin);
    }

    /// What a descriptor stands for, if it is one of ours.
    #[inline]
    pub fn look_up(&self, fd: c_int) -> Option<&'static Object<B>> {
        self.table.get(fd)
    }

    /// No descriptor above this one was ever one of ours; -1 if none was.
    #[inline]
    pub fn highest_descriptor(&self) -> c_int {
        self.table.highest()
    }

    /// The UDP socket behind a descriptor.
    #[inline]
    pub fn udp(&self, fd: c_int) -> Option<&'static UdpSocket<B>> {
        match self.table.get(fd)? {
            Object::Udp(socket) => Some(socket),
            Object::Epoll(_) => None,
        }
    }

    /// Whether the socket is still what the descriptor stands for: it may have been closed since it was looked up, and the
    /// object be another socket's.
    #[inline]
    pub(crate) fn is_behind(&self, fd: c_int, socket: &UdpSocket<B>) -> bool {
        self.udp(fd).is_some_and(|other| ptr::eq(other, socket))
    }

    /// Takes note of a new UDP socket over IPv4 of the kernel's.
    pub fn socket_opened(&self, fd: c_int, nonblocking: bool) {
        if self.is_other_process() {
            // The number is one of a child of `vfork(2)`.
            return;
        }
        let _control = self.control();
        self.forget(fd);
        let object = self.sockets.take(|| {
            Object::Udp(UdpSocket::new(
                self.pool,
                self.settings.thread_mode,
                self.unseen,
                self.sharing.place(),
            ))
        });
        let Object::Udp(socket) = object else {
            unreachable!("the slab holds sockets only")
        };
        socket.open(
            fd,
            nonblocking,
            self.segment.claim_socket(),
            self.sharing.forks(),
        );
        if let Some(rule) = offload::program_rule(self.rules()) {
            socket.leave_to_kernel_by_rule(self, rule);
        }
        if self.table.insert(fd, object).is_err() {
            // A descriptor beyond the table is the kernel's alone.
            socket.close();
            self.sockets.give(object);
        }
    }

    /// Forgets a descriptor that is about to be closed or replaced. A child of `vfork(2)` shares our memory but not our
    /// descriptors: what it closes stays open here.
    pub fn descriptor_closes(&self, fd: c_int) {
        if self.table.get(fd).is_none() || self.is_other_process() {
            return;
        }
        let _control = self.control();
        self.forget(fd);
    }

    /// The same for every descriptor from `first` to `last`.
    pub fn descriptors_close(&self, first: u32, last: u32) {
        if self.is_other_process() {
            return;
        }
        let _control = self.control();
        for fd in self.table.range(first, last) {
            self.forget(fd);
        }
        self.listed_close(first, last);
    }

    /// Forgets descriptors that were closed past every hook, by a system call of the program's own: their flows would keep packets
    /// from whoever has the port next, and their numbers may be those of other files. Looks at some of them, and at the next ones
    /// when called again.
    pub(crate) fn forget_lost_descriptors(&self) {
        let first = self.look_from.load(Ordering::Relaxed);
        let fds = self.table.range(first, u32::MAX);
        let fds: Vec<_> = fds.take(LOOKED_AT_ONCE).collect();
        let next = match fds.last() {
            Some(last) if fds.len() == LOOKED_AT_ONCE => last.cast_unsigned() + 1,
            _ => 0,
        };
        self.look_from.store(next, Ordering::Relaxed);
        for fd in fds.into_iter().filter(|fd| self.is_lost(*fd)) {
            let _control = self.control();
            // It may have been closed, and opened again, in an orderly way meanwhile.
            if self.is_lost(fd) {
                log::debug!("fd {fd}: closed or replaced by a system call");
                self.forget(fd);
            }
        }
    }

    fn is_lost(&self, fd: c_int) -> bool {
        let known = match self.table.get(fd) {
            Some(Object::Udp(socket)) => socket.shadow.inode.load(Ordering::Relaxed),
            Some(Object::Epoll(set)) => set.inode(),
            None => return false,
        };
        sys::inode(fd) != known
    }

    /// `new` stands for the same as `old` from here on. A child of `vfork(2)` copies a descriptor because the program that it
    /// is about to execute shall use it.
    pub fn descriptor_duplicated(&self, old: c_int, new: c_int) {
        if self.is_other_process() {
            return self.descriptor_passed(old);
        }
        let control = self.control();
        let Some(object) = self.table.get(old) else {
            return;
        };
        if old == new {
            return;
        }
        self.forget(new);
        match object {
            Object::Udp(socket) => socket.attachment().descriptors += 1,
            Object::Epoll(set) => set.descriptor_added(),
        }
        if self.table.insert(new, object).is_err() {
            // Reads on a descriptor that we cannot know would miss what comes past the kernel.
            match object {
                Object::Udp(socket) => {
                    socket.attachment().descriptors -= 1;
                    let detail = format!("descriptor {new} is beyond the library's table");
                    socket.leave_to_kernel_about(self, Reason::Option, &detail);
                }
                Object::Epoll(set) => {
                    drop(control);
                    set.leave_sockets_to_kernel(self, Reason::Option);
                }
            }
        }
    }

    /// A program that a child executes is to have the descriptor. Only a child of `vfork(2)` says so for itself alone.
    pub fn descriptor_handed_down(&self, fd: c_int) {
        if self.is_other_process() {
            self.descriptor_passed(fd);
        }
    }

    /// A descriptor goes to another process, which knows the kernel's socket only.
    pub fn descriptor_passed(&self, fd: c_int) {
        epoll_may_be_shared(fd);
        match self.look_up(fd) {
            Some(Object::Udp(socket)) => self.leave_to_kernel(socket, Reason::Passed),
            Some(Object::Epoll(set)) => set.leave_sockets_to_kernel(self, Reason::Passed),
            None => {}
        }
    }

    /// The kernel's socket may have got other addresses: `bind(2)`, `connect(2)`, or a first send.
    pub fn addresses_changed(&self, socket: &'static UdpSocket<B>) {
        let closed = {
            let _control = self.control();
            socket.follow_kernel(self, MayOpen::Yes)
        };
        if closed.is_empty() {
            return;
        }
        // Nobody waits for this who does not need the interface, too.
        for index in closed {
            let _ = self.open_interface_for_flows(index);
        }
        let _control = self.control();
        socket.follow_kernel(self, MayOpen::No);
    }

    /// Leaves a socket to the kernel for good.
    pub fn leave_to_kernel(&self, socket: &UdpSocket<B>, reason: Reason) {
        self.leave_to_kernel_about(socket, reason, "");
    }

    /// The same with what the reason is about.
    pub(crate) fn leave_to_kernel_about(
        &self,
        socket: &UdpSocket<B>,
        reason: Reason,
        detail: &str,
    ) {
        let _control = self.control();
        socket.leave_to_kernel_about(self, reason, detail);
    }

    /// The kernel has made a socket a member of a multicast group (`IP_ADD_MEMBERSHIP` and its like), or ended that.
    pub fn membership_changed(&self, socket: &UdpSocket<B>, group: Ipv4Addr, joined: bool) {
        let _control = self.control();
        socket.change_membership(self, group, joined);
    }

    /// Takes in what has changed in the network's configuration, without waiting.
    pub fn follow_network(&self) {
        if let Some(change) = self.network.take_changes() {
            self.follow_change(&change);
        }
    }

    /// The network's configuration has changed, no more is known. `interfaces`: links or addresses, not only routes and neighbours.
    pub fn network_changed(&self, interfaces: bool) {
        self.follow_change(&NetworkChange::everything(interfaces));
    }

    /// The network's configuration has changed.
    pub(crate) fn follow_change(&self, change: &NetworkChange) {
        self.next_hops.outdate(change);
        if !change.interfaces {
            return;
        }
        let present = self.network.interfaces();
        for interface in self.interfaces.open() {
            self.bring_up_to_date(interface, &present);
        }
        // What could not be opened, or was lost, gets another chance.
        self.interfaces.forget_failed();
        self.follow_kernel_everywhere();
        // Destinations that were resolved meanwhile may show what was before.
        self.next_hops.outdate(change);
    }

    /// Interfaces that others held are free: sockets that wait for them go over.
    pub(crate) fn interfaces_are_back(&self) {
        self.follow_kernel_everywhere();
        // Destinations behind them are resolved anew.
        self.next_hops.outdate(&NetworkChange::everything(true));
    }

    /// A device is gone: its sockets go back to the kernel until there is another.
    pub(crate) fn device_lost(&self) {
        self.segment.event(
            "device",
            "",
            "a device is lost: its sockets go to the kernel",
        );
        self.follow_kernel_everywhere();
    }

    fn follow_kernel_everywhere(&self) {
        let follow = |may_open| {
            let _control = self.control();
            let mut closed = Vec::new();
            for fd in self.table.range(0, u32::MAX) {
                if let Some(Object::Udp(socket)) = self.table.get(fd)
                    && socket.reason() != Reason::NotBound
                {
                    closed.extend(socket.follow_kernel(self, may_open));
                }
            }
            closed
        };
        let mut closed = follow(MayOpen::Yes);
        if closed.is_empty() {
            return;
        }
        closed.sort_unstable();
        closed.dedup();
        for index in closed {
            let _ = self.open_interface_for_flows(index);
        }
        follow(MayOpen::No);
    }

    /// Packets of accelerated sockets do not meet what an administrator may count on.
    fn say_what_is_passed_by(&self, interface: &Interface<B>) {
        let spec = interface.spec();
        let passed_by = self.network.passed_by(spec.index);
        if passed_by.is_empty() {
            return;
        }
        let text = format!(
            "accelerated packets pass by this host's {}",
            passed_by.join(", ")
        );
        log::warn!("{}: {text}", spec.name);
        self.note_interface(&spec.name, "firewall", &text);
    }

    /// An open interface has, perhaps, another hardware address, or is gone.
    fn bring_up_to_date(&self, interface: &Interface<B>, present: &[InterfaceFacts]) {
        let index = interface.spec().index;
        match present.iter().find(|facts| facts.spec.index == index) {
            Some(facts) => {
                interface.follow_mac(facts.spec.mac);
                self.note_mtu(&facts.spec, interface.mtu_max());
                interface.refuse_sources(self.network.refused_sources(index));
            }
            None => interface.mark_lost(),
        }
    }

    /// Says what does not fit into a frame.
    fn note_mtu(&self, spec: &LinkSpec, mtu_max: u32) {
        let note = frames::note_on_mtu(spec.mtu, mtu_max);
        if !note.is_empty() {
            log::debug!("{}: {note}", spec.name);
        }
        self.note_interface(&spec.name, "mtu", &note);
    }

    /// Whether a device is open.
    pub fn has_open_interface(&self) -> bool {
        !self.interfaces.open().is_empty()
    }

    /// Whether the interfaces that were needed could not be opened, none of them.
    pub fn has_failed_to_open(&self) -> bool {
        self.open_failed.load(Ordering::Relaxed) && !self.has_open_interface()
    }

    /// Brings gauges up to date that no packet touches, and kicks devices that were busy. Returns whether one still is.
    pub fn refresh_gauges(&self) -> bool {
        self.pool_stats.free.set(self.pool.free_count() as u64);
        let (exhausted, known) = (self.pool.exhausted(), self.pool_stats.exhausted.value());
        self.pool_stats
            .exhausted
            .add(exhausted.saturating_sub(known));
        let open = self.interfaces.open();
        if open
            .iter()
            .filter(|interface| interface.is_lost_anew())
            .count()
            > 0
        {
            self.device_lost();
        }
        open.iter().filter(|interface| interface.refresh()).count() > 0
    }

    /// The internal thread runs and looks after senders from here on; `fd` calls it.
    pub(crate) fn begin_sender_watch(&self, fd: OwnDescriptor) {
        self.sender_watch.get_or_init(|| fd);
    }

    /// What calls the internal thread.
    pub(crate) fn sender_watch_fd(&self) -> Option<c_int> {
        self.sender_watch.get().map(AsRawFd::as_raw_fd)
    }

    /// Whether the internal thread looks after frames that wait in a sending ring.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.sender_watch.get().is_some()
    }

    /// A frame was left to a later kick.
    #[inline]
    pub(crate) fn frames_wait(&self) {
        if !self.frames_wait.load(Ordering::Relaxed) {
            self.frames_wait.store(true, Ordering::Relaxed);
        }
    }

    /// Makes every device send what was left to a later kick.
    #[inline]
    pub(crate) fn start_waiting(&self) {
        if self.frames_wait.load(Ordering::Relaxed) {
            self.frames_wait.store(false, Ordering::Relaxed);
            self.interfaces.for_each_open(Interface::start_waiting);
        }
    }

    /// A frame was left to a later kick, and nobody looks after it yet: calls the internal thread.
    #[cold]
    pub(crate) fn watch_senders(&self) {
        self.frames_wait();
        self.call_internal_thread();
    }

    /// Has the internal thread look what there is to wait for.
    pub(crate) fn call_internal_thread(&self) {
        if let Some(fd) = self.sender_watch.get() {
            sys::signal_eventfd(fd.as_raw_fd());
        }
    }

    /// Looks after senders that have stopped. Returns whether to look again soon.
    pub(crate) fn look_after_senders(&self) -> bool {
        if let Some(fd) = self.sender_watch.get() {
            sys::drain_eventfd(fd.as_raw_fd());
        }
        let open = self.interfaces.open();
        let again = |interface: &&&Interface<B>| interface.look_after_waiting();
        open.iter().filter(again).count() > 0
    }

    /// `SIGINT` with `VMA_HANDLE_SIGINTR`: no call waits any more. Async-signal-safe.
    pub fn interrupt_all(&self) {
        if !self.is_other_process() {
            interrupt::interrupt_all();
        }
    }

    /// The process ends: sends what waits, removes the statistics file, and leaves to the kernel what descendants still have.
    pub fn process_ends(&self) {
        if !self.is_other_process() {
            self.start_waiting();
            self.segment.unlink();
            self.leave_shared_to_kernel();
        }
    }

    /// The same in a signal handler, which takes no lock: the internal thread does it, if there is one and it is not held up.
    /// Async-signal-safe.
    pub fn process_ends_by_signal(&self) {
        if self.is_other_process() {
            return;
        }
        if let Some(fd) = self.sender_watch.get() {
            self.end
                .ask_and_wait(|| sys::signal_eventfd(fd.as_raw_fd()));
        }
        self.segment.unlink();
    }

    /// In the internal thread: a signal handler may have asked for the process's end.
    pub(crate) fn end_if_asked(&self) {
        if self.end.is_asked() {
            self.process_ends();
            self.end.done();
        }
    }

    /// The way of datagrams that came past the kernel back to it.
    pub(crate) fn return_socket(&self) -> Option<&sys::RawSocket> {
        self.return_socket.get().filter(|raw| raw.is_open())
    }

    /// Where a datagram goes.
    pub(crate) fn next_hop(&self, key: NextHopKey) -> Arc<SharedNextHop> {
        self.next_hops.resolve(&*self.network, key)
    }

    pub(crate) fn network(&self) -> &dyn Network {
        &*self.network
    }

    /// Tells readers of the statistics (`vma_stats --explain`) something in words about an interface: what is in the way, what
    /// does not apply to its packets, what to do. One text for each `topic`, a word such as `holder` or `vlan`; an empty
    /// text takes it away. Cut at 256 bytes. From any thread, not per packet.
    pub fn note_interface(&self, name: &str, topic: &str, text: &str) {
        self.segment.note(name, topic, text);
    }

    /// The same about the process as a whole.
    pub fn note_process(&self, topic: &str, text: &str) {
        self.segment.note("", topic, text);
    }

    /// Lets readers know of a decision about a socket.
    pub(crate) fn socket_event(&self, reason: Reason, fd: c_int, text: &str) {
        let kind = match reason {
            Reason::Offloaded => "offload",
            _ => "kernel",
        };
        self.segment.event(kind, &format!("fd {fd}"), text);
    }

    pub(crate) fn count_reason(&self, reason: Reason) {
        self.segment.count_reason(reason as u32);
    }

    /// The host's interfaces as far as they matter for the offload decision.
    pub(crate) fn interface_facts(&self) -> Vec<InterfaceFacts> {
        let mut facts = self.network.interfaces();
        let is_open = |index| {
            let lost = Absent::Refused(Reason::DeviceLost);
            self.interfaces
                .get(index)
                .map_or_else(|absent| absent == lost, |_| true)
        };
        // A closed interface that is down cannot be opened; an open one keeps its flows until it is up again.
        facts.retain(|interface| interface.up || is_open(interface.spec.index));
        facts
    }

    /// The interface, open or not, that has the address of `local`, or any if that is unspecified.
    pub(crate) fn owner_of(
        &self,
        local: SocketAddrV4,
        interfaces: &[InterfaceFacts],
    ) -> Option<u32> {
        let address = *local.ip();
        let owns = |interface: &&InterfaceFacts| {
            interface.eligible
                && !interface.loopback
                && (address.is_unspecified() || interface.addresses.contains(&address))
        };
        interfaces
            .iter()
            .find(owns)
            .map(|interface| interface.spec.index)
    }

    /// An interface that is open.
    pub(crate) fn interface(&self, index: u32) -> Result<&'static Interface<B>, Absent> {
        self.interfaces.get(index)
    }

    /// An interface, opened if it was not. While another thread opens it, there is none.
    pub(crate) fn open_interface(&self, index: u32) -> Result<&'static Interface<B>, Reason> {
        loop {
            match self.interfaces.get(index) {
                Ok(interface) => return Ok(interface),
                Err(Absent::Refused(reason)) => return Err(reason),
                Err(Absent::Opening) => return Err(Reason::Opening),
                Err(Absent::Closed) => {}
            }
            if let Ok(opening) = self.interfaces.begin(index) {
                return self.open_closed(index, opening);
            }
        }
    }

    /// The same; waits if another thread opens it.
    fn open_interface_for_flows(&self, index: u32) -> Result<&'static Interface<B>, Reason> {
        match self.interfaces.get_when_opened(index) {
            Ok(interface) => Ok(interface),
            Err(_) => self.open_interface(index),
        }
    }

    fn open_closed(
        &self,
        index: u32,
        mut opening: Opening<'_, B>,
    ) -> Result<&'static Interface<B>, Reason> {
        if !self.network.is_here() {
            // The device would be one of the thread's own namespace. Another thread may open it.
            opening.given_up();
            return Err(Reason::Namespace);
        }
        let mut present = self.network.interfaces().into_iter();
        let facts = present.find(|facts| facts.spec.index == index);
        let Some(facts) = facts.filter(|facts| facts.eligible && facts.up) else {
            opening.given_up();
            return Err(Reason::Route);
        };
        let before = opening.before.take();
        let interface = match self.open_device(facts, before) {
            Ok(interface) => interface,
            Err(not_open) => {
                let reason = not_open.reason();
                opening.failed(not_open);
                if reason == Reason::Held {
                    self.wait_for_holder();
                }
                return Err(reason);
            }
        };
        opening.succeeded(interface);
        self.say_what_is_passed_by(interface);
        // What has changed meanwhile was told to the interfaces that were open then.
        self.bring_up_to_date(interface, &self.network.interfaces());
        Ok(interface)
    }

    fn open_device(
        &self,
        facts: InterfaceFacts,
        before: Option<NotOpen>,
    ) -> Result<&'static Interface<B>, NotOpen> {
        let failed_before = before.is_some();
        let spec = facts.spec;
        // To find that out by opening the device takes milliseconds, in every child that has sockets of its own.
        let opened = match self.network.xdp_program(spec.index) {
            Some(_) => Err(OpenError {
                what: "another XDP program is attached".to_owned(),
                remedy: "it is taken over when it is free; see `ip link` for the program",
                locked_memory: false,
                held: true,
            }),
            None => self.backend.open(&spec, self.pool),
        };
        let port = match opened {
            Ok(port) => port,
            Err(error) => {
                if error.locked_memory
                    && !failed_before
                    && let Some(limit_bytes) = sys::locked_memory_limit_bytes()
                {
                    notice::warn_in_a_box(&notice::locked_memory(limit_bytes));
                }
                self.open_failed.store(true, Ordering::Relaxed);
                self.segment.event("error", &spec.name, &error.what);
                // Once is enough for a reader.
                let level = if failed_before {
                    log::Level::Debug
                } else {
                    log::Level::Warn
                };
                if error.held {
                    let not_open = self.interface_is_held(spec.index, &spec.name, before);
                    if let Some(holder) = not_open.holder() {
                        log::log!(level, "{} is not accelerated: {holder} holds it", spec.name);
                        log::log!(level, "{}: it is taken over when that ends", spec.name);
                    } else {
                        log::log!(level, "{} is not accelerated: {}", spec.name, error.what);
                        log::log!(level, "{}: {}", spec.name, error.remedy);
                    }
                    return Err(not_open);
                }
                log::log!(level, "{} is not accelerated: {}", spec.name, error.what);
                log::log!(level, "{}: {}", spec.name, error.remedy);
                return Err(NotOpen::failed());
            }
        };
        log::debug!(
            "{}: opened, {}, {} queue(s)",
            spec.name,
            port.description,
            port.queues
        );
        if !port.note.is_empty() {
            log::info!("{}: {}, {}", spec.name, port.description, port.note);
        }
        self.segment.event(
            "device",
            &spec.name,
            &format!("opened, {}", port.description),
        );
        self.note_interface(&spec.name, "mode", &port.note);
        self.note_mtu(&spec, port.mtu_max);
        if self.return_socket.get().is_none()
            && let Ok(raw) = sys::RawSocket::open()
        {
            self.return_socket.get_or_init(|| raw);
        }
        self.interface_is_ours(&spec.name);
        let stats = self.segment.claim_ring();
        stats.ifname.set(&spec.name);
        stats.ifindex.set(spec.index);
        stats.queues.set(port.queues);
        stats.mode.set(&port.description);
        let Settings {
            thread_mode,
            poll_batch_max,
            ..
        } = self.settings;
        let index = spec.index;
        let queue_stats = self.segment.claim_queue();
        queue_stats.ifname.set(&spec.name);
        queue_stats.ifindex.set(index);
        let interface = Interface::new(
            spec,
            port,
            self.pool,
            thread_mode,
            poll_batch_max,
            stats,
            queue_stats,
        );
        interface.refuse_sources(self.network.refused_sources(index));
        Ok(Box::leak(Box::new(interface)))
    }

    /// Ends what a descriptor stands for, if it is the last one that does. Under the control lock.
    pub(crate) fn forget(&self, fd: c_int) {
        let Some(object) = self.table.remove(fd) else {
            return;
        };
        match object {
            Object::Udp(socket) => {
                let mut attachment = socket.attachment();
                attachment.descriptors = attachment.descriptors.saturating_sub(1);
                let is_last = attachment.descriptors == 0;
                drop(attachment);
                if is_last {
                    self.start_waiting();
                    socket.drop_flows();
                    if self.may_be_shared(socket) {
                        socket.give_queue_to_kernel(self);
                    }
                    socket.release();
                    if let Some(counters) = socket.counters_worth_keeping() {
                        self.segment.remember_closed(counters);
                    }
                    socket.close();
                    self.sockets.give(object);
                } else {
                    if let Some(other) = self.adopt_other_descriptor(&socket.shadow.fd, object, fd)
                    {
                        socket.counters().fd.set(other);
                    }
                }
            }
            Object::Epoll(set) => {
                if set.descriptor_removed() {
                    self.epolls.give(object);
                } else {
                    self.adopt_other_descriptor(set.epfd(), object, fd);
                }
            }
        }
    }

    /// The kernel's object is reached through the descriptor in `known`; one of several was closed. Returns the new one if it
    /// was that.
    fn adopt_other_descriptor(
        &self,
        known: &AtomicI32,
        object: &'static Object<B>,
        closed: c_int,
    ) -> Option<c_int> {
        if known.load(Ordering::Relaxed) != closed {
            return None;
        }
        let same = |fd: &c_int| {
            self.table
                .get(*fd)
                .is_some_and(|other| ptr::eq(other, object))
        };
        let other = self.table.range(0, u32::MAX).find(same)?;
        known.store(other, Ordering::Relaxed);
        Some(other)
    }

    /// Whether we run in a child that shares our memory (`vfork(2)`) or has a copy of it.
    pub(crate) fn is_other_process(&self) -> bool {
        sys::process_id() != self.process_id
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        lock(&self.control)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
