//! `connect(2)`: the kernel's socket is connected without a packet, so that the kernel chooses
//! source address and port and keeps them; the connection is made here.

pub(super) mod begin;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use links::family::{canonical, link_of, local_address, scope_of};
use links::interface::Interface;
use links::network::{FlowPorts, NextHop, NextHopKey, RouteMetrics};
use links::reason::Reason;

use ::tcp::State;
use dev_core::Protocol;
use libc::c_int;
use sys::{Errno, streams};

use crate::sockets::host::Host;
use crate::sockets::offload::NotOffloaded;
use crate::sockets::{events, hand_over};
use crate::tcp::application::errno_of;
use crate::tcp::call::{StreamCall, StreamOutcome};
use crate::tcp::offload::client_rule;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

use begin::Begun;

/// What becomes of a `connect(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectOutcome {
    /// The call is for the kernel's socket.
    Kernel,
    /// It has succeeded.
    Done,
    /// It has failed.
    Fail(Errno),
    /// The handshake is under way: the call waits, with [`TcpSocket::finish_connect`].
    Wait,
}

impl<S: TcpStack> TcpSocket<S> {
    /// Begins a `connect(2)`. `fd` is the descriptor that the socket was found behind, `address`
    /// the peer, or `None` for `AF_UNSPEC`. No lock may be held.
    pub fn connect(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        address: Option<SocketAddr>,
    ) -> ConnectOutcome {
        if let Some(outcome) = self.connect_again(host) {
            return match address {
                Some(_) => outcome,
                // `AF_UNSPEC` dissolves a connection.
                None => self.disconnect(host),
            };
        }
        let Some(peer) = address else {
            if self.is_local() {
                host.leave_to_kernel(self, Reason::ShutDown);
            }
            return ConnectOutcome::Kernel;
        };
        if self.is_committed() || self.reason() != Reason::NotBound {
            return ConnectOutcome::Kernel;
        }
        let peer = canonical(peer);
        let device = self.device();
        if device == 0 && has_no_link(peer) {
            // An error, after which the socket may be connected.
            return ConnectOutcome::Kernel;
        }
        let interface = match self.interface_to(host, peer, device) {
            Ok(interface) => interface,
            Err(refusal) if refusal.reason.passes() => {
                if !self.begin_waiting(host, fd, refusal.reason) {
                    self.left_to_kernel(host, peer, &refusal);
                }
                return ConnectOutcome::Kernel;
            }
            Err(_) if self.begin_local(host, fd, peer, device) => return ConnectOutcome::Kernel,
            Err(refusal) => return self.left_to_kernel(host, peer, &refusal),
        };
        let control = host.control();
        if !host.is_behind(fd, self) || self.reason() != Reason::NotBound {
            return ConnectOutcome::Kernel;
        }
        let begun = self.begin_connection(host, fd, peer, interface, device);
        drop(control);
        match begun {
            Begun::Here => {
                self.find_way(host);
                if self.kernel_socket.nonblocking.load(Ordering::Relaxed)
                    || self.learns_nonblocking()
                {
                    // What is near has answered already, perhaps: the kernel, too, says so only
                    // later.
                    ConnectOutcome::Fail(Errno(libc::EINPROGRESS))
                } else {
                    ConnectOutcome::Wait
                }
            }
            Begun::Refused(errno) => ConnectOutcome::Fail(errno),
            Begun::Not(reason, detail) => {
                host.leave_to_kernel_about(self.into(), reason, detail);
                ConnectOutcome::Kernel
            }
        }
    }

    /// A `connect(2)` on a socket that has a connection. `None`: it has none.
    fn connect_again(&'static self, host: &Host<S>) -> Option<ConnectOutcome> {
        self.interfaces.poll_all_rings();
        let mut role = self.role.lock();
        let Role::Stream(stream) = &mut *role else {
            return None;
        };
        if !stream.is_connecting {
            return Some(ConnectOutcome::Fail(Errno(libc::EISCONN)));
        }
        Some(match stream.connection.state() {
            State::SynSent | State::SynReceived => {
                if self.kernel_socket.nonblocking.load(Ordering::Relaxed) {
                    ConnectOutcome::Fail(Errno(libc::EALREADY))
                } else {
                    stream.is_asked_again = true;
                    ConnectOutcome::Wait
                }
            }
            State::Closed => {
                drop(role);
                ConnectOutcome::Fail(self.connection_failed(host))
            }
            _ => {
                stream.is_connecting = false;
                ConnectOutcome::Done
            }
        })
    }

    /// One attempt at the rest of a blocking `connect(2)`.
    pub fn finish_connect(&'static self, host: &Host<S>, call: &mut StreamCall) -> StreamOutcome {
        loop {
            let mut role = self.role.lock();
            if self.generation() != call.generation {
                return StreamOutcome::Fail(Errno(libc::EBADF));
            }
            let Role::Stream(stream) = &mut *role else {
                // It went back to the kernel, whose socket goes on with the handshake.
                return StreamOutcome::Kernel;
            };
            match stream.connection.state() {
                State::SynSent | State::SynReceived => {}
                State::Closed => {
                    drop(role);
                    return StreamOutcome::Fail(self.connection_failed(host));
                }
                _ => {
                    stream.is_connecting = false;
                    return StreamOutcome::Done(0);
                }
            }
            // The handshake goes on (`inet_stream_connect`).
            let goes_on = match stream.is_asked_again {
                true => libc::EALREADY,
                false => libc::EINPROGRESS,
            };
            drop(role);
            if let Some(outcome) = self.wait(call, events::OUT | events::ALWAYS) {
                return match outcome {
                    StreamOutcome::Fail(Errno(libc::EAGAIN)) => StreamOutcome::Fail(Errno(goes_on)),
                    outcome => outcome,
                };
            }
        }
    }

    /// The handshake has failed: the socket is as if it had never been connected. Returns why.
    fn connection_failed(&'static self, host: &Host<S>) -> Errno {
        let _control = host.control();
        let error = {
            let mut role = self.role.lock();
            let Role::Stream(stream) = &mut *role else {
                return Errno(libc::ECONNABORTED);
            };
            stream.connection.take_error().map(errno_of)
        };
        self.forget_connection();
        error.unwrap_or(Errno(libc::ECONNABORTED))
    }

    /// The socket is not connected any more, and may be again. The kernel's socket follows. Under
    /// the control lock.
    pub(super) fn forget_connection(&'static self) {
        let was = std::mem::replace(&mut *self.role.lock(), Role::None);
        if !matches!(was, Role::Stream(_)) {
            return;
        }
        drop(was);
        self.drop_flows();
        self.release();
        let fd = self.fd();
        let _ = streams::disconnect(fd);
        let _ = streams::repair_ends(fd, false);
        streams::share_port(fd, self.attachment().reuses_address());
        self.clear_readiness();
        self.counters().tcp_state.set(0);
        self.counters().peer.clear();
        self.set_reason(Reason::NotBound);
        self.silence(false);
        self.interfaces_changed();
    }

    /// Why a connection to `peer` is the kernel's wherever it would go.
    fn refuse_peer(&self, host: &Host<S>, peer: SocketAddr) -> Result<(), NotOffloaded<'static>> {
        let rules = host.rules();
        if let Some(reason) = host.refusal() {
            return Err(reason.into());
        }
        if let Some(rule) = client_rule(rules, peer, None) {
            return Err(NotOffloaded {
                reason: Reason::Rule,
                rule: Some(rule),
            });
        }
        // First what needs no system call.
        let destination = peer.ip();
        if destination.is_loopback() || destination.is_unspecified() {
            return Err(Reason::Loopback.into());
        }
        if !host.network().has_socket(self.fd()) {
            return Err(Reason::Namespace.into());
        }
        if host.network().has_ipsec() {
            return Err(Reason::Ipsec.into());
        }
        if matches!(destination, IpAddr::V6(ip) if ip.is_multicast()) {
            return Err(Reason::Multicast.into());
        }
        Ok(())
    }

    /// Where a connection to `peer` would go. `device`: the interface that the socket is bound to,
    /// or 0.
    pub(super) fn interface_to(
        &self,
        host: &Host<S>,
        peer: SocketAddr,
        device: u32,
    ) -> Result<&'static Interface<S>, NotOffloaded<'static>> {
        self.refuse_peer(host, peer)?;
        let destination = peer.ip();
        let bound = local_address(self.fd());
        let scope = bound.map_or_else(|| scope_of(peer), |it| link_of(it, peer));
        if device != 0 && device != scope && (scope != 0 || has_no_link(peer)) {
            // An error, or an address that is not whole.
            return Err(Reason::Route.into());
        }
        let link = if device != 0 { device } else { scope };
        let is_other = |it: &SocketAddr| it.is_ipv4() != peer.is_ipv4();
        if bound
            .as_ref()
            .is_some_and(|it| is_other(it) && !it.ip().is_unspecified())
        {
            // The kernel has a word for it.
            return Err(Reason::Route.into());
        }
        if self.has_set(libc::IPPROTO_IP, libc::IP_FREEBIND)
            && let Some(source) = bound.map(|it| it.ip())
            && !source.is_unspecified()
            && !host
                .links
                .facts()
                .iter()
                .any(|it| it.addresses.contains(&source))
        {
            // Only the kernel knows what of it is for this host.
            return Err(Reason::AddressNotLocal.into());
        }
        let key = NextHopKey {
            destination,
            source: bound.map(|it| it.ip()).filter(|ip| !ip.is_unspecified()),
            tos: self.tos(destination),
            output_interface: (link != 0).then_some(link),
            flow: Some(FlowPorts {
                protocol: Protocol::Tcp,
                local: bound.map_or(0, |it| it.port()),
                peer: peer.port(),
            }),
        };
        let found = host.next_hop(key);
        if found.found.metrics != RouteMetrics::default() {
            return Err(Reason::RouteMetric.into());
        }
        let link = match (found.found.next_hop, found.found.neighbour) {
            (NextHop::Link { link_index, .. }, _) => link_index,
            (NextHop::Kernel(Reason::Neighbour), Some((link, address))) => {
                host.network().ask_for_neighbour(link, address);
                link
            }
            (NextHop::Kernel(reason), _) => return Err(reason.into()),
        };
        if device != 0 && link != device {
            // One that others are part of.
            return Err(Reason::Route.into());
        }
        let interface = host.links.open_for_flows(link)?;
        if !interface.takes_connections() {
            return Err(Reason::Merged.into());
        }
        Ok(interface)
    }

    fn tos(&self, destination: IpAddr) -> u8 {
        let (level, name) = match destination {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        if !self.has_set(level, name) {
            return 0;
        }
        let tos = sys::option_int(self.fd(), level, name);
        tos.map_or(0, |tos| u8::try_from(tos).unwrap_or(0))
    }

    pub(super) fn left_to_kernel(
        &'static self,
        host: &Host<S>,
        peer: SocketAddr,
        refusal: &NotOffloaded<'_>,
    ) -> ConnectOutcome {
        let _control = host.control();
        log::debug!("fd {}: to {peer}: {refusal}", self.fd());
        hand_over::hand_over_about(host, self.into(), refusal.reason, refusal.rule, "");
        ConnectOutcome::Kernel
    }
}

/// Whether an address needs an interface to lead anywhere, and names none.
fn has_no_link(address: SocketAddr) -> bool {
    let IpAddr::V6(ip) = address.ip() else {
        return false;
    };
    ip.is_unicast_link_local() && scope_of(address) == 0
}
