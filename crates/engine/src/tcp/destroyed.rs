//! Streams and listeners that an administrator ends (`ss -K`, `SOCK_DESTROY` of sock_diag(7)): the
//! kernel ends its half, and what is here follows.
//!
//! Of that nothing tells but the half itself (netlink tells of sockets that are gone, which this
//! one is not while somebody has it). So the halves are in an epoll set of the library, for no
//! event: the kernel tells of errors and hang-ups always. A system call more for each connection
//! would be much for short ones. So it is the internal thread that adds those that it finds, now
//! and then. One that is ended before that is told of when it is added.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use ::tcp::State;
use libc::epoll_event;
use sys::streams;

use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::tcp::clock::now;
use crate::tcp::globals::Globals;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

/// Told of once, nobody has to take out what is over, or is the kernel's.
const EVENTS: u32 = libc::EPOLLONESHOT.cast_unsigned();
/// Events that are fetched at once.
const EVENTS_MAX: usize = 64;
/// No generation of a socket that is open.
const NEVER: u32 = 0;

impl<S: Stack> Globals<S> {
    /// To be called by the thread that starts the internal one.
    pub(crate) fn prepare_for_destruction(&self) {
        self.destroyed.prepare();
    }

    /// Becomes readable when the kernel socket of a stream or a listener may have been ended.
    pub(crate) fn destroyed_fd(&self) -> Option<RawFd> {
        self.destroyed.fd()
    }
}

impl<S: TcpStack> Globals<S> {
    /// In the internal thread: ends those whose kernel socket was ended.
    pub(crate) fn follow_destroyed(&self, host: &Host<S>) {
        let Some(set) = self.destroyed.fd() else {
            return;
        };
        let mut events = [epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        loop {
            let count = sys::epoll_now(set, &mut events).unwrap_or(0);
            for event in events.iter().take(count) {
                let (timer, generation) = parts_of(event.u64);
                if let Some(socket) = self.timers.socket(timer).and_then(S::as_tcp) {
                    socket.follow_destruction(host, generation);
                }
            }
            if count < events.len() {
                return;
            }
        }
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// Whether it is not known to the set and is to be.
    pub(crate) fn is_to_be_watched(&self) -> bool {
        if !self.is_offloaded() || self.watched.load(Ordering::Relaxed) == self.generation() {
            return false;
        }
        match &*self.role.lock() {
            Role::Stream(stream) => !stream.is_over(),
            // The kernel socket is a closed one until listen(2) is made.
            Role::Listener(listening) => listening.kernel_listens,
            _ => false,
        }
    }

    /// In the internal thread: adds the kernel socket to the set. Under the control lock.
    pub(crate) fn watch_for_destruction(&self) {
        let Some(set) = self.globals.destroyed.fd() else {
            return;
        };
        let (fd, generation) = (self.fd(), self.generation());
        let event = epoll_event {
            events: EVENTS,
            u64: u64::from(self.timer()) | u64::from(generation) << u32::BITS,
        };
        // First: it may be told of at once.
        self.watched.store(generation, Ordering::Relaxed);
        if !sys::epoll_add(set, fd, event) {
            // It was told of before, in vain.
            let _ = sys::epoll_modify(set, fd, event);
        }
    }

    /// The kernel socket is about to have the connection, for which it is closed for a moment.
    pub(super) fn end_watch_for_destruction(&self) {
        let was_watched = self.watched.swap(NEVER, Ordering::Relaxed) == self.generation();
        if let (true, Some(set)) = (was_watched, self.globals.destroyed.fd()) {
            sys::epoll_remove(set, self.fd());
        }
    }

    /// The kernel has told of an end or an error of the half that it has of this life.
    fn follow_destruction(&'static self, host: &Host<S>, generation: u32) {
        let told = |watched| (watched == generation).then_some(NEVER);
        let _ = self
            .watched
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, told);
        if self.is_listener() {
            return self.follow_end_of_listening(host);
        }
        let control = host.control();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return;
        };
        if !self.is_destroyed(stream, generation) {
            return;
        }
        stream.connection.destroy();
        let outcome = stream.settle(&self.core, now());
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        let (local, peer) = (stream.local, stream.peer);
        drop(role);
        log::debug!("{local}: the connection of {peer} was ended from outside");
        // The kernel has given the addresses to whoever wants them.
        self.drop_flows();
        drop(control);
        self.after(host, &outcome, sender);
    }

    /// Whether the kernel has closed its half although the connection lives. Under the control
    /// lock: while it is on its way to the kernel the half is closed, too.
    fn is_destroyed(&self, stream: &Stream<S>, generation: u32) -> bool {
        let passed = self.generation().wrapping_sub(generation);
        let half = match (stream.kernels_fd(), passed) {
            (Some(copy), 1) => copy,
            (None, 0) if self.has_own_number() => self.fd(),
            _ => return false,
        };
        !stream.is_over() && streams::state(half) == Some(State::Closed.linux_number())
    }
}

/// Whose timer and which life an event's data names.
fn parts_of(data: u64) -> (u32, u32) {
    (data as u32, (data >> u32::BITS) as u32)
}
