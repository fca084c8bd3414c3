//! SocketXtreme: the ring by which packets and events of sockets come knows of them, until the
//! program takes them as completions, or by calls on their sockets.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use dev_core::{Lock, ThreadMode};
use links::Receiver;
use links::interface::Interface;
use links::interface::ring_set::RingSet;
use links::moderation::Moderation;
use links::receiver::NoCall;

/// Rings that a program can have: more than a host's interfaces have together, mostly.
const CHANNELS_MAX: usize = 64;

/// A ring of the program's, with the sockets that have something to tell.
#[derive(Debug)]
pub(crate) struct Channel<S: Receiver> {
    interface: &'static Interface<S>,
    ring: usize,
    /// What the program knows it by: a set with the ring's own descriptors, which are the library's
    /// and move. It is the program's.
    fd: OnceLock<Option<RawFd>>,
    count: AtomicU32,
    sockets: Lock<VecDeque<(S, u32)>>,
}

impl<S: Receiver> Channel<S> {
    /// The descriptor that the program knows it by, which becomes readable when packets wait.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        *self.fd.get_or_init(|| {
            let set = sys::programs_epoll().ok()?;
            for fd in self.interface.ring_wait_fds(self.ring) {
                let event = libc::epoll_event {
                    events: libc::EPOLLIN as u32,
                    u64: 0,
                };
                sys::epoll_add(set.as_raw_fd(), fd, event);
            }
            Some(set.into_raw_fd())
        })
    }

    /// Whether the program knows it by this descriptor.
    #[inline]
    pub(crate) fn is_known_by(&self, fd: RawFd) -> bool {
        self.fd.get().is_some_and(|known| *known == Some(fd))
    }

    /// How wake-ups by it are moderated from here on.
    pub(crate) fn moderate(&self, moderation: Moderation) {
        self.interface.moderate(self.ring, moderation);
    }

    /// Receives what has come.
    #[inline]
    pub(crate) fn receive(&self) {
        let own = RingSet::of(self.ring);
        self.interface.poll_rings(own, &mut None::<NoCall>);
    }

    /// A socket that has something to tell, in the life in which it came.
    #[inline]
    pub(crate) fn take(&self) -> Option<(S, u32)> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut sockets = self.sockets.lock();
        let first = sockets.pop_front();
        self.count.store(sockets.len() as u32, Ordering::Relaxed);
        first
    }

    pub(crate) fn add(&self, socket: S, generation: u32) {
        let mut sockets = self.sockets.lock();
        sockets.push_back((socket, generation));
        self.count.store(sockets.len() as u32, Ordering::Relaxed);
    }
}

/// All rings of the program's. They last.
#[derive(Debug)]
pub(crate) struct Channels<S: Receiver> {
    all: [OnceLock<&'static Channel<S>>; CHANNELS_MAX],
    making: Mutex<()>,
    mode: ThreadMode,
}

impl<S: Receiver> Channels<S> {
    pub(crate) fn new(mode: ThreadMode) -> Self {
        Self {
            all: [const { OnceLock::new() }; CHANNELS_MAX],
            making: Mutex::new(()),
            mode,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Channel<S>> + '_ {
        self.all.iter().map_while(|place| place.get().copied())
    }

    fn find(&self, interface: &Interface<S>, ring: usize) -> Option<&'static Channel<S>> {
        self.iter()
            .find(|it| ptr::eq(it.interface, interface) && it.ring == ring)
    }

    /// That of an interface's rings. `None`: there are too many.
    pub(crate) fn of(
        &self,
        interface: &'static Interface<S>,
        rings: RingSet,
    ) -> Option<&'static Channel<S>> {
        let ring = rings.iter().next().unwrap_or(0);
        self.find(interface, ring)
            .or_else(|| self.make(interface, ring))
    }

    #[cold]
    fn make(&self, interface: &'static Interface<S>, ring: usize) -> Option<&'static Channel<S>> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = self.find(interface, ring) {
            return Some(channel);
        }
        let place = self.all.iter().find(|place| place.get().is_none())?;
        Some(place.get_or_init(|| {
            Box::leak(Box::new(Channel {
                interface,
                ring,
                fd: OnceLock::new(),
                count: AtomicU32::new(0),
                sockets: Lock::new(self.mode, VecDeque::new()),
            }))
        }))
    }
}
