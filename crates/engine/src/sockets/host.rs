//! What sockets of every kind have in common on this host: the interfaces and ways of its network,
//! the descriptors, the rules, the statistics.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use dev_core::{Admission, FramePool};
use libc::c_int;
use links::Links;
use links::internal_thread::InternalThread;
use links::network::{Network, NextHopKey, PortUser};
use links::next_hops::{NextHops, SharedNextHop};
use links::reason::Reason;
use links::settings::Settings;
use stats::{Segment, SocketStats};
use vma_config::rules::ProcessRules;

use crate::sockets::fd_table::FdTable;
use crate::sockets::pacing::pacers::Pacers;
use crate::sockets::peers::Peers;
use crate::sockets::port_users::{KnownUsers, Look, LookBudget, PortUsers};
use crate::sockets::ports::Ports;
use crate::sockets::rules::Rules;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::{Described, Stack};
use crate::sockets::strangers::Strangers;
use crate::sockets::success;
use crate::sockets::unseen::Unseen;
use crate::sockets::zero_copy::HeldPackets;

/// What the sockets of a process stand on.
#[derive(Debug)]
pub struct Host<S: Stack> {
    settings: Settings,
    network: Arc<dyn Network>,
    pub(super) next_hops: NextHops,
    pub(crate) links: &'static Links<S>,
    pub(crate) internal_thread: Arc<InternalThread>,
    pub(crate) pool: &'static FramePool,
    /// Threads have asked for acceleration of their sockets.
    pub(crate) offloads_by_thread: AtomicBool,
    /// What programs hold of what they have received.
    pub(crate) held_packets: HeldPackets,
    /// Datagrams that wait for their time to leave.
    pub(crate) pacers: Pacers<S>,
    /// Processes of this host that memory is shared with.
    pub(crate) peers: &'static Peers<S>,
    /// What programs are to see first.
    pub(crate) unseen: &'static Unseen<S>,
    /// Which descriptors are ours. Changes under the control lock only.
    pub(crate) table: FdTable<S::Object>,
    control: Mutex<()>,
    /// The datagram sockets by the address that they are bound to.
    pub(crate) ports: Ports<S>,
    /// Datagram sockets of other processes.
    pub(crate) strangers: Strangers,
    /// A socket has been a member of a multicast group.
    pub(super) groups_joined: AtomicBool,
    /// The tick of the clock at which a sender last looked for members of groups on this host.
    pub(super) members_followed_nsec: AtomicU64,
    /// The UDP sockets of every process, as of lately.
    users: Mutex<Option<KnownUsers>>,
    /// What finding out who has a port has cost lately.
    looks: Mutex<LookBudget>,
    /// Inode number of a socket that is about to be closed, which the kernel still lists; else 0.
    /// Under the control lock.
    closing_inode: AtomicU64,
    pub(crate) rules: Rules,
    pub(crate) segment: Arc<Segment>,
    /// Where sockets count that the statistics have no room for.
    pub(crate) overflow: &'static SocketStats,
    /// Why all sockets are the kernel's, and when that was last looked for.
    pub(super) withdrawal: Withdrawal,
}

/// Whether all sockets of the process are the kernel's for good (`withdrawal.rs`).
#[derive(Debug, Default)]
pub(super) struct Withdrawal {
    /// The reason, or 0.
    pub(super) reason: AtomicU32,
    pub(super) looked_nsec: AtomicU64,
}

impl<S: Stack> Host<S> {
    pub(crate) fn new(
        settings: Settings,
        backend: S::Backend,
        network: Box<dyn Network>,
        pool: &'static FramePool,
        segment: Segment,
    ) -> Self {
        let network: Arc<dyn Network> = network.into();
        let segment = Arc::new(segment);
        let internal_thread = Arc::new(InternalThread::default());
        Self {
            settings,
            network: Arc::clone(&network),
            next_hops: NextHops::default(),
            // Threads that open interfaces may outlive every call.
            links: Box::leak(Box::new(Links::new(
                settings,
                backend,
                network,
                pool,
                Arc::clone(&segment),
                Arc::clone(&internal_thread),
            ))),
            pacers: Pacers::new(Arc::clone(&internal_thread)),
            // Sockets, which are never freed, know them.
            peers: Box::leak(Box::new(Peers::new(Arc::clone(&internal_thread)))),
            internal_thread,
            pool,
            table: FdTable::new(),
            held_packets: HeldPackets::new(settings.thread_mode),
            // Sockets, which are never freed, know it.
            unseen: Box::leak(Box::new(Unseen::new(
                settings.thread_mode,
                settings.socketxtreme,
            ))),
            offloads_by_thread: AtomicBool::new(false),
            control: Mutex::new(()),
            ports: Ports::new(),
            strangers: Strangers::default(),
            groups_joined: AtomicBool::new(false),
            members_followed_nsec: AtomicU64::new(0),
            users: Mutex::default(),
            looks: Mutex::new(LookBudget::new()),
            closing_inode: AtomicU64::new(0),
            rules: Rules::none(),
            segment,
            overflow: Box::leak(Box::default()),
            withdrawal: Withdrawal::default(),
        }
    }

    /// The settings that the engine was made with.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What a descriptor stands for, if it is one of ours.
    #[inline]
    pub fn look_up(&self, fd: c_int) -> Option<&'static S::Object> {
        self.table.get(fd)
    }

    /// No descriptor above this one was ever one of ours; -1 if none was.
    #[inline]
    pub fn highest_descriptor(&self) -> c_int {
        self.table.highest()
    }

    /// Whether the socket is still what the descriptor stands for: it may have been closed since it
    /// was looked up, and the object be another socket's.
    #[inline]
    pub(crate) fn is_behind(&self, fd: c_int, socket: &SocketCore<S>) -> bool {
        self.socket(fd)
            .is_some_and(|other| ptr::eq(other.core(), socket))
    }

    /// The socket behind a descriptor.
    #[inline]
    pub(crate) fn socket(&self, fd: c_int) -> Option<S> {
        self.table.get(fd)?.socket()
    }

    /// The sockets behind all descriptors: one that has several comes as often.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (c_int, S)> + '_ {
        self.table
            .range(0, u32::MAX)
            .filter_map(|fd| Some((fd, self.socket(fd)?)))
    }

    /// Held by whoever changes what descriptors stand for and where sockets get their packets from.
    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless somebody else holds it: for what can wait.
    pub(crate) fn try_control(&self) -> Option<MutexGuard<'_, ()>> {
        match self.control.try_lock() {
            Ok(control) => Some(control),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether any socket has been a member of a multicast group.
    pub(crate) fn has_groups(&self) -> bool {
        self.groups_joined.load(Ordering::Relaxed)
    }

    /// Runs `look` while a socket does not count any more that is about to be closed. Under the
    /// control lock. `lives_on`: another process has it, perhaps.
    pub(crate) fn without(
        &self,
        (port, closing_inode): (u16, u64),
        lives_on: bool,
        look: impl FnOnce(),
    ) {
        self.closing_inode.store(closing_inode, Ordering::Relaxed);
        look();
        self.closing_inode.store(0, Ordering::Relaxed);
        if lives_on {
            *self.known_users() = None;
        } else if let Some(known) = self.known_users().as_mut() {
            // What is kept may have it. Of thousands that are closed at once each would cost a look
            // at all.
            known.note_gone(port, closing_inode);
        }
    }

    /// The UDP sockets of other processes with a port, as of a few milliseconds ago, or of a few
    /// times as long ago as it takes to ask. `None`: the kernel does not say.
    pub(crate) fn others_at(&self, port: u16) -> Option<Arc<[PortUser]>> {
        let is_recent = |known: &KnownUsers| known.is_recent(sys::tick_nsec());
        if !self.known_users().as_ref().is_some_and(is_recent) {
            self.current_port_users()?;
        }
        let own = || {
            let sockets = self.ports.all(port).into_iter();
            let inode = |socket: S| socket.core().kernel_socket.inode.load(Ordering::Relaxed);
            sockets.map(inode).chain([self.closing_inode()]).collect()
        };
        Some(self.known_users().as_mut()?.others(port, own))
    }

    /// A socket of ours has come to a port.
    pub(crate) fn port_is_ours(&self, port: u16, inode: u64) {
        if let Some(known) = self.known_users().as_mut() {
            known.note_ours(port, inode);
        }
    }

    /// The same as of now.
    pub(crate) fn current_port_users(&self) -> Option<Arc<PortUsers>> {
        let (tick, begin) = (sys::tick_nsec(), sys::now_nsec());
        let users = Arc::new(PortUsers::new(self.network.port_users(None)?));
        let cost = sys::now_nsec().saturating_sub(begin);
        *self.known_users() = Some(KnownUsers::new(tick, cost, Arc::clone(&users)));
        Some(users)
    }

    /// Inode number of the socket that is about to be closed, or 0.
    pub(crate) fn closing_inode(&self) -> u64 {
        self.closing_inode.load(Ordering::Relaxed)
    }

    fn known_users(&self) -> MutexGuard<'_, Option<KnownUsers>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The UDP sockets of every process with a port, as far as they are not about to be closed.
    /// Those that others have opened in the last milliseconds may be missing if the program opens
    /// thousands at once. `None`: the kernel does not say.
    pub(crate) fn port_users(&self, port: u16) -> Option<Vec<PortUser>> {
        let begin = sys::now_nsec();
        let kept = self.known_users().as_ref().map(|it| Arc::clone(&it.users));
        let look = self.look_budget().next(begin, kept.is_some());
        let mut users = match (look, kept) {
            // Whoever is there may be gone again.
            (Look::Kept, Some(kept)) if kept.of(port).is_empty() => return Some(Vec::new()),
            (Look::All, _) => {
                let users = self.current_port_users()?;
                users.of(port).to_vec()
            }
            _ => self.network.port_users(Some(port))?,
        };
        let cost_nsec = sys::now_nsec().saturating_sub(begin);
        self.look_budget().spend(cost_nsec);
        let closing = self.closing_inode();
        users.retain(|user| closing == 0 || user.inode != closing);
        Some(users)
    }

    fn look_budget(&self) -> MutexGuard<'_, LookBudget> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules for sockets that are looked at from here on.
    pub(crate) fn rules(&self) -> &'static ProcessRules {
        self.rules.current()
    }

    pub(crate) fn network(&self) -> &dyn Network {
        &*self.network
    }

    /// Where a datagram goes.
    pub(crate) fn next_hop(&self, key: NextHopKey) -> Arc<SharedNextHop> {
        self.next_hops.resolve(&*self.network, key)
    }

    /// The way of datagrams that came past the kernel back to it.
    pub(crate) fn return_socket(&self) -> Option<&sys::RawSocket> {
        self.links.return_socket()
    }

    /// The way of connections into the queues of the kernel's listening sockets.
    pub(crate) fn admission(&self) -> io::Result<Box<dyn Admission>> {
        self.links.admission()
    }

    /// Tells readers of the statistics (`vma_stats --explain`) something in words about an
    /// interface: what is in the way, what does not apply to its packets, what to do. One text for
    /// each `topic`, a word such as `holder` or `vlan`; an empty text takes it away. Cut at 256
    /// bytes. From any thread, not per packet.
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
            Reason::Offloaded => {
                success::say_once(&self.segment);
                "offload"
            }
            _ => "kernel",
        };
        self.segment.event(kind, &format!("fd {fd}"), text);
    }

    /// Lets sockets know of what processes have for them that memory is shared with.
    #[inline]
    pub(crate) fn hear_peers(&self) {
        self.peers
            .take_news(|socket, generation| socket.peer_has_news(self, generation));
    }

    pub(crate) fn count_reason(&self, reason: Reason) {
        self.segment.count_reason(reason as u32);
    }
}
