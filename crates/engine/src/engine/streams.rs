//! TCP sockets of the process, as far as they have to do with all of it.

use std::net::SocketAddr;
use std::time::Duration;

use dev_core::Backend;
use libc::c_int;
use links::reason::Reason;
use sys::{Errno, SegmentError};

use crate::engine::kinds::AnySocket;

use crate::engine::{Engine, TcpSocket};
use crate::sockets::hand_over;
use crate::tcp;

/// How soon timers of connections are looked at again after one has expired: while connections come
/// and go, those who set timers need not call.
const BUSY_INTERVAL: Duration = Duration::from_millis(10);

/// How long the process's end waits for peers that are about to end a handshake.
const RETURNS_PATIENCE_NSEC: u64 = 100_000_000;
const RETURNS_INTERVAL: Duration = Duration::from_millis(1);

/// How often is looked for segments that came to the kernel: what it keeps from a connection is
/// sent again after 200 ms.
const STRAY_INTERVAL: Duration = Duration::from_millis(100);

impl<B: Backend> Engine<B> {
    /// Leaves whatever socket is behind a descriptor to the kernel for good.
    pub fn leave_descriptor_to_kernel(&self, fd: c_int, reason: Reason) {
        if let Some(socket) = self.socket(fd) {
            self.leave_to_kernel(socket, reason);
        }
    }

    /// Accepts a connection that waits. `None`: another thread was faster, or it cannot be had.
    pub fn accept(
        &self,
        listener: &'static TcpSocket<B>,
        flags: c_int,
    ) -> Option<Result<(c_int, SocketAddr), Errno>> {
        let control = self.control();
        let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
        let mut opened = None;
        let accepted = listener.accept(self, flags, |fd| {
            self.forget(fd);
            let socket = self.add_stream(fd, listener.family(), nonblocking);
            opened = socket.map(|socket| (fd, socket));
            socket
        });
        if let Some(Err(Errno(libc::EPERM))) = &accepted {
            drop(control);
            self.rights_went_unseen();
            return None;
        }
        match (&accepted, opened) {
            (None, Some((fd, _))) => {
                self.forget(fd);
                sys::streams::close(fd);
            }
            (Some(Ok(_)), Some((_, socket))) => {
                drop(control);
                // So far it was where the SYN came from. The kernel answers by its routes, and they
                // may change.
                socket.find_way(self);
            }
            _ => {}
        }
        accepted
    }

    /// In the internal thread: timers of connections. Returns when to be called again; `None`: when
    /// the thread is called.
    pub(crate) fn look_after_streams(&'static self) -> Option<Duration> {
        self.tcp.begin_look();
        let mut is_busy = false;
        if self.tcp.has_expired_timer() {
            // Perhaps what a timer waits for has come.
            self.links.drain();
            is_busy = tcp::run_timers(self, self.tcp, |socket| self.give_stream_back(socket));
            self.tcp.open_again(self);
            // Tells devices of what was sent.
            self.links.drain();
        }
        self.tcp.end_look(is_busy.then_some(BUSY_INTERVAL))
    }

    /// By which the kernel tells of the ends of its connections, while there are some that are
    /// exempt from the steering.
    pub(super) fn ends_fd(&self) -> Option<c_int> {
        self.tcp.ends_fd()
    }

    /// In the internal thread: looks after them. Returns when to look again, if the kernel does not
    /// tell before.
    pub(super) fn look_after_exempt(&self, is_lost: bool) -> Option<Duration> {
        self.tcp.look_after_exempt(self, is_lost)
    }

    /// Ends some of the connections that are over and that nobody has. Under the control lock.
    pub(super) fn end_some_streams(&self) {
        tcp::end_some(self.tcp, |socket| self.give_stream_back(socket));
    }

    /// A call on a stream has polled in vain for a moment: ends one of them, unless another thread
    /// has the control lock.
    pub fn use_idle_moment(&self) {
        if let Some(_control) = self.try_control() {
            tcp::end_one(self.tcp, |socket| self.give_stream_back(socket));
        }
    }

    /// Nobody has the object any more.
    pub(super) fn give_stream_back(&self, socket: &TcpSocket<B>) {
        let object = self.orphans().remove(socket);
        if let Some(object) = object {
            self.streams.give(object);
        }
    }

    /// Brings what readers see of connections up to date.
    pub(super) fn refresh_streams(&self) {
        if !self.tcp.has_streams() {
            return;
        }
        for (_, socket) in self.sockets() {
            if let AnySocket::Tcp(socket) = socket {
                socket.refresh_statistics();
            }
        }
    }

    /// ICMP messages about segments, which the kernel has not sent and does not know of.
    pub(super) fn take_segment_errors(&'static self, errors: &[SegmentError]) {
        for error in errors {
            let owner = self.links.owner_of_segments(error.local, error.peer);
            if let Some(AnySocket::Tcp(socket)) = owner {
                socket.take_segment_error(self, error);
            }
        }
    }

    /// The network has changed: connections that had no way to their peers have one now, perhaps.
    pub(crate) fn look_for_ways(&self) {
        if !self.tcp.has_streams() {
            return;
        }
        let orphans: Vec<_> = self.orphans().sockets().collect();
        for socket in self.sockets().map(|(_, socket)| socket).chain(orphans) {
            if let AnySocket::Tcp(socket) = socket {
                socket.find_missing_way(self);
            }
        }
    }

    /// Gives connections to the kernel whose segments come to it: by an interface that is not
    /// theirs, or in fragments. It tells of none. Returns when to look again; `None`: some time.
    pub(super) fn look_for_strays(&self) -> Option<Duration> {
        if !self.tcp.has_streams() {
            return None;
        }
        let interfaces = self.network().interfaces();
        let ways_in = interfaces.iter().filter(|it| it.up && !it.loopback);
        if ways_in.count() < 2 {
            return None;
        }
        for (_, socket) in self.sockets() {
            if let AnySocket::Tcp(socket) = socket
                && socket.has_strayed()
                && socket.can_return(self)
            {
                self.leave_to_kernel(socket, Reason::AnotherWay);
            }
        }
        Some(STRAY_INTERVAL)
    }

    /// Connections on their way into the kernel's queues, whose handshake is not over, get a moment
    /// to end it: the process is about to end, and other processes have their listeners.
    pub(super) fn wait_for_returns(&self) {
        let deadline = sys::now_nsec() + RETURNS_PATIENCE_NSEC;
        loop {
            self.links.drain();
            let control = self.control();
            let orphans: Vec<_> = self.orphans().sockets().collect();
            let mut is_waiting = false;
            for socket in self.sockets().map(|(_, socket)| socket).chain(orphans) {
                if let AnySocket::Tcp(socket) = socket {
                    is_waiting |= !socket.go_on_returning(self);
                }
            }
            drop(control);
            if !is_waiting || sys::now_nsec() >= deadline {
                return;
            }
            std::thread::sleep(RETURNS_INTERVAL);
        }
    }

    /// Leaves every connection to the kernel, because the process ends or becomes another program:
    /// the kernel tells their peers.
    pub(crate) fn leave_streams_to_kernel(&self, reason: Reason) {
        self.leave_streams_to_kernel_about(reason, "");
    }

    /// The same with what the reason is about.
    pub(super) fn leave_streams_to_kernel_about(&self, reason: Reason, detail: &str) {
        if !self.tcp.has_streams() {
            return;
        }
        let _control = self.control();
        for (_, socket) in self.sockets() {
            if let AnySocket::Tcp(socket) = socket
                && socket.is_offloaded()
            {
                hand_over::hand_over(self, socket.into(), reason, detail);
            }
        }
        let orphans: Vec<_> = self.orphans().sockets().collect();
        for orphan in orphans {
            if let AnySocket::Tcp(socket) = orphan {
                socket.hand_over_stream(self);
                socket.drop_flows();
                socket.hand_over_rest(self);
            }
        }
    }
}
