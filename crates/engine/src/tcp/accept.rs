//! `accept(2)`: a connection gets a descriptor, and the kernel's socket behind it its addresses.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use dev_core::{Flow, Protocol};
use libc::c_int;
use links::interface::Interface;
use links::reason::Reason;
use sys::{Errno, streams};

use crate::sockets::events;
use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::options::SO_BINDTOIFINDEX;
use crate::sockets::program_threads;
use crate::sockets::unseen::Gate;
use crate::tcp::call::{StreamCall, StreamOutcome};
use crate::tcp::clock::now;
use crate::tcp::globals::can_repair;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

/// What came of an attempt at an `accept(2)`.
#[derive(Debug)]
pub enum Accepting {
    /// A connection waits: `TcpSocket::accept` takes it.
    Ready,
    /// As for other calls. [`StreamOutcome::Kernel`]: the kernel's socket has a connection, or has
    /// the listener.
    Other(StreamOutcome),
}

/// How often the kernel's socket is asked while the call polls.
const POLLS_PER_KERNEL: u32 = 10;

impl<S: TcpStack> TcpSocket<S> {
    /// Whether the socket listens here.
    pub fn is_listener(&self) -> bool {
        matches!(&*self.role.lock(), Role::Listener(_))
    }

    /// Waits for a connection.
    pub fn wait_for_connection(&'static self, call: &mut StreamCall) -> Accepting {
        if !self.is_listener() && !self.waits_to_listen() {
            return Accepting::Other(StreamOutcome::Kernel);
        }
        let mut polls = 0;
        loop {
            if self.generation() != call.generation {
                return Accepting::Other(StreamOutcome::Fail(Errno(libc::EBADF)));
            }
            if polls == 0 {
                self.interfaces.poll_all_rings();
            } else {
                self.interfaces.poll();
            }
            if self.readiness.now() & events::IN != 0 {
                return Accepting::Ready;
            }
            let hint = self
                .kernel_socket
                .readable_hint
                .swap(false, Ordering::Relaxed);
            if (hint || polls % POLLS_PER_KERNEL == 0) && self.kernel_has_answer() {
                return Accepting::Other(StreamOutcome::Kernel);
            }
            if self.is_committed() {
                return Accepting::Other(StreamOutcome::Kernel);
            }
            polls += 1;
            if let Some(outcome) = self.wait_once(call, events::IN) {
                return Accepting::Other(outcome);
            }
        }
    }

    /// Whether the kernel has an answer: a connection, or that its socket has just ceased to
    /// listen.
    fn kernel_has_answer(&self) -> bool {
        let answers = libc::POLLIN | libc::POLLHUP;
        sys::poll_one(self.fd(), libc::POLLIN).is_ok_and(|ready| ready & answers != 0)
    }

    /// Takes the connection that has waited longest. `open` makes an object for its descriptor.
    /// `None`: there is none after all; a descriptor that was opened is the caller's to close.
    /// `EPERM`: the process has lost the right. Under the control lock; the caller then [finds its
    /// way](Self::find_way).
    pub(crate) fn accept(
        &'static self,
        host: &Host<S>,
        flags: c_int,
        open: impl FnOnce(c_int) -> Option<&'static Self>,
    ) -> Option<Result<(c_int, SocketAddr), Errno>> {
        if self.is_left_for_threads(host) {
            return None;
        }
        let (key, interface, device) = {
            let role = self.role.lock();
            let Role::Listener(listening) = &*role else {
                return None;
            };
            let key = listening.next()?;
            (key, listening.interface_of(key)?, listening.device)
        };
        let (local, peer) = key;
        let fd = match self.new_kernel_socket(host, flags, key, interface, device)? {
            Ok(fd) => fd,
            Err(errno) => return Some(Err(errno)),
        };
        let Some(socket) = open(fd) else {
            streams::close(fd);
            return Some(Err(Errno(libc::EMFILE)));
        };
        let flow = Flow {
            protocol: Protocol::Tcp,
            local,
            peer: Some(peer),
        };
        let mut is_here = socket.claim();
        let took = is_here
            && interface.take_over(&flow, socket.into(), || {
                let Some(mut stream) = self.take_accepted(key, socket) else {
                    is_here = false;
                    return;
                };
                stream.listener = Some((self.into(), self.generation()));
                stream.gate = Gate::Open;
                *socket.role.lock() = Role::Stream(stream);
            });
        if !took || !is_here {
            if took {
                interface.detach(&flow);
            } else {
                log::warn!("{local}: the connection of {peer} is reset: it gets no flow");
                self.refuse(key);
            }
            socket.release();
            return None;
        }
        socket.attachment().flows.push((interface, flow));
        socket.attachment().reuses_address = self.attachment().reuses_address();
        socket.begin_receiving(interface, local.ip());
        socket.bring_flows();
        let counters = socket.counters();
        counters.local.set(local);
        counters.peer.set(peer);
        socket.set_reason(Reason::Offloaded);
        host.count_reason(Reason::Offloaded);
        socket.inherits(self);
        if socket.wishes.stamps().any() {
            socket.follow_wish_for_stamps();
        }
        socket.silence(true);
        socket.begin_accepted(host);
        Some(Ok((fd, peer)))
    }

    /// A worker has begun threads since it took part in a listener: that is the kernel's, see
    /// docs/broker.md. Under the control lock.
    fn is_left_for_threads(&'static self, host: &Host<S>) -> bool {
        if !self.is_taken_together() || self.has_accepted.swap(true, Ordering::Relaxed) {
            return false;
        }
        let are_several = program_threads::are_several();
        if are_several {
            self.stops_taking_together();
            hand_over::hand_over(host, self.into(), Reason::Forked, "to workers with threads");
        }
        are_several
    }

    /// Takes a connection out of the listener's, for a socket, which gets the headers of its SYN if
    /// they are kept.
    fn take_accepted(
        &self,
        key: (SocketAddr, SocketAddr),
        socket: &Self,
    ) -> Option<Box<Stream<S>>> {
        let mut role = self.role.lock();
        let Role::Listener(listening) = &mut *role else {
            return None;
        };
        let syn = listening.take_syn(key);
        let stream = listening.accepted(key, &self.core)?;
        listening.habit.accepts();
        *socket.wishes.syn() = syn;
        Some(stream)
    }

    /// The kernel's socket has accepted a connection, at `fd`. It may have come from the listener
    /// before at this address (`listen/returning.rs`), and then refuses what comes past the kernel,
    /// as this one does. That reaches it by another way, but only until the interface is left.
    pub fn kernel_has_accepted(&self, fd: c_int) {
        self.binds_accepted(fd);
        if self.has_refused.load(Ordering::Relaxed) {
            let _ = sys::set_listener_filter(fd, &[]);
        }
    }

    /// A new kernel socket for a connection. `None`: the kernel does not take it, and it is reset.
    fn new_kernel_socket(
        &'static self,
        host: &Host<S>,
        flags: c_int,
        key: (SocketAddr, SocketAddr),
        interface: &'static Interface<S>,
        device: u32,
    ) -> Option<Result<c_int, Errno>> {
        let fd = match streams::new_socket(self.family().domain(), flags) {
            Ok(fd) => fd,
            // The connection waits on, as on the kernel.
            Err(errno) => return Some(Err(errno)),
        };
        let Err(errno) = self.connect_kernel_socket(host, fd, key, interface, device) else {
            return Some(Ok(fd));
        };
        streams::close(fd);
        if errno == Errno(libc::EPERM) && !can_repair() {
            // The connection waits on: what becomes of it is the caller's to decide.
            return Some(Err(errno));
        }
        let ((local, peer), errno) = (key, errno.0);
        log::warn!(
            "{local}: the connection of {peer} is reset: the kernel does not take it (errno {errno})"
        );
        self.refuse(key);
        None
    }

    /// Makes a socket the kernel socket of an accepted connection: connected without a packet, with
    /// the options that it has of its listener.
    fn connect_kernel_socket(
        &self,
        host: &Host<S>,
        fd: c_int,
        (local, peer): (SocketAddr, SocketAddr),
        interface: &'static Interface<S>,
        device: u32,
    ) -> Result<(), Errno> {
        let family = self.family();
        if device != 0 {
            streams::bind_to_device(fd, device);
        }
        match streams::connect_silently(fd, family.form(local), family.form(peer)) {
            // An earlier connection of these addresses is in the kernel still. The peer, which has
            // just ended a handshake, does not know it any more.
            Err(Errno(libc::EADDRNOTAVAIL)) => {
                if let Err(error) =
                    host.network()
                        .end_connection(local, peer, interface.spec().index)
                {
                    log::warn!("{local}: an earlier connection of {peer} cannot be ended: {error}");
                }
                streams::connect(fd, family.form(peer))?;
            }
            connected => connected?,
        }
        streams::share_port(fd, self.attachment().reuses_address());
        self.give_options(fd);
        Ok(())
    }

    /// Gives a new socket the options that the program has set on this one, as connections have
    /// them of their listener.
    pub(super) fn give_options(&self, to: c_int) {
        let from = self.fd();
        let mut has_priority = false;
        for (level, name) in &*self.options_set() {
            match (*level, *name) {
                // Those of the connection, and of the attachment.
                (libc::SOL_SOCKET, libc::SO_KEEPALIVE | libc::SO_REUSEADDR) => {}
                // The kernel begins anew with that.
                (libc::SOL_SOCKET, libc::SO_PRIORITY) => {}
                // An accepted one has it already.
                (libc::SOL_SOCKET, libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX)
                    if sys::bound_device(to) != 0 => {}
                (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
                    streams::copy_buffer(from, to, libc::SO_RCVBUF);
                }
                (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
                    streams::copy_buffer(from, to, libc::SO_SNDBUF);
                }
                (level, name) => {
                    has_priority |= (level, name) == (libc::IPPROTO_IP, libc::IP_TOS);
                    streams::copy_option(from, to, level, name);
                }
            }
        }
        if has_priority {
            // It goes along with the type of service when that is set.
            let _ = streams::set_option(to, libc::SOL_SOCKET, libc::SO_PRIORITY, &0);
        }
    }

    /// Resets a connection that cannot be accepted.
    fn refuse(&self, key: (SocketAddr, SocketAddr)) {
        let interface = match &mut *self.role.lock() {
            Role::Listener(listening) => listening.refuse(key, &self.core, now()),
            _ => None,
        };
        if let Some(interface) = interface {
            interface.start_segments();
        }
    }

    /// What the program has set on the listener.
    pub(crate) fn inherits(&self, listener: &Self) {
        self.options_set().clone_from(&listener.options_set());
        self.wishes.inherit(&listener.wishes);
        self.inherit_ring_choice(listener);
        let (here, there) = (&self.kernel_socket, &listener.kernel_socket);
        for (timeout, inherited) in [
            (&here.receive_timeout_nsec, &there.receive_timeout_nsec),
            (&here.send_timeout_nsec, &there.send_timeout_nsec),
        ] {
            timeout.store(inherited.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// A connection has just been accepted: what came before is told of.
    fn begin_accepted(&'static self, host: &Host<S>) {
        let fd = self.fd();
        let kernel_socket = &self.kernel_socket;
        let inode = kernel_socket.inode.load(Ordering::Relaxed);
        let now = now();
        let user = self.present_sender(host.settings());
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return;
        };
        stream.belongs_to(user);
        stream.show_accepted(fd, inode);
        // So far its timer was the listener's: it tells anew what it needs.
        stream.connection.on_timeout(now);
        let mut outcome = stream.settle(&self.core, now);
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        // The caller looks for it.
        outcome.needs_egress = false;
        self.after(host, &outcome, sender);
    }
}
