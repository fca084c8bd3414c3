//! The way from the kernel: a connection that the kernel has made, as its interface was not there,
//! goes on here when it is.
//!
//! It comes in a call of the program's, while nothing is on its way and nothing waits to be read:
//! so the kernel's queues are empty, and all that the peer knows of the connection is a few
//! numbers. Until the last step all of it can be taken back.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use links::family::canonical;
use links::interface::Interface;
use links::reason::Reason;

use ::tcp::{Connection, Ecn, RepairTimestamps, SeqNumber, Snapshot, State, WindowScales};
use dev_core::{Flow, Protocol};
use libc::c_int;
use sys::streams;
use sys::{KernelConnection, Progress};

use crate::sockets::host::Host;
use crate::sockets::payload::Received;
use crate::tcp::clock::now;
use crate::tcp::connect::begin::{UNKNOWN_OPTION, local_end};
use crate::tcp::egress::{Egress, Headers, path_to};
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::moving::Moving;
use crate::tcp::stream::{Outcome, Stream};
use crate::tcp::to_kernel::hand_over;

/// What became of an attempt.
enum Taken {
    Here,
    /// Something was on its way.
    NotYet,
    /// It stays the kernel's, for this reason.
    Never(Reason, &'static str),
}

/// A connection that is to come.
struct Coming {
    fd: c_int,
    flow: Flow,
    local: SocketAddr,
    peer: SocketAddr,
    /// The interface that the socket is bound to, or 0.
    device: u32,
    options: tcp::Options,
    headers: Headers,
}

impl<S: TcpStack> TcpSocket<S> {
    /// Whether the connection is the kernel's until an interface is there.
    #[inline]
    pub(super) fn waits_as_stream(&self) -> bool {
        self.waiting.is_waiting() && self.is_held()
    }

    /// `connect(2)` is the kernel's, as its interface is not there: for a while only. `false`: it
    /// cannot be otherwise later. No lock may be held.
    pub(super) fn begin_waiting(&'static self, host: &Host<S>, fd: c_int, reason: Reason) -> bool {
        let Some(options) = self.options_before_connection() else {
            return false;
        };
        let _control = host.control();
        let is_new = host.is_behind(fd, self) && self.reason() == Reason::NotBound;
        if !is_new || !self.set_reason_about(reason, None, "") {
            return false;
        }
        self.waiting.begin(options);
        host.count_reason(reason);
        let text = format!("connects in the kernel: {}", reason.text());
        log::debug!("fd {fd}: {text}");
        host.socket_event(reason, fd, &text);
        self.interfaces_changed();
        true
    }

    /// Takes the connection from the kernel if that can be now. Returns whether it is here. No lock
    /// may be held.
    #[cold]
    pub(super) fn take_from_kernel(&'static self, host: &Host<S>) -> bool {
        if !self.waiting.begin_look() {
            return false;
        }
        let fd = self.fd();
        match sys::progress(fd) {
            Progress::IsQuiet => {}
            Progress::Begins | Progress::IsBusy => {
                self.waiting.look_again();
                return false;
            }
            Progress::Ends => return false,
        }
        let Ok(Some(peer)) = sys::peer_address(fd) else {
            return false;
        };
        let (peer, device) = (canonical(peer), self.device());
        let interface = match self.interface_to(host, peer, device) {
            Ok(interface) => interface,
            Err(refusal) if refusal.reason.passes() => return false,
            Err(refusal) => {
                self.left_to_kernel(host, peer, &refusal);
                return false;
            }
        };
        let control = host.control();
        if !host.is_behind(fd, self) || !self.waits_as_stream() {
            return self.is_stream();
        }
        let taken = self.begin_here(host, (fd, peer, device), interface);
        drop(control);
        match taken {
            Taken::Here => {
                self.find_way(host);
                true
            }
            Taken::NotYet => {
                self.waiting.look_again();
                false
            }
            Taken::Never(reason, detail) => {
                host.leave_to_kernel_about(self.into(), reason, detail);
                false
            }
        }
    }

    /// Under the control lock.
    fn begin_here(
        &'static self,
        host: &Host<S>,
        (fd, peer, device): (c_int, SocketAddr, u32),
        interface: &'static Interface<S>,
    ) -> Taken {
        let coming = match self.coming(host, fd, peer, device) {
            Ok(coming) => coming,
            Err(taken) => return taken,
        };
        if !self.claim() {
            return Taken::Never(Reason::Forked, "");
        }
        *self.role.lock() = Role::Moving(Box::new(Moving {
            local: coming.local,
            peer,
            listener: None,
            segments: Vec::new(),
        }));
        if interface.attach(&coming.flow, self.into()).is_err() {
            return self.stays(host, &coming, Taken::Never(Reason::SteeringFailed, ""));
        }
        self.attachment().flows.push((interface, coming.flow));
        match self.numbers(&coming) {
            Ok(numbers) => self.go_on(host, coming, numbers, interface),
            Err(taken) => self.stays(host, &coming, taken),
        }
    }

    /// What there is to know of it before anything is changed.
    fn coming(
        &self,
        host: &Host<S>,
        fd: c_int,
        peer: SocketAddr,
        device: u32,
    ) -> Result<Coming, Taken> {
        let since = |(options, _)| self.options_since(options);
        let Some((options, headers)) = self.waiting.began_with().and_then(since) else {
            return Err(Taken::Never(Reason::Option, UNKNOWN_OPTION));
        };
        if let Some((reason, detail)) = self.hindrance(fd) {
            return Err(Taken::Never(reason, detail));
        }
        let local = local_end(host, fd, peer, device).map_err(|why| Taken::Never(why, ""))?;
        let protocol = Protocol::Tcp;
        Ok(Coming {
            fd,
            flow: Flow {
                protocol,
                local,
                peer: Some(peer),
            },
            local,
            peer,
            device,
            options,
            headers,
        })
    }

    /// The connection's numbers, when nothing of it comes to the kernel any more. Then the kernel's
    /// socket is under repair.
    ///
    /// What another CPU is just about to give it is dropped, and comes again. Only that which has
    /// passed the filter before and is not yet in the socket some ten system calls later would be
    /// lost: that CPU would have to stand still between two instructions, with interrupts off.
    fn numbers(&self, coming: &Coming) -> Result<KernelConnection, Taken> {
        let fd = coming.fd;
        if sys::lose_all(fd, true).is_err() {
            return Err(Taken::Never(Reason::SteeringFailed, ""));
        }
        if sys::progress(fd) != Progress::IsQuiet {
            return Err(Taken::NotYet);
        }
        // By itself it would send probes.
        if coming.options.keep_alive() {
            let _ = streams::set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &0);
        }
        if streams::repair_begins(fd).is_err() {
            return Err(Taken::Never(Reason::Repair, ""));
        }
        sys::kernel_connection(fd).map_err(|_| Taken::Never(Reason::Repair, ""))
    }

    /// The kernel's socket goes on after all. What has come here meanwhile follows.
    fn stays(&'static self, host: &Host<S>, coming: &Coming, taken: Taken) -> Taken {
        let fd = coming.fd;
        let _ = streams::repair_ends(fd, false);
        if coming.options.keep_alive() {
            let _ = streams::set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1);
        }
        streams::share_port(fd, self.attachment().reuses_address());
        let _ = sys::lose_all(fd, false);
        self.drop_flows();
        self.hand_over_rest(host);
        self.release();
        taken
    }

    /// From here on the connection is here.
    fn go_on(
        &'static self,
        host: &Host<S>,
        coming: Coming,
        numbers: KernelConnection,
        interface: &'static Interface<S>,
    ) -> Taken {
        let (now, ends) = (now(), (coming.local, coming.peer));
        let path = path_to(ends.1.ip(), interface.stream_mtu(interface.spec().mtu));
        let snapshot = snapshot_of(&numbers, &coming.options);
        let Ok(connection) = Connection::import(now, self.globals.config(), path, snapshot) else {
            return self.stays(host, &coming, Taken::Never(Reason::Repair, "its numbers"));
        };
        // What the kernel's socket says of its state is not true from here on.
        self.silence(true);
        self.connect_anew(&coming);
        let no_egress: Option<Egress<S>> = None;
        let user = self.present_sender(host.settings());
        let counted = self.globals.counted();
        let headers = coming.headers;
        let stream = Stream::new(
            connection, ends, interface, no_egress, headers, user, counted,
        );
        let mut stream = Box::new(stream.bound_to(coming.device));
        let inode = self.kernel_socket.inode.load(Ordering::Relaxed);
        stream.show(
            self.globals.segment.claim_tcp_connection(),
            coming.fd,
            inode,
        );
        self.waiting.end();
        let mut role = self.role.lock();
        if let Role::Moving(moving) = &mut *role {
            for (header, data) in moving.take_segments() {
                let data = (!data.is_empty()).then_some(Received::Copy {
                    bytes: data,
                    start: 0,
                });
                stream
                    .connection
                    .on_segment(now, &header, Ecn::NotEct, data);
            }
        }
        let outcome = stream.settle(&self.core, now);
        *role = Role::Stream(stream);
        drop(role);
        self.show_begun(host, interface, coming.fd, ends);
        self.after(
            host,
            &Outcome {
                needs_egress: false,
                ..outcome
            },
            None,
        );
        Taken::Here
    }

    /// The kernel's socket as one of a connection that has begun here: connected, without numbers.
    fn connect_anew(&self, coming: &Coming) {
        let (fd, family) = (coming.fd, self.family());
        let connected = streams::disconnect(fd)
            .and_then(|()| hand_over::bind(fd, family.form(coming.local)))
            .and_then(|()| streams::connect(fd, family.form(coming.peer)));
        if let Err(errno) = connected {
            // The connection lives without: its addresses may be given to others.
            log::warn!(
                "fd {fd}: the kernel's socket of {} to {} is not connected any more (errno {})",
                coming.local,
                coming.peer,
                errno.0
            );
        }
        streams::share_port(fd, self.attachment().reuses_address());
        let _ = sys::lose_all(fd, false);
    }
}

/// A quiet connection of the kernel's.
fn snapshot_of(numbers: &KernelConnection, options: &tcp::Options) -> Snapshot<Received> {
    let snd_nxt = SeqNumber(numbers.snd_nxt);
    Snapshot {
        state: State::Established,
        options: options.clone(),
        snd_una: snd_nxt,
        snd_nxt,
        unacknowledged: Vec::new(),
        rcv_nxt: SeqNumber(numbers.rcv_nxt),
        unread: Vec::new(),
        urgent: None,
        window: numbers.window.into(),
        peer_mss: numbers.peer_mss,
        window_scales: numbers
            .window_scales
            .map(|(snd, rcv)| WindowScales { snd, rcv }),
        has_sack: numbers.has_sack,
        has_ecn: numbers.has_ecn,
        timestamps: numbers
            .timestamp
            .map(|value| RepairTimestamps { value, recent: 0 }),
    }
}
