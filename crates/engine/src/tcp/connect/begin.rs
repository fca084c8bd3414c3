//! The beginning of a connection: what the kernel socket is told, flows, and the first segment.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use links::family::local_address;
use links::interface::Interface;
use links::reason::Reason;

use ::tcp::Connection;
use dev_core::{Flow, Protocol};
use libc::c_int;
use sys::{Errno, streams};

use super::has_no_link;
use crate::sockets::host::Host;
use crate::tcp::clock::now;
use crate::tcp::device::is_on;
use crate::tcp::egress::{Egress, Headers, path_to};
use crate::tcp::offload::client_rule;
use crate::tcp::options::OWNER;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

pub(in crate::tcp) const UNKNOWN_OPTION: &str = "an option of the socket is not known here";

/// How a connection has begun.
pub(super) enum Begun {
    Here,
    /// The kernel would have said the same.
    Refused(Errno),
    /// It is the kernel's, for this reason.
    Not(Reason, &'static str),
}

/// A kernel socket in repair, in which `connect(2)` sends nothing, and what it had before.
struct Repaired {
    fd: c_int,
    wanted: tcp::Options,
    headers: Headers,
    reuses_address: bool,
}

impl Repaired {
    /// Gives the kernel its socket back as it was.
    fn undo(&self, was_connected: bool) {
        if was_connected {
            let _ = streams::disconnect(self.fd);
        }
        let _ = streams::repair_ends(self.fd, false);
        streams::share_port(self.fd, self.reuses_address);
        if self.wanted.keep_alive() {
            let _ = streams::set_option(self.fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1);
        }
    }

    fn undone(&self, reason: Reason) -> Begun {
        self.undo(true);
        Begun::Not(reason, "")
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// Under the control lock.
    pub(super) fn begin_connection(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        peer: SocketAddr,
        interface: &'static Interface<S>,
        device: u32,
    ) -> Begun {
        let kernels = match self.repair(fd) {
            Ok(kernels) => kernels,
            Err(begun) => return begun,
        };
        let connect = || streams::connect(fd, self.family().form(peer));
        let connected = match connect() {
            Err(Errno(libc::EADDRNOTAVAIL)) if self.makes_room(host, peer, interface) => connect(),
            connected => connected,
        };
        if let Err(errno) = connected {
            kernels.undo(false);
            return Begun::Refused(errno);
        }
        streams::share_port(fd, kernels.reuses_address);
        let local = match local_end(host, fd, peer, device) {
            Ok(local) => local,
            Err(reason) => return kernels.undone(reason),
        };
        if !self.claim() {
            return kernels.undone(Reason::Forked);
        }
        self.become_stream(host, &kernels, (local, peer), interface, device)
    }

    /// Takes the options that the connection is to have, and puts the kernel's socket in repair.
    fn repair(&self, fd: c_int) -> Result<Repaired, Begun> {
        let Some((wanted, headers)) = self.options_before_connection() else {
            return Err(Begun::Not(Reason::Option, UNKNOWN_OPTION));
        };
        if let Some((reason, detail)) = self.hindrance(fd) {
            return Err(Begun::Not(reason, detail));
        }
        // The repair changes that, and its end takes it away: see `streams::share_port`.
        let reuses_address = self.attachment().reuses_address();
        if streams::repair_begins(fd).is_err() {
            return Err(Begun::Not(Reason::Repair, ""));
        }
        // Connected, it would send probes of its own.
        if wanted.keep_alive() {
            let _ = streams::set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &0);
        }
        Ok(Repaired {
            fd,
            wanted,
            headers,
            reuses_address,
        })
    }

    /// What keeps the kernel's socket from going under repair.
    pub(in crate::tcp) fn hindrance(&self, fd: c_int) -> Option<(Reason, &'static str)> {
        if sys::has_owner(fd) {
            return Some((Reason::Option, OWNER));
        }
        let call = self.globals.rights_went()?;
        Some((Reason::RightsGone, call))
    }

    /// From here on the connection is made here.
    fn become_stream(
        &'static self,
        host: &Host<S>,
        kernels: &Repaired,
        (local, peer): (SocketAddr, SocketAddr),
        interface: &'static Interface<S>,
        device: u32,
    ) -> Begun {
        let flow = Flow {
            protocol: Protocol::Tcp,
            local,
            peer: Some(peer),
        };
        let now = now();
        let secrets = self.globals.key().secrets(local, peer, now);
        let path = path_to(peer.ip(), interface.stream_mtu(interface.spec().mtu));
        let config = self.globals.config();
        let connection = Connection::connect(now, config, kernels.wanted.clone(), path, secrets);
        let no_egress: Option<Egress<S>> = None;
        let counted = self.globals.counted();
        let user = self.present_sender(host.settings());
        let mut stream = Stream::new(
            connection,
            (local, peer),
            interface,
            no_egress,
            kernels.headers,
            user,
            counted,
        )
        .bound_to(device);
        stream.is_connecting = true;
        let fd = kernels.fd;
        let inode = self.kernel_socket.inode.load(Ordering::Relaxed);
        stream.show(self.globals.segment.claim_tcp_connection(), fd, inode);
        *self.role.lock() = Role::Stream(Box::new(stream));
        self.clear_readiness();
        // The kernel's socket is connected, and says that it can be written to.
        self.silence(true);
        if interface.attach(&flow, self.into()).is_err() {
            *self.role.lock() = Role::None;
            self.silence(false);
            self.release();
            return kernels.undone(Reason::SteeringFailed);
        }
        self.attachment().flows.push((interface, flow));
        self.show_begun(host, interface, fd, (local, peer));
        Begun::Here
    }

    /// What comes for the connection finds it: others may know of it.
    pub(in crate::tcp) fn show_begun(
        &'static self,
        host: &Host<S>,
        interface: &'static Interface<S>,
        fd: c_int,
        (local, peer): (SocketAddr, SocketAddr),
    ) {
        self.begin_receiving(interface, local.ip());
        self.bring_flows();
        let counters = self.counters();
        counters.local.set(local);
        counters.peer.set(peer);
        self.set_reason(Reason::Offloaded);
        host.count_reason(Reason::Offloaded);
        log::debug!(
            "fd {fd}: {local} to {peer}: past the kernel by {}",
            interface.spec().name
        );
        if self.wishes.stamps().any() {
            self.follow_wish_for_stamps();
        }
        host.socket_event(Reason::Offloaded, fd, &format!("{local} to {peer}"));
        self.interfaces_changed();
    }
}

/// The local address of a connection that the kernel's socket has, if the connection can be here;
/// otherwise why not.
pub(in crate::tcp) fn local_end<S: TcpStack>(
    host: &Host<S>,
    fd: c_int,
    peer: SocketAddr,
    device: u32,
) -> Result<SocketAddr, Reason> {
    let local = local_address(fd).ok_or(Reason::Route)?;
    if client_rule(host.rules(), peer, Some(local)).is_some() {
        return Err(Reason::Rule);
    }
    let is_there = device == 0 || is_on(host, device, local.ip());
    if is_there && leaves_by_an_interface(local, peer) {
        Ok(local)
    } else {
        Err(Reason::Route)
    }
}

/// Whether packets between these go by an interface, and the local address can be bound again: a
/// host without other addresses sends to any network from its link-local one, and the socket is
/// bound to no interface.
fn leaves_by_an_interface(local: SocketAddr, peer: SocketAddr) -> bool {
    !local.ip().is_loopback() && local.ip() != peer.ip() && !has_no_link(local)
}
