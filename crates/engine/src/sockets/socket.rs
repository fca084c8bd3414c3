//! What sockets of every kind have: the kernel's socket behind them, a life in type-stable memory,
//! readiness, where their packets come from, counters, and who else may use them.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dev_core::Protocol;
use libc::c_int;
use links::Identity;
use links::family::Family;
use links::interface::set::InterfaceSet;
use links::interface::stamped_interfaces::StampedInterfaces;
use links::reason::Reason;
use stats::{SocketSlot, SocketStats};
use vma_config::rules::ProcessRule;

use crate::sockets::attachment::Attachment;
use crate::sockets::changes::{note_commit, note_silence_change};
use crate::sockets::events;
use crate::sockets::kernel_socket::KernelSocket;
use crate::sockets::offload_state::OffloadState;
use crate::sockets::readiness::Readiness;
use crate::sockets::shared::Shared;
use crate::sockets::stack::{SocketWatcher, Stack};
use crate::sockets::unseen::{ShownSocket, Unseen};

mod inherited;

const _: () = assert!(stats::PROTOCOL_UDP == Protocol::Udp as u32);
/// The part of a socket that is the same for every kind.
///
/// Lives in type-stable memory: a descriptor that was closed while another thread used it leads to
/// an object with another generation, never to freed memory.
pub struct SocketCore<S: Stack> {
    /// Odd while open; moves on when the socket is opened and closed.
    generation: AtomicU32,
    /// Whether the socket is accelerated, or the kernel's for good.
    state: OffloadState,
    pub(crate) readiness: Readiness<S::Place>,
    pub(crate) kernel_socket: KernelSocket,
    pub(crate) interfaces: InterfaceSet<S>,
    pub(crate) stamped: StampedInterfaces<S>,
    /// Receive calls until it is looked who makes them; 0: it never is.
    pub(crate) calls_until_look: AtomicU32,
    attachment: Mutex<Attachment<S>>,
    slot: Mutex<Option<SocketSlot>>,
    counters: AtomicPtr<SocketStats>,
    /// Where a socket counts that the statistics segment has no room for.
    overflow: &'static SocketStats,
    /// What descendants of the process know of the socket. `None`: there was no memory for it, and
    /// it stays with the kernel.
    shared: Option<Shared>,
    /// How often the process had forked when the socket was opened.
    forks_before: AtomicU32,
    /// An ancestor has opened it: see [`Attachment::inherited`].
    is_inherited: AtomicBool,
    /// Of such a one this process has a part of what comes past the kernel.
    has_part: AtomicBool,
    pub(crate) unseen: ShownSocket<S>,
}

impl<S: Stack> SocketCore<S> {
    /// `kernels`: the events that the kernel's socket reports for this kind.
    pub(crate) fn new(
        kernels: u32,
        overflow: &'static SocketStats,
        shared: Option<Shared>,
        unseen: &'static Unseen<S>,
    ) -> Self {
        debug_assert_eq!(kernels & !events::ALL, 0);
        Self {
            generation: AtomicU32::new(0),
            state: OffloadState::new(),
            readiness: Readiness::new(kernels),
            kernel_socket: KernelSocket::default(),
            interfaces: InterfaceSet::none(),
            stamped: StampedInterfaces::none(),
            calls_until_look: AtomicU32::new(0),
            attachment: Mutex::new(Attachment::default()),
            slot: Mutex::new(None),
            counters: AtomicPtr::new(ptr::from_ref(overflow).cast_mut()),
            overflow,
            shared,
            forks_before: AtomicU32::new(0),
            is_inherited: AtomicBool::new(false),
            has_part: AtomicBool::new(false),
            unseen: ShownSocket::new(unseen),
        }
    }

    /// Prepares a life of the object, for a new descriptor of the kernel. [`begin`](Self::begin)
    /// follows when the kind has prepared its part.
    pub(crate) fn prepare(
        &self,
        fd: c_int,
        family: Family,
        nonblocking: bool,
        protocol: u32,
        slot: SocketSlot,
        forks_before: u32,
    ) {
        if let Some(counters) = slot.lasting() {
            self.counters
                .store(ptr::from_ref(counters).cast_mut(), Ordering::Relaxed);
        }
        let counters = self.counters();
        counters.protocol.set(protocol);
        counters.fd.set(fd);
        counters.nonblocking.set(nonblocking);
        let inode = sys::inode(fd);
        counters.inode.set(inode);
        *lock(&self.slot) = Some(slot);
        self.forks_before.store(forks_before, Ordering::Relaxed);
        self.is_inherited.store(false, Ordering::Relaxed);
        self.unseen.begin(fd);
        self.kernel_socket.fd.store(fd, Ordering::Relaxed);
        self.kernel_socket.inode.store(inode, Ordering::Relaxed);
        self.set_family(family);
        self.kernel_socket
            .nonblocking
            .store(nonblocking, Ordering::Relaxed);
        self.kernel_socket.appends.store(false, Ordering::Relaxed);
        self.kernel_socket
            .receive_timeout_nsec
            .store(0, Ordering::Relaxed);
        self.kernel_socket
            .send_timeout_nsec
            .store(0, Ordering::Relaxed);
        self.kernel_socket.is_silent.store(false, Ordering::Relaxed);
        self.kernel_socket
            .readable_hint
            .store(false, Ordering::Relaxed);
        self.kernel_socket
            .postponed_error
            .store(0, Ordering::Relaxed);
        self.readiness.clear(events::ERR);
        *self.attachment() = Attachment::opened(family);
    }

    /// Begins the life that was prepared.
    pub(crate) fn begin(&self) {
        self.state.begin();
        self.set_reason(Reason::NotBound);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Ends a life of the object: calls that use it find out from here on. The flows are gone
    /// already. [`leave`](Self::leave) follows when the kind has cleared its part.
    pub(crate) fn end(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Lets go of all that the life had.
    pub(crate) fn leave(&self) {
        for watcher in self.readiness.take_watchers() {
            watcher.socket_closed();
        }
        drop(self.end_receiving());
        self.stamped.clear();
        self.kernel_socket.fd.store(-1, Ordering::Relaxed);
        self.readiness.sleepers.wake_all();
        self.attachment().leave_groups();
        self.counters
            .store(ptr::from_ref(self.overflow).cast_mut(), Ordering::Relaxed);
        *lock(&self.slot) = None;
    }

    /// What tells the object from others.
    pub(crate) fn number(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Number of the object's life; odd while a descriptor is open.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Which of all sockets it is.
    #[inline]
    pub(crate) fn identity(&self) -> Identity {
        Identity::of(self)
    }

    /// Which life of which object it is.
    pub(crate) fn life(&self) -> (usize, u32) {
        (ptr::from_ref(self).addr(), self.generation())
    }

    /// Its place in the memory that descendants of the process share, with the number of this life.
    /// `None`: it is closed.
    pub(crate) fn shared(&self) -> Option<(Shared, u32)> {
        let generation = self.generation();
        let shared = self.shared?;
        (!generation.is_multiple_of(2)).then_some((shared, generation))
    }

    /// How often the process had forked when the socket was opened.
    pub(crate) fn forks_before(&self) -> u32 {
        self.forks_before.load(Ordering::Relaxed)
    }

    /// The socket's counters in the statistics segment.
    #[inline]
    pub fn counters(&self) -> &'static SocketStats {
        // SAFETY: the pointer comes from `&'static SocketStats` (see `new` and `open`).
        unsafe { &*self.counters.load(Ordering::Relaxed) }
    }

    /// The counters, if readers see them and somebody may ask for them after the socket's end.
    pub(crate) fn counters_worth_keeping(&self) -> Option<&'static SocketStats> {
        let counters = self.counters();
        let was_used = self.reason() != Reason::NotBound || counters.tx_os_packets.value() > 0;
        (was_used && !ptr::eq(counters, self.overflow)).then_some(counters)
    }

    /// Whether the kernel's socket is not to be asked for what it is ready for.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.kernel_socket.is_silent.load(Ordering::Relaxed)
    }

    /// Says whether what the kernel tells of its socket is true from here on. Under the control
    /// lock.
    pub(crate) fn silence(&self, is_silent: bool) {
        // First: who sees that the socket is silent no more sees this, too.
        note_silence_change();
        self.kernel_socket
            .is_silent
            .store(is_silent, Ordering::Release);
        for watcher in self.readiness.watchers() {
            watcher.silenced(is_silent);
        }
        self.readiness.sleepers.wake_all();
    }

    /// The kernel's socket gets another descriptor, or is about to have something to tell: it may
    /// be in no set out of which the program has taken it.
    pub(crate) fn leave_sets(&self) {
        if self.is_silent() {
            for watcher in self.readiness.watchers() {
                watcher.silenced(true);
            }
        }
    }

    /// A descriptor of the kernel's socket.
    pub(crate) fn fd(&self) -> c_int {
        self.kernel_socket.fd.load(Ordering::Relaxed)
    }

    /// In which form the program has the socket's addresses.
    #[inline]
    pub fn family(&self) -> Family {
        if self.kernel_socket.is_inet6.load(Ordering::Relaxed) {
            Family::Inet6
        } else {
            Family::Inet
        }
    }

    pub(crate) fn set_family(&self, family: Family) {
        let is_inet6 = family == Family::Inet6;
        self.kernel_socket
            .is_inet6
            .store(is_inet6, Ordering::Relaxed);
    }

    /// Whether that is still the kernel's socket: a program may close a descriptor past every hook,
    /// and its number be another's then.
    pub(crate) fn has_own_number(&self) -> bool {
        sys::inode(self.fd()) == self.kernel_socket.inode.load(Ordering::Relaxed)
    }

    /// Why the socket is not accelerated; [`Reason::Offloaded`] if it is.
    #[inline]
    pub fn reason(&self) -> Reason {
        self.state.reason()
    }

    /// Whether flows of the socket lead to user space.
    #[inline]
    pub(crate) fn is_offloaded(&self) -> bool {
        self.state.is_offloaded()
    }

    /// Whether the socket is the kernel's until an interface is free that another process has, or
    /// is open. It may be past the kernel at any moment.
    pub(crate) fn is_held(&self) -> bool {
        self.reason().passes() && !self.is_committed()
    }

    /// Whether what shares the socket with other processes has to reckon with it past the kernel.
    pub(crate) fn is_or_may_be_offloaded(&self) -> bool {
        self.is_offloaded() || self.is_held()
    }

    /// Whether a call on the socket is for the kernel, waiting included. If so, it stays there: a
    /// thread that waits in the kernel would not learn of what comes past it. A socket that was
    /// accelerated and may be again waits here.
    #[inline]
    pub fn is_left_to_kernel(&self) -> bool {
        self.state.may_be_left_to_kernel() && self.commit_to_kernel()
    }

    #[cold]
    fn commit_to_kernel(&self) -> bool {
        self.recall_from_descendants();
        let was_committed = self.is_committed();
        let is_committed =
            self.readiness.now() & events::IN == 0 && self.state.commit_if_never_offloaded();
        if is_committed && !was_committed {
            note_commit();
        }
        is_committed
    }

    /// Whether the socket is the kernel's for the rest of its life.
    pub(crate) fn is_committed(&self) -> bool {
        self.state.is_committed()
    }

    /// Whether the socket has been accelerated in this life.
    pub(crate) fn was_offloaded(&self) -> bool {
        self.state.was_offloaded()
    }

    /// Whether nothing is to be done about the socket in an epoll set: it is in none of ours, has
    /// always been the kernel's and will be, as any descriptor that is no socket of ours.
    #[inline]
    pub(crate) fn is_any_descriptor(&self) -> bool {
        self.state.is_never_offloaded()
            && !self.readiness.is_watched()
            && self.readiness.now() & events::IN == 0
    }

    /// Makes the socket the kernel's for the rest of its life. `false`: it is already.
    pub(crate) fn commit(&self) -> bool {
        let is_new = self.state.commit();
        if is_new {
            note_commit();
        }
        is_new
    }

    /// Whether datagrams may be sent past the kernel.
    #[inline]
    pub(crate) fn sends_past_kernel(&self) -> bool {
        self.state.sends_past_kernel()
    }

    pub(crate) fn set_reason(&self, reason: Reason) {
        self.set_reason_about(reason, None, "");
    }

    /// With the rule behind the reason, or what it is about. `false`: it was to be accelerated, but
    /// a thread has gone to wait in the kernel, and the reason stays as it was.
    pub(crate) fn set_reason_about(
        &self,
        reason: Reason,
        rule: Option<&ProcessRule>,
        detail: &str,
    ) -> bool {
        if !self.state.set(reason) {
            return false;
        }
        self.explain(detail);
        let counters = self.counters();
        match reason {
            Reason::Offloaded => counters.set_offloaded(),
            _ => counters.set_not_offloaded(reason as u32, rule.map_or(0, |rule| rule.number)),
        }
        true
    }

    /// Shows which thread uses the socket; asks the kernel for its number only when it is another
    /// one.
    #[inline]
    pub(crate) fn note_thread(&self, known: &AtomicUsize, counter: &stats::Number) {
        let token = dev_core::lock::thread_token();
        if known.load(Ordering::Relaxed) != token {
            known.store(token, Ordering::Relaxed);
            counter.set(sys::thread_id().cast_unsigned());
        }
    }

    /// Who waits for the socket learns that it receives from other interfaces.
    pub(crate) fn interfaces_changed(&self) {
        for watcher in self.readiness.watchers() {
            watcher.interfaces_changed();
        }
        self.readiness.sleepers.wake_all();
    }

    pub(crate) fn attachment(&self) -> MutexGuard<'_, Attachment<S>> {
        lock(&self.attachment)
    }

    /// In a descendant, of an ancestor's socket. `None`: another thread of that changed it at the
    /// fork.
    pub(crate) fn attachment_at_fork(&self) -> Option<MutexGuard<'_, Attachment<S>>> {
        self.attachment.try_lock().ok()
    }
}

impl<S: Stack> fmt::Debug for SocketCore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketCore")
            .field("fd", &self.kernel_socket.fd)
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
