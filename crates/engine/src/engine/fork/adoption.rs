//! Sockets that one descendant only takes connections or datagrams from: a daemon, or the one
//! worker of a server. That takes them past the kernel as if it had opened them. A datagram
//! socket's opener may live on; a listener's must have ended. Where a broker serves the interface,
//! several workers may listen, each with its part of the peers, and their opener may live on.
//!
//! Ancestors and siblings have the kernel's socket, too. As soon as a second process, or the
//! opener, is about to use it for more than sending, it says so in memory that all of them share,
//! wakes it (`WakeChannel`) and waits until the first one has given the socket back to the kernel,
//! where it stays.
//!
//! One process has an interface. An opener that uses none of its packets any more leaves it to a
//! descendant that could.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dev_core::Backend;
use libc::c_int;
use links::family::Family;
use links::reason::Reason;

use crate::engine::kinds::{AnySocket, Object};

use crate::engine::Engine;
use crate::process::sharing::Sharing;
use crate::sockets::hand_over;
use crate::sockets::options::IPV6_MULTICAST_ALL;
use crate::sockets::program_threads;
use crate::sockets::shared::Shared;
use crate::sockets::stack::Stack;
use crate::tcp;
use crate::udp::UdpSocket;

/// How long the end of the process is waited for that has opened the socket: a daemon's, which just
/// ends, and has the interfaces until then. Whoever is not the caller's parent is most probably
/// one.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_WITH_PARENT: Duration = Duration::from_millis(50);

/// A socket that an ancestor has opened.
#[derive(Debug)]
pub struct Inherited {
    shared: Shared,
    generation: u32,
    kind: Kind,
    /// What the opener of the socket shares with us.
    opener: &'static Sharing,
}

#[derive(Debug)]
enum Kind {
    /// Options that the ancestor has set.
    Listener(Vec<(c_int, c_int)>),
    Datagrams {
        chosen_by_cpu: bool,
    },
}

impl<B: Backend> Engine<B> {
    /// In a descendant, which is about to accept from a socket that it has inherited, to receive
    /// from it, or to wait for that: what has to be known to do so past the kernel. It is the
    /// kernel's already. `None`: it is neither a listener nor a datagram socket of this engine's,
    /// or another process may take something from it, such as its owner.
    pub fn inherited(&'static self, fd: c_int) -> Option<Inherited> {
        let object = self.table.get(fd)?;
        let (core, kind) = match object {
            Object::Udp(socket) => (&**socket, Self::datagrams_at_fork(socket)),
            Object::Tcp(socket) => {
                if !sys::streams::listens(fd) {
                    return None;
                }
                (&**socket, socket.options_at_fork().map(Kind::Listener))
            }
            Object::Epoll(_) => return None,
        };
        // Whatever is decided now is for good.
        self.table.remove(fd);
        let is_listener = matches!(object, Object::Tcp(_));
        let together = is_listener && self.links.has_broker() && !program_threads::are_several();
        if is_listener && !together && !tcp::can_repair() {
            // Workers often give up their privileges, and need not hear of it.
            return None;
        }
        let (shared, generation) = core.shared().filter(|_| core.has_own_number())?;
        let process = sys::process_id().cast_unsigned();
        let is_running = |process: u32| sys::is_running(process.cast_signed());
        let is_free = match together {
            true => shared.begin_taking_together(generation, is_running),
            false => shared.begin_taking(generation, process, is_running),
        };
        if !is_free {
            shared.claim_from_adopter(generation);
            if is_listener {
                // One that had it may have ended without taking that back.
                let _ = sys::set_listener_filter(fd, &[]);
            }
            return None;
        }
        let is_left = || match object {
            // An opener that accepts, too, from then on, asks before.
            _ if together => !shared.is_claimed(generation),
            Object::Udp(_) => shared.is_offered(generation) || self.has_ended_soon(),
            _ => self.has_ended_soon(),
        };
        // In a set of before the fork only the kernel reports it.
        let is_possible = !core.readiness.is_watched() && is_left();
        let Some(kind) = kind.filter(|_| is_possible) else {
            shared.mark_taken_by_several(generation);
            return None;
        };
        Some(Inherited {
            shared,
            generation,
            kind,
            opener: &self.sharing,
        })
    }

    /// `None`: the socket stays the kernel's.
    fn datagrams_at_fork(socket: &UdpSocket<AnySocket<B>>) -> Option<Kind> {
        // It may have been shared before this fork already: the process that shares it is known.
        if socket.is_committed() && socket.reason() != Reason::Forked {
            return None;
        }
        let attachment = socket.attachment_at_fork()?;
        // What it is a member of, and where it sends to groups, the kernel does not say.
        let has_more =
            !attachment.groups.memberships.is_empty() || socket.has_what_nobody_tells()?;
        (!has_more).then_some(Kind::Datagrams {
            chosen_by_cpu: attachment.chosen_by_cpu,
        })
    }

    /// In a descendant: whether this engine's process has ended, or just does so.
    fn has_ended_soon(&self) -> bool {
        let Ok(process) = sys::process_fd(self.process_id) else {
            return true;
        };
        let is_parent = self.process_id == sys::parent_process_id();
        let patience = match (self.lives_on.load(Ordering::Relaxed), is_parent) {
            (true, _) => Duration::ZERO,
            (false, true) => PATIENCE_WITH_PARENT,
            (false, false) => PATIENCE,
        };
        let mut ended = [libc::pollfd {
            fd: process.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        sys::wait(&mut ended, patience);
        let has_ended = ended[0].revents != 0;
        // For the next sockets nobody waits again.
        self.lives_on.store(!has_ended, Ordering::Relaxed);
        has_ended
    }

    /// Takes such a socket past the kernel, as far as that can be.
    pub fn adopt(&self, fd: c_int, inherited: Inherited) {
        if self.is_other_process() {
            return;
        }
        let domain = sys::option_int(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
        let Some(family) = domain.ok().and_then(Family::of_domain) else {
            return;
        };
        let nonblocking = sys::status_flags(fd).is_ok_and(|flags| flags & libc::O_NONBLOCK != 0);
        let Inherited {
            shared,
            generation,
            kind,
            opener,
        } = inherited;
        if let Some(times_left) = opener.times_left() {
            self.links.holder_may_leave(times_left);
        }
        let shared_by = (shared, generation);
        match kind {
            Kind::Listener(options) => {
                self.adopt_listener(fd, family, nonblocking, shared_by, options);
            }
            Kind::Datagrams { chosen_by_cpu } => {
                self.adopt_datagrams(fd, family, nonblocking, shared_by, chosen_by_cpu);
            }
        }
        if let Some(channel) = shared.channel() {
            self.wake_channels.add(channel);
            self.internal_thread.call();
        }
        if self
            .socket(fd)
            .is_some_and(|it| it.core().reason() == Reason::Held)
        {
            opener.want_interfaces();
        }
    }

    fn adopt_listener(
        &self,
        fd: c_int,
        family: Family,
        nonblocking: bool,
        shared: (Shared, u32),
        options: Vec<(c_int, c_int)>,
    ) {
        if !tcp::may_accelerate(self.rules()) {
            return;
        }
        let control = self.control();
        self.forget(fd);
        let Some(socket) = self.add_stream(fd, family, nonblocking) else {
            return;
        };
        socket.mark_inherited();
        for (level, name) in options {
            socket.option_is_set(level, name);
        }
        socket.attachment().inherited = Some(shared);
        drop(control);
        socket.listens(self, fd, tcp::backlog_in_kernel(fd), true);
    }

    fn adopt_datagrams(
        &self,
        fd: c_int,
        family: Family,
        nonblocking: bool,
        shared: (Shared, u32),
        chosen_by_cpu: bool,
    ) {
        self.socket_opened(fd, family, nonblocking);
        let Some(socket) = self.udp(fd) else {
            return;
        };
        socket.mark_inherited();
        let mut attachment = socket.attachment();
        attachment.inherited = Some(shared);
        attachment.chosen_by_cpu = chosen_by_cpu;
        drop(attachment);
        // The kernel's socket has them; each of these makes ours ask for what it holds of its kind.
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
            (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL),
            (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
            (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL),
        ] {
            self.option_was_set(socket, level, name);
        }
    }

    /// In the internal thread: gives sockets back from which others have begun to take something.
    pub(crate) fn share_inherited_sockets(&self) {
        let process = self.process_id.cast_unsigned();
        let mut is_left = false;
        for (_, socket) in self.sockets() {
            let core = socket.core();
            let inherited = core.attachment().inherited;
            let is_shared =
                inherited.is_some_and(|(shared, generation)| !shared.is_taker(generation, process));
            if core.is_or_may_be_offloaded() && is_shared {
                let _control = self.control();
                let detail = "another process takes from it, too";
                hand_over::hand_over(self, socket, Reason::Forked, detail);
                is_left = true;
            }
        }
        if is_left {
            // The opener may have a use for the interface that it has left to this process.
            let _control = self.control();
            self.links.leave_unused();
        }
    }
}
