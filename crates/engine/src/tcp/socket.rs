//! A TCP socket.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use dev_core::{Lock, Rank, ThreadMode};
use libc::c_int;
use links::family::Family;
use stats::{SocketSlot, SocketStats};

use crate::sockets::events;
use crate::sockets::shared::Shared;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sockets::unseen::Unseen;
use crate::tcp::globals::Globals;
use crate::tcp::listen::Listening;
use crate::tcp::listen::return_queue::Returning;
use crate::tcp::shown_segments::ShownSegments;
use crate::tcp::state::local::Local;
use crate::tcp::state::moving::Moving;
use crate::tcp::state::waiting::Waiting;
use crate::tcp::stream::Stream;
use crate::tcp::wishes::Wishes;

/// A TCP socket: the kernel's socket, and a connection beside it.
pub struct TcpSocket<S: Stack> {
    pub(super) core: SocketCore<S>,
    pub(super) role: Lock<Role<S>>,
    pub(super) globals: &'static Globals<S>,
    /// The number of the object's timer.
    timer: OnceLock<u32>,
    /// Options that the program has set, or that the socket has of its listener: the kernel need
    /// not be asked for others.
    pub(super) options_set: Mutex<Vec<(c_int, c_int)>>,
    /// What it has asked for beside.
    pub(super) wishes: Wishes,
    /// A listener whose kernel's socket has refused what comes past the kernel
    /// ([`sys::set_listener_filter`]).
    pub(super) has_refused: AtomicBool,
    /// It has listened before: until it listens again its port may be another's, whatever its
    /// address says.
    pub(super) has_listened: AtomicBool,
    /// In this life a part of a listener's connections was accepted, or nearly.
    pub(super) has_accepted: AtomicBool,
    /// A listener at whose address others of this process may listen (`SO_REUSEPORT`).
    pub(super) is_sharer: AtomicBool,
    /// What a connection has that is the kernel's until its interface is there.
    pub(super) waiting: Waiting,
    /// The life in which it has come to be known to the set of `destroyed.rs`.
    pub(super) watched: AtomicU32,
    /// Who is to see what comes, and what is being shown.
    pub(super) shown: Lock<ShownSegments>,
    /// Its role is [`Role::Local`].
    pub(super) is_local: AtomicBool,
    /// Such a connection was reset, and no call has said so yet.
    pub(super) is_reset: AtomicBool,
    /// The threads that received and sent last.
    pub(super) receiver: AtomicUsize,
    pub(super) sender: AtomicUsize,
}

/// What a socket is in user space.
pub(super) enum Role<S: Stack> {
    /// Nothing: it is the kernel's, or nothing was decided yet.
    None,
    Stream(Box<Stream<S>>),
    Listener(Box<Listening<S>>),
    /// A listener that has gone back to the kernel, with connections that are still here.
    Returning(Box<Returning<S>>),
    /// A connection that is just going back to the kernel: what still comes here follows it.
    Moving(Box<Moving<S>>),
    /// A connection of the kernel's within this host, beside which memory is shared, perhaps.
    Local(Box<Local<S>>),
}

/// Kinds of sockets with TCP among them.
pub trait TcpStack: Stack + From<&'static TcpSocket<Self>> {
    /// The socket, if it is one of TCP.
    fn as_tcp(self) -> Option<&'static TcpSocket<Self>>;
}

/// A TCP socket is a socket.
impl<S: Stack> Deref for TcpSocket<S> {
    type Target = SocketCore<S>;

    #[inline]
    fn deref(&self) -> &SocketCore<S> {
        &self.core
    }
}

impl<S: Stack> TcpSocket<S> {
    pub(crate) fn new(
        globals: &'static Globals<S>,
        mode: ThreadMode,
        overflow: &'static SocketStats,
        shared: Option<Shared>,
        unseen: &'static Unseen<S>,
    ) -> Self {
        Self {
            // Of a socket in user space the kernel socket knows nothing.
            core: SocketCore::new(0, overflow, shared, unseen),
            role: Lock::new(mode, Role::None).ranked(Rank::Socket),
            globals,
            timer: OnceLock::new(),
            options_set: Mutex::default(),
            wishes: Wishes::default(),
            has_refused: AtomicBool::new(false),
            has_listened: AtomicBool::new(false),
            has_accepted: AtomicBool::new(false),
            is_sharer: AtomicBool::new(false),
            waiting: Waiting::default(),
            watched: AtomicU32::new(0),
            shown: Lock::new(mode, ShownSegments::default()),
            is_local: AtomicBool::new(false),
            is_reset: AtomicBool::new(false),
            receiver: AtomicUsize::new(0),
            sender: AtomicUsize::new(0),
        }
    }

    /// What the socket is ready for, under its lock.
    pub(crate) fn look(&self) -> u32 {
        let mut role = self.role.lock();
        if let Role::Local(local) = &mut *role {
            local.look(&self.readiness);
        }
        self.readiness.now()
    }

    /// It is ready for nothing. Takes the socket's lock.
    pub(super) fn clear_readiness(&self) {
        let _role = self.role.lock();
        self.readiness.clear(events::ALL);
    }

    pub(super) fn options_set(&self) -> MutexGuard<'_, Vec<(c_int, c_int)>> {
        self.options_set
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the object's timer.
    #[inline]
    pub(super) fn timer(&self) -> u32 {
        self.timer.get().copied().unwrap_or(u32::MAX)
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// Begins a life of the object, for a new descriptor of the kernel.
    pub(crate) fn open(
        &'static self,
        fd: c_int,
        family: Family,
        nonblocking: bool,
        slot: SocketSlot,
        forks_before: u32,
    ) {
        let protocol = stats::PROTOCOL_TCP;
        self.core
            .prepare(fd, family, nonblocking, protocol, slot, forks_before);
        self.timer
            .get_or_init(|| self.globals.timers.add(self.into()));
        self.options_set().clear();
        self.wishes.clear();
        self.has_refused.store(false, Ordering::Relaxed);
        self.has_listened.store(false, Ordering::Relaxed);
        self.has_accepted.store(false, Ordering::Relaxed);
        self.is_sharer.store(false, Ordering::Relaxed);
        self.waiting.end();
        self.shown.lock().callback = None;
        self.is_local.store(false, Ordering::Relaxed);
        self.is_reset.store(false, Ordering::Relaxed);
        self.receiver.store(0, Ordering::Relaxed);
        self.sender.store(0, Ordering::Relaxed);
        self.core.begin();
    }
}

impl<S: Stack> fmt::Debug for TcpSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSocket")
            .field("fd", &self.core.kernel_socket.fd)
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}
