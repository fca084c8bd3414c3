//! Descriptors that are made, copied, passed on and closed.

use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use dev_core::Backend;

use libc::c_int;
use links::family::Family;
use links::reason::Reason;

use crate::engine::{Engine, TcpSocket, UdpSocket};

use crate::engine::kinds::Object;
use crate::mux::{epoll_copied, epoll_passed};
use crate::sockets::stack::{Described, Stack};
use crate::sockets::{hand_over, offload};
use crate::tcp;
use crate::udp::follow_port;

/// Descriptors that are looked at in one go for whether they are still what they were: a third of a
/// millisecond.
const LOOKED_AT_ONCE: usize = 1024;

/// What the kernel takes as `TCP_MAXSEG` (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
const MSS: RangeInclusive<u32> = 88..=32767;

impl<B: Backend> Engine<B> {
    /// Takes note of a new UDP socket of the kernel's.
    pub fn socket_opened(&self, fd: c_int, family: Family, nonblocking: bool) {
        if self.is_other_process() {
            // The number is one of a child of `vfork(2)`.
            return;
        }
        let _control = self.control();
        self.forget(fd);
        let object = self.sockets.take(|| {
            Object::Udp(UdpSocket::new(
                self.pool,
                self.settings(),
                self.overflow,
                self.sharing.place(),
                self.unseen,
            ))
        });
        let Object::Udp(socket) = object else {
            unreachable!("the slab holds sockets only")
        };
        socket.open(
            fd,
            family,
            nonblocking,
            self.segment.claim_socket(),
            self.sharing.forks(),
        );
        if let Some(rule) = offload::program_rule(self.rules()) {
            hand_over::hand_over_by_rule(self, socket.into(), rule);
        } else if !self.settings().tx_mc_loopback {
            let (level, name) = match family {
                Family::Inet => (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP),
                Family::Inet6 => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP),
            };
            if sys::streams::set_option(fd, level, name, &0).is_ok() {
                socket.counters().mc_loop_off.set(true);
            }
        }
        if self.table.insert(fd, object).is_err() {
            // A descriptor beyond the table is the kernel's alone.
            socket.close();
            self.sockets.give(object);
        }
    }

    /// Takes note of a new TCP socket of the kernel's, unless rules leave all of them to it
    /// (`false`).
    pub fn stream_opened(&self, fd: c_int, family: Family, nonblocking: bool) -> bool {
        if self.is_other_process() || !tcp::may_accelerate(self.rules()) {
            return false;
        }
        let _control = self.control();
        self.forget(fd);
        self.add_stream(fd, family, nonblocking).is_some()
    }

    /// Under the control lock.
    pub(super) fn add_stream(
        &self,
        fd: c_int,
        family: Family,
        nonblocking: bool,
    ) -> Option<&'static TcpSocket<B>> {
        self.end_some_streams();
        let object = self.streams.take(|| {
            Object::Tcp(TcpSocket::new(
                self.tcp,
                self.settings().thread_mode,
                self.overflow,
                self.sharing.place(),
                self.unseen,
            ))
        });
        let Object::Tcp(socket) = object else {
            unreachable!("the slab holds streams only")
        };
        socket.open(
            fd,
            family,
            nonblocking,
            self.segment.claim_socket(),
            self.sharing.forks(),
        );
        self.set_options_of_user(socket, fd);
        if self.table.insert(fd, object).is_err() {
            // A descriptor beyond the table is the kernel's alone.
            socket.close();
            self.streams.give(object);
            return None;
        }
        // It may have been made just before the engine.
        if self.is_listed(fd) {
            self.listed_closes(fd);
        }
        Some(socket)
    }

    /// Options that a stream begins with because the user wants it; the program may set others.
    fn set_options_of_user(&self, socket: &TcpSocket<B>, fd: c_int) {
        let settings = self.settings();
        let nodelay = settings.tcp_nodelay.then_some((libc::TCP_NODELAY, 1));
        let mss = settings.tcp_mss.clamp(*MSS.start(), *MSS.end());
        let mss = (settings.tcp_mss != 0).then_some((libc::TCP_MAXSEG, mss.cast_signed()));
        for (name, value) in nodelay.into_iter().chain(mss) {
            let _ = sys::streams::set_tcp_option(fd, name, &value);
            socket.option_is_set(libc::IPPROTO_TCP, name);
        }
    }

    /// Forgets a descriptor that is about to be closed or replaced. A child of `vfork(2)` shares
    /// our memory but not our descriptors: what it closes stays open here.
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

    /// Forgets descriptors that were closed past every hook, by a system call of the program's own:
    /// their flows would keep packets from whoever has the port next, and their numbers may be
    /// those of other files. Looks at some of them, and at the next ones when called again.
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
            Some(Object::Epoll(set)) => set.inode(),
            Some(Object::Udp(_) | Object::Tcp(_)) => {
                let socket = self.socket(fd);
                socket.map_or(0, |it| {
                    it.core().kernel_socket.inode.load(Ordering::Relaxed)
                })
            }
            None => return false,
        };
        sys::inode(fd) != known
    }

    /// `new` stands for the same as `old` from here on. A child of `vfork(2)` copies a descriptor
    /// because the program that it is about to execute shall use it.
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
            Object::Tcp(socket) => {
                socket.attachment().descriptors += 1;
                socket.leave_sets();
            }
            Object::Epoll(set) => set.descriptor_added(),
        }
        if self.table.insert(new, object).is_err() {
            // Reads on a descriptor that we cannot know would miss what comes past the kernel.
            match object {
                Object::Udp(_) | Object::Tcp(_) => {
                    if let Some(socket) = object.socket() {
                        socket.core().attachment().descriptors -= 1;
                        let detail = format!("descriptor {new} is beyond the library's table");
                        hand_over::hand_over(self, socket, Reason::Option, &detail);
                    }
                }
                Object::Epoll(set) => {
                    drop(control);
                    set.leave_sockets_to_kernel(self, Reason::Option);
                }
            }
            return;
        }
        drop(control);
        // The C library's standard streams read and write past the hooks. What a datagram socket
        // sends may go so.
        match (object, new) {
            (Object::Udp(socket), libc::STDIN_FILENO) => {
                self.leave_to_kernel(socket, Reason::InLibc);
            }
            (Object::Tcp(socket), libc::STDIN_FILENO..=libc::STDERR_FILENO) => {
                self.leave_to_kernel(socket, Reason::InLibc);
            }
            _ => {}
        }
    }

    /// The same of one that stands for nothing of ours: it may be an epoll set.
    pub fn other_duplicated(&self, old: c_int, new: c_int) {
        epoll_copied(old, new);
    }

    /// A program that a child executes is to have the descriptor. Only a child of `vfork(2)` says
    /// so for itself alone.
    pub fn descriptor_handed_down(&self, fd: c_int) {
        if self.is_other_process() {
            self.descriptor_passed(fd);
        }
    }

    /// A descriptor goes to another process, which knows the kernel's socket only.
    pub fn descriptor_passed(&self, fd: c_int) {
        epoll_passed(fd);
        match self.look_up(fd) {
            Some(Object::Udp(socket)) => self.leave_to_kernel(socket, Reason::Passed),
            Some(Object::Tcp(socket)) => self.leave_to_kernel(socket, Reason::Passed),
            Some(Object::Epoll(set)) => set.leave_sockets_to_kernel(self, Reason::Passed),
            None => {}
        }
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
                    self.links.start_waiting();
                    let (local, interest) = socket.interest();
                    let inode = socket.kernel_socket.inode.load(Ordering::Relaxed);
                    let is_shared = self.may_be_shared(socket);
                    let lives_on = is_shared || socket.is_committed();
                    // Nobody would miss a datagram to a group that others go on receiving.
                    socket.leave_any(is_shared);
                    socket.drop_flows();
                    if is_shared {
                        socket.hand_over_queue(self);
                    }
                    socket.release();
                    if let Some(counters) = socket.counters_worth_keeping() {
                        self.segment.remember_closed(counters);
                    }
                    let groups = std::mem::take(&mut socket.attachment().groups);
                    self.ports.remove(socket.into(), &groups, local);
                    socket.close();
                    self.sockets.give(object);
                    self.without((local.port(), inode), lives_on, || {
                        follow_port(self, local, interest, None);
                    });
                } else {
                    if let Some(other) =
                        self.adopt_other_descriptor(&socket.kernel_socket.fd, object, fd)
                    {
                        socket.counters().fd.set(other);
                    }
                }
            }
            Object::Tcp(socket) => {
                let mut attachment = socket.attachment();
                attachment.descriptors = attachment.descriptors.saturating_sub(1);
                let is_last = attachment.descriptors == 0;
                drop(attachment);
                if is_last {
                    self.end_stream(socket, object);
                } else if let Some(other) =
                    self.adopt_other_descriptor(&socket.kernel_socket.fd, object, fd)
                {
                    socket.counters().fd.set(other);
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

    /// The last descriptor of a stream is about to be closed. Under the control lock.
    fn end_stream(&self, socket: &'static TcpSocket<B>, object: &'static Object<B>) {
        if socket.is_offloaded() && self.may_be_shared(socket) && socket.has_own_number() {
            // It is not closed as long as a descendant has it.
            hand_over::hand_over(self, socket.into(), Reason::Forked, "");
        }
        let goes_on = socket.let_go(self);
        if let Some(counters) = socket.counters_worth_keeping() {
            self.segment.remember_closed(counters);
        }
        if goes_on {
            self.keep_orphan(socket, object);
            socket.become_orphan();
            self.bound_orphans();
        } else {
            socket.drop_flows();
            socket.release();
            socket.close();
            self.streams.give(object);
        }
    }

    /// The kernel's object is reached through the descriptor in `known`; one of several was closed.
    /// Returns the new one if it was that.
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
}
