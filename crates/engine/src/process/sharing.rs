//! What a process has to share sockets with its descendants.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libc::c_int;

use crate::process::recall_channel::RecallChannel;
use crate::sockets::shared::{Shared, SharedMemory, SharedSocket};

/// What an engine has to share sockets with descendants of its process.
#[derive(Debug)]
pub(crate) struct Sharing {
    memory: SharedMemory,
    pub(crate) recall_channel: Option<RecallChannel>,
    /// The internal thread listens to the line, or will as soon as it runs.
    is_heard: AtomicBool,
    /// Started programs can ask for sockets.
    has_door: AtomicBool,
    /// Forks so far.
    forks: AtomicU32,
    /// Counts looks at who has the ports, in memory that descendants share.
    port_checks: Option<&'static SharedSocket>,
    /// A descendant has a use for the interfaces, and how often they were left to descendants.
    wanted: Option<&'static SharedSocket>,
    left: Option<&'static SharedSocket>,
}

impl Sharing {
    pub(crate) fn new() -> Self {
        let memory = SharedMemory::new();
        let counter = || memory.take().map(Shared::socket);
        Self {
            port_checks: counter(),
            wanted: counter(),
            left: counter(),
            memory,
            recall_channel: RecallChannel::new(),
            is_heard: AtomicBool::new(false),
            has_door: AtomicBool::new(false),
            forks: AtomicU32::new(0),
        }
    }

    /// A place in shared memory for an object of the slab.
    pub(crate) fn place(&self) -> Option<Shared> {
        self.memory.take()
    }

    /// Counts looks at who has the ports: odd while one is under way.
    pub(crate) fn port_checks(&self) -> Option<&'static AtomicU32> {
        self.port_checks.map(SharedSocket::counter)
    }

    /// In a descendant, which could use an interface that the process has: asks for it.
    pub(crate) fn want_interfaces(&self) {
        if let (Some(wanted), Some(channel)) = (self.wanted, &self.recall_channel) {
            wanted.counter().store(1, Ordering::Release);
            channel.notify();
        }
    }

    /// Whether a descendant has asked for interfaces.
    pub(crate) fn are_interfaces_wanted(&self) -> bool {
        self.wanted
            .is_some_and(|wanted| wanted.counter().load(Ordering::Acquire) != 0)
    }

    /// Those that nobody used are anybody's.
    pub(crate) fn interfaces_are_left(&self) {
        if let (Some(wanted), Some(left)) = (self.wanted, self.left) {
            wanted.counter().store(0, Ordering::Release);
            left.counter().fetch_add(1, Ordering::Release);
        }
        if let Some(channel) = self.memory.channel() {
            channel.wake();
        }
    }

    /// How often that has happened.
    pub(crate) fn times_left(&self) -> Option<&'static AtomicU32> {
        self.left.map(SharedSocket::counter)
    }

    /// How often the process has forked.
    pub(crate) fn forks(&self) -> u32 {
        self.forks.load(Ordering::Relaxed)
    }

    /// The descriptor for the internal thread to watch.
    pub(crate) fn recall_fd(&self) -> Option<c_int> {
        self.recall_channel.as_ref().map(RecallChannel::fd)
    }

    /// Before a fork.
    pub(crate) fn count_fork(&self) {
        self.forks.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether descendants can ask for sockets.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Relaxed)
    }

    pub(crate) fn set_heard(&self, is_heard: bool) {
        self.is_heard.store(is_heard, Ordering::Relaxed);
    }

    /// Whether programs that were started with sockets of the process's can ask for them.
    pub(crate) fn has_door(&self) -> bool {
        self.is_heard() && self.has_door.load(Ordering::Relaxed)
    }

    pub(crate) fn set_has_door(&self, has_door: bool) {
        self.has_door.store(has_door, Ordering::Relaxed);
    }

    /// The internal thread is about to end.
    pub(crate) fn stop_listening(&self) {
        self.set_heard(false);
        self.set_has_door(false);
    }
}
