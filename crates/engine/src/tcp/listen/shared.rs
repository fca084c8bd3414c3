//! Listeners at one address (`SO_REUSEPORT`): each has its part of the peers, as in the kernel.
//! Where a broker serves the interface, other processes' have theirs. Else, and with listeners that
//! are the kernel's, only that can choose, and all of them are its.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use dev_core::Flow;
use libc::c_int;
use links::family::Addresses;
use links::interface::Interface;
use links::network::PortUser;
use links::reason::Reason;

use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::port_place::{Place, takes_from};
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

/// Who listens at an address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    /// Others may.
    pub(super) does_share: bool,
    /// Other processes do.
    has_strangers: bool,
}

impl Sharing {
    /// Others can have their part of what comes in there.
    pub(super) fn check<S: Stack>(self, places: &[super::place::Place<S>]) -> Result<(), Reason> {
        let are_joint = || places.iter().all(|it| it.interface.is_joint());
        match self.has_strangers && !are_joint() {
            true => Err(Reason::PortShared),
            false => Ok(()),
        }
    }
}

/// What the reason is about where a port is shared.
const REUSE_PORT: &str = "SO_REUSEPORT";

impl<S: TcpStack> TcpSocket<S> {
    /// Whether others may listen at its address. `Err`: only the kernel can choose.
    pub(super) fn shares_address(&self, host: &Host<S>, at: &Addresses) -> Result<Sharing, Reason> {
        if !has_reuse_port(self.fd()) {
            return Ok(Sharing::default());
        }
        if self.has_set(libc::SOL_SOCKET, libc::SO_INCOMING_CPU) || migrates() {
            return Err(Reason::ReusePort);
        }
        let listeners = host.network().listeners(Some(at.local.port()));
        let Some(listeners) = listeners else {
            return Err(Reason::ReuseAddress);
        };
        let place = Place::new(self.family(), at);
        let inode = sys::inode(self.fd());
        let own = self.globals.shared_listeners.own();
        let is_stranger = |other: &PortUser| {
            other.inode != inode && !own.contains(&other.inode) && takes_from(&place, other)
        };
        Ok(Sharing {
            does_share: true,
            has_strangers: listeners.iter().any(is_stranger),
        })
    }

    /// Takes note of it. Under the control lock, before the flows are attached.
    pub(super) fn notes_sharing(&self, local: SocketAddr, does_share: bool) {
        let mut attachment = self.attachment();
        attachment.local = local;
        attachment.shares_port = does_share;
        self.is_sharer.store(does_share, Ordering::Relaxed);
        if does_share {
            let inode = sys::inode(self.fd());
            self.globals.shared_listeners.own().insert(inode);
        }
    }

    /// Has a flow's packets come here, or its part of them. `Err`: whose they are, if they are
    /// another's.
    pub(super) fn attach_listener(
        &'static self,
        interface: &Interface<S>,
        flow: &Flow,
    ) -> Result<(), Option<S>> {
        let (local, does_share) = place(self);
        if !does_share && !self.is_taken_together() {
            return interface.attach(flow, self.into());
        }
        // SAFETY: the program may not close it while a call of its library is about it.
        let kernels = unsafe { BorrowedFd::borrow_raw(self.fd()) };
        interface.attach_joining(flow, self.into(), kernels, |owner| {
            let device = owner.as_tcp().and_then(Self::device_of_listener);
            does_share
                && place(owner.core()) == (local, true)
                && device == self.device_of_listener()
        })
    }

    /// Whether others may have part of what reaches its port.
    #[inline]
    pub(crate) fn may_share(&self) -> bool {
        self.is_sharer.load(Ordering::Relaxed)
    }

    /// The ends of the connections that it is about to accept, at one of its addresses or at any.
    pub(crate) fn each_waiting(
        &self,
        local: SocketAddr,
        ends: &mut dyn FnMut(SocketAddr, SocketAddr),
    ) {
        if let Role::Listener(listening) = &*self.role.lock() {
            let waiting = listening.waiting(local.ip());
            waiting.for_each(|(local, peer)| ends(local, peer));
        }
    }

    /// The listener is about to be the kernel's, which may have part of what comes to others at its
    /// address: so are they. Its flows are there still, and what comes by them follows it when all
    /// are the kernel's. Under the control lock.
    pub(crate) fn leaves_with_others(&self, host: &Host<S>) {
        if !self.may_share() {
            return;
        }
        let shared = &self.globals.shared_listeners;
        shared.own().remove(&sys::inode(self.fd()));
        if shared.are_leaving.swap(true, Ordering::Relaxed) {
            return;
        }
        let flows = self.attachment().flows.clone();
        for (interface, flow) in flows {
            for other in interface.sharers(&flow, self.identity()) {
                hand_over::hand_over(host, other, Reason::PortShared, REUSE_PORT);
            }
        }
        shared.are_leaving.store(false, Ordering::Relaxed);
    }

    /// The kernel's socket listens alone, perhaps at an address of listeners that are here: so do
    /// theirs. No lock may be held.
    pub(super) fn takes_from_shared(&self, host: &Host<S>, fd: c_int) {
        if self.globals.shared_listeners.own().is_empty() {
            return;
        }
        let _control = host.control();
        self.others_leave(host, fd);
    }

    /// The same under the control lock.
    pub(super) fn others_leave(&self, host: &Host<S>, fd: c_int) {
        let shared = &self.globals.shared_listeners;
        let inode = sys::inode(fd);
        shared.own().remove(&inode);
        if shared.own().is_empty() || !has_reuse_port(fd) {
            return;
        }
        let Ok(Some(addresses)) = Addresses::of(fd) else {
            return;
        };
        let it = PortUser {
            local: addresses.local,
            peer: None,
            inode,
        };
        leave_to_others(host, &[it], &HashSet::new());
    }
}

/// Leaves listeners to the kernel from which others take something. Under the control lock.
fn leave_to_others<S: TcpStack>(host: &Host<S>, listeners: &[PortUser], own: &HashSet<u64>) {
    for (fd, socket) in host.sockets() {
        let sharer = socket.as_tcp().filter(|it| it.may_share());
        let Some(sharer) = sharer.filter(|it| it.is_offloaded()) else {
            continue;
        };
        let Ok(Some(addresses)) = Addresses::of(fd) else {
            continue;
        };
        let place = Place::new(socket.core().family(), &addresses);
        let is_stranger =
            |other: &&PortUser| !own.contains(&other.inode) && takes_from(&place, other);
        let strangers = listeners.iter().filter(is_stranger);
        let strangers: Vec<u64> = strangers.map(|it| it.inode).collect();
        let known = &sharer.globals.shared_listeners.strangers;
        let flows = sharer.attachment().flows.clone();
        if !strangers.is_empty() && !known.may_have_part(&flows, &strangers) {
            hand_over::hand_over(host, socket, Reason::PortShared, REUSE_PORT);
        }
    }
}

fn place<S: TcpStack>(core: &SocketCore<S>) -> (SocketAddr, bool) {
    let attachment = core.attachment();
    (attachment.local, attachment.shares_port)
}

/// Leaves listeners to the kernel whose address a stranger has come to share. Returns whether any
/// could.
pub(crate) fn look_after_shared_listeners<S: TcpStack>(host: &Host<S>) -> bool {
    let sharers = || {
        let all = host.sockets().filter_map(|(_, socket)| socket.as_tcp());
        all.filter(|it| it.may_share() && it.is_or_may_be_offloaded())
    };
    let any = host.sockets().find_map(|(_, socket)| socket.as_tcp());
    let Some(shared) = any.map(|it| &it.globals.shared_listeners) else {
        return false;
    };
    if shared.own().is_empty() {
        return false;
    }
    let Some(listeners) = host.network().listeners(None) else {
        // Nobody knows who has come.
        let _control = host.control();
        sharers().for_each(|it| hand_over::hand_over(host, it.into(), Reason::ReuseAddress, ""));
        return false;
    };
    let _control = host.control();
    let own = shared.own().clone();
    leave_to_others(host, &listeners, &own);
    // What is not listed is closed, or does not listen yet.
    let listed: HashSet<u64> = listeners.iter().map(|it| it.inode).collect();
    shared.strangers.retain(|inode| listed.contains(&inode));
    let here: HashSet<u64> = sharers().map(|it| sys::inode(it.fd())).collect();
    let is_there = |inode: &u64| listed.contains(inode) || here.contains(inode);
    shared.own().retain(is_there);
    true
}

/// What a reason is about for which a listener is the kernel's.
pub(super) fn detail_of(reason: Reason, fd: c_int) -> &'static str {
    match reason {
        Reason::PortShared if has_reuse_port(fd) => REUSE_PORT,
        _ => "",
    }
}

fn has_reuse_port(fd: c_int) -> bool {
    sys::option_int(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Ok(1)
}

/// Whether what waits for a listener that closes goes over to others at its address
/// (`net.ipv4.tcp_migrate_req`).
fn migrates() -> bool {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_migrate_req");
    text.is_ok_and(|text| text.trim() != "0")
}
