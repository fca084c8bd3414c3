//! The engine: what a process has of sockets, interfaces, frames and statistics.

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use config::rules::{ProcessRule, ProcessRules, RuleError};
use libc::c_int;
use ring::{Backend, FramePool, ThreadMode};
use stats::{PoolSlot, Segment, SocketStats};

use crate::exception::ExceptionHandling;
use crate::fd_table::FdTable;
use crate::fork::Sharing;
use crate::interface::Interface;
use crate::interrupt;
use crate::mux::epoll::EpollSet;
use crate::mux::epoll_may_be_shared;
use crate::network::{InterfaceFacts, Network};
use crate::notice;
use crate::offload;
use crate::own_descriptors;
use crate::reason::Reason;
use crate::slab::Slab;
use crate::sys;
use crate::udp::UdpSocket;

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
}

/// Bytes of a frame. The kernel takes 256 of them for itself, which leaves room for an Ethernet MTU of 1500.
const FRAME_BYTES: u16 = 2048;

/// How long an interface that could not be opened is left alone.
const OPEN_AGAIN_NSEC: u64 = 1_000_000_000;

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
    network_generation: AtomicU64,
    pool: &'static FramePool,
    pub(crate) table: FdTable<Object<B>>,
    sockets: Slab<Object<B>>,
    pub(crate) epolls: Slab<Object<B>>,
    /// Those that could not be opened have the time of the last attempt.
    interfaces: Mutex<HashMap<u32, Result<&'static Interface<B>, u64>>>,
    control: Mutex<()>,
    /// Replaced as a whole, never freed: sockets keep what they have seen.
    rules: RwLock<&'static ProcessRules>,
    segment: Segment,
    unseen: &'static SocketStats,
    pool_stats: PoolSlot,
    /// An interface could not be opened.
    open_failed: AtomicBool,
    /// Wakes the internal thread to look after frames that wait in a sending ring, once the thread runs.
    sender_watch: OnceLock<sys::OwnedFd>,
    /// A sending ring has, perhaps, frames of which its device was not told.
    frames_wait: AtomicBool,
    /// Through it the kernel gets datagrams that came past it. Opened with the first interface, not by the internal thread when
    /// a descendant asks: a new descriptor has the lowest number until it is moved away, which the program may expect.
    way_back: OnceLock<sys::RawSocket>,
    pub(crate) sharing: Sharing,
    /// In a forked child, where this engine is its parent's: the engine of the parent's own parent.
    pub(crate) older: AtomicPtr<Self>,
    process_id: libc::pid_t,
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
        let pool = FramePool::new(settings.pool_frames, FRAME_BYTES, settings.thread_mode)?;
        let reason_names: Vec<_> = Reason::ALL.iter().map(|reason| reason.text()).collect();
        segment.reason_names(&reason_names);
        let pool_stats = segment.claim_pool();
        pool_stats.frames.set(settings.pool_frames.into());
        pool_stats.frame_bytes.set(FRAME_BYTES.into());
        pool_stats.free.set(u64::from(settings.pool_frames));
        Ok(Self {
            settings,
            backend,
            network,
            network_generation: AtomicU64::new(0),
            pool: Box::leak(Box::new(pool)),
            table: FdTable::new(),
            sockets: Slab::new(),
            epolls: Slab::new(),
            interfaces: Mutex::new(HashMap::new()),
            control: Mutex::new(()),
            rules: RwLock::new(const { &ProcessRules::NONE }),
            segment,
            unseen: Box::leak(Box::default()),
            pool_stats,
            open_failed: AtomicBool::new(false),
            sender_watch: OnceLock::new(),
            frames_wait: AtomicBool::new(false),
            way_back: OnceLock::new(),
            sharing: Sharing::new(),
            older: AtomicPtr::new(ptr::null_mut()),
            process_id: sys::process_id(),
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
    }

    /// Forgets descriptors that were closed past every hook, by a system call of the program's own: their flows would keep packets
    /// from whoever has the port next, and their numbers may be those of other files.
    pub(crate) fn forget_lost_descriptors(&self) {
        let _control = self.control();
        for fd in self.table.range(0, u32::MAX) {
            let known = match self.table.get(fd) {
                Some(Object::Udp(socket)) => socket.shadow.inode.load(Ordering::Relaxed),
                Some(Object::Epoll(set)) => set.inode(),
                None => continue,
            };
            if sys::inode(fd) != known {
                log::debug!("fd {fd}: closed or replaced by a system call");
                self.forget(fd);
            }
        }
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
                    socket.leave_to_kernel(self, Reason::Option);
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
        let _control = self.control();
        socket.follow_kernel(self);
    }

    /// Leaves a socket to the kernel for good.
    pub fn leave_to_kernel(&self, socket: &UdpSocket<B>, reason: Reason) {
        let _control = self.control();
        socket.leave_to_kernel(self, reason);
    }

    /// Takes in what has changed in the network's configuration, without waiting.
    pub fn follow_network(&self) {
        if let Some(change) = self.network.take_changes() {
            self.network_changed(change.interfaces);
        }
    }

    /// The network's configuration has changed. `interfaces`: links or addresses, not only routes and neighbours.
    pub fn network_changed(&self, interfaces: bool) {
        self.network_generation.fetch_add(1, Ordering::Release);
        if !interfaces {
            return;
        }
        let _control = self.control();
        let present = self.network.interfaces();
        for (index, interface) in &*lock(&self.interfaces) {
            let Ok(interface) = interface else { continue };
            match present.iter().find(|facts| facts.spec.index == *index) {
                Some(facts) => interface.follow_mac(facts.spec.mac),
                None => interface.mark_lost(),
            }
        }
        // What could not be opened, or was lost, gets another chance.
        lock(&self.interfaces)
            .retain(|_, interface| interface.is_ok_and(|interface| !interface.is_lost()));
        self.follow_kernel_everywhere();
        // Destinations that were resolved meanwhile may show what was before.
        self.network_generation.fetch_add(1, Ordering::Release);
    }

    /// A device is gone: its sockets go back to the kernel until there is another.
    pub(crate) fn device_lost(&self) {
        let _control = self.control();
        self.follow_kernel_everywhere();
    }

    fn follow_kernel_everywhere(&self) {
        for fd in self.table.range(0, u32::MAX) {
            if let Some(Object::Udp(socket)) = self.table.get(fd)
                && socket.reason() != Reason::NotBound
            {
                socket.follow_kernel(self);
            }
        }
    }

    /// Whether a device is open.
    pub fn has_open_interface(&self) -> bool {
        lock(&self.interfaces).values().any(Result::is_ok)
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
        lock(&self.interfaces)
            .values()
            .flatten()
            .filter(|interface| interface.refresh())
            .count()
            > 0
    }

    /// The internal thread runs and looks after senders from here on; `fd` calls it. Returns its number.
    pub(crate) fn begin_sender_watch(&self, fd: sys::OwnedFd) -> c_int {
        self.sender_watch.get_or_init(|| fd).raw()
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
            lock(&self.interfaces)
                .values()
                .flatten()
                .for_each(|interface| interface.start_waiting());
        }
    }

    /// A frame was left to a later kick, and nobody looks after it yet: calls the internal thread.
    #[cold]
    pub(crate) fn watch_senders(&self) {
        self.frames_wait();
        if let Some(fd) = self.sender_watch.get() {
            sys::signal_eventfd(fd);
        }
    }

    /// Looks after senders that have stopped. Returns whether to look again soon.
    pub(crate) fn look_after_senders(&self) -> bool {
        if let Some(fd) = self.sender_watch.get() {
            sys::drain_eventfd(fd);
        }
        let interfaces = lock(&self.interfaces);
        let again = |interface: &&Interface<B>| interface.look_after_waiting();
        interfaces.values().flatten().copied().filter(again).count() > 0
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

    /// The way of datagrams that came past the kernel back to it.
    pub(crate) fn way_back(&self) -> Option<&sys::RawSocket> {
        self.way_back.get().filter(|raw| raw.is_open())
    }

    /// Changes with every change of routes, neighbours, addresses or links.
    #[inline]
    pub(crate) fn network_generation(&self) -> u64 {
        self.network_generation.load(Ordering::Acquire)
    }

    pub(crate) fn network(&self) -> &dyn Network {
        &*self.network
    }

    pub(crate) fn count_reason(&self, reason: Reason) {
        self.segment.count_reason(reason as u32);
    }

    /// The host's interfaces as far as they matter for the offload decision.
    pub(crate) fn interface_facts(&self) -> Vec<InterfaceFacts> {
        let open = lock(&self.interfaces);
        let mut facts = self.network.interfaces();
        facts.retain(|interface| {
            // A closed interface that is down cannot be opened; an open one keeps its flows until it is up again.
            interface.up || matches!(open.get(&interface.spec.index), Some(Ok(_)))
        });
        facts
    }

    /// Opens the interface that has the address of `local`, or any if that is unspecified.
    pub(crate) fn open_owner_of(&self, local: SocketAddrV4, interfaces: &[InterfaceFacts]) {
        let address = *local.ip();
        let owns = |interface: &&InterfaceFacts| {
            interface.eligible
                && !interface.loopback
                && (address.is_unspecified() || interface.addresses.contains(&address))
        };
        if let Some(interface) = interfaces.iter().find(owns) {
            // If that fails, the log has said why, and whatever is sent there goes through the kernel.
            let _ = self.open_interface(interface.spec.index);
        }
    }

    /// An interface, opened if it was not.
    pub(crate) fn open_interface(&self, index: u32) -> Result<&'static Interface<B>, Reason> {
        let mut interfaces = lock(&self.interfaces);
        let failed_before = match interfaces.get(&index) {
            Some(Ok(interface)) if interface.is_lost() => return Err(Reason::DeviceLost),
            Some(Ok(interface)) => return Ok(interface),
            // Another process may have had it, and have ended since.
            Some(Err(failed_nsec)) if sys::tick_nsec() < failed_nsec + OPEN_AGAIN_NSEC => {
                return Err(Reason::OpenFailed);
            }
            Some(Err(_)) => true,
            None => false,
        };
        let facts = self
            .network
            .interfaces()
            .into_iter()
            .find(|facts| facts.spec.index == index)
            .ok_or(Reason::Route)?;
        if !facts.eligible || !facts.up {
            return Err(Reason::Route);
        }
        let opened = self.open_device(facts, failed_before);
        interfaces.insert(index, opened.ok_or_else(sys::tick_nsec));
        opened.ok_or(Reason::OpenFailed)
    }

    fn open_device(
        &self,
        facts: InterfaceFacts,
        failed_before: bool,
    ) -> Option<&'static Interface<B>> {
        let spec = facts.spec;
        let port = match self.backend.open(&spec, self.pool) {
            Ok(port) => port,
            Err(error) => {
                if error.locked_memory
                    && !failed_before
                    && let Some(limit_bytes) = sys::locked_memory_limit_bytes()
                {
                    notice::warn_in_a_box(&notice::locked_memory(limit_bytes));
                }
                self.open_failed.store(true, Ordering::Relaxed);
                // Once is enough for a reader.
                let level = if failed_before {
                    log::Level::Debug
                } else {
                    log::Level::Warn
                };
                log::log!(level, "{} is not accelerated: {}", spec.name, error.what);
                log::log!(level, "{}: {}", spec.name, error.remedy);
                return None;
            }
        };
        log::debug!(
            "{}: opened, {}, {} queue(s)",
            spec.name,
            port.description,
            port.queues
        );
        port.all_fds.iter().for_each(|fd| own_descriptors::add(*fd));
        if self.way_back.get().is_none()
            && let Ok(raw) = sys::RawSocket::open()
        {
            self.way_back.get_or_init(|| raw);
        }
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
        let interface = Interface::new(spec, port, self.pool, thread_mode, poll_batch_max, stats);
        Some(Box::leak(Box::new(interface)))
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
