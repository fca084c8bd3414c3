//! A socket begins to listen.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

use ::tcp::Listener;
use dev_core::{Flow, Protocol};
use libc::c_int;

use crate::sockets::family::{Addresses, scope_of};
use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::interface::Interface;
use crate::sockets::reason::Reason;
use crate::sockets::stack::Stack;
use crate::sys::{self, Errno, streams};
use crate::tcp::common::now;
use crate::tcp::habit::Habit;
use crate::tcp::listen::settling::SETTLING;
use crate::tcp::listen::shared::{REUSE_PORT, has_reuse_port};
use crate::tcp::listen::{Listening, Place};
use crate::tcp::offload::server_rule;
use crate::tcp::socket::Role;
use crate::tcp::{TcpSocket, TcpStack, options};

/// How a socket begins to listen.
pub(super) struct Beginning {
    pub(super) local: SocketAddr,
    /// Others of this process may listen there, too.
    pub(super) does_share: bool,
    pub(super) backlog: u32,
    /// The kernel's socket listens already, and may have connections.
    pub(super) kernel_listens: bool,
}

impl<S: TcpStack> TcpSocket<S> {
    /// `listen(2)` is about to be made, or has been made (`is_made`) if the socket was not bound before. No lock may be held.
    pub fn listens(&'static self, host: &Host<S>, fd: c_int, backlog: c_int, is_made: bool) {
        let backlog = backlog_of(backlog);
        if let Role::Listener(listening) = &mut *self.role.lock() {
            listening.listener.set_backlog(backlog);
            return;
        }
        if self.is_committed() || self.reason() != Reason::NotBound {
            if !self.waits_to_listen() {
                self.takes_from_shared(host, fd);
            } else if is_made {
                host.addresses_changed(self);
            }
            return;
        }
        if !is_made && self.has_listened.load(Ordering::Relaxed) {
            return;
        }
        let addresses = Addresses::of(fd).ok().flatten();
        let Some(addresses) = addresses.filter(|it| it.local.port() != 0) else {
            return;
        };
        let local = addresses.local;
        let does_share = self.shares_address(host, &addresses);
        let begun = does_share.and_then(|does_share| {
            let open = |index| host.links.open_for_flows(index);
            let places = self.places_at(host, &addresses, open)?;
            self.common.exempt.prepare(host.network());
            let _control = host.control();
            let beginning = Beginning {
                local,
                does_share,
                backlog,
                kernel_listens: is_made,
            };
            self.begin_listening(host, fd, &beginning, places)
        });
        if let Err(reason) = begun {
            let detail = match reason {
                Reason::RightsGone => self.common.rights_went().unwrap_or_default(),
                Reason::PortShared if has_reuse_port(fd) => REUSE_PORT,
                _ => "",
            };
            if reason == Reason::Held {
                return self.wait_for_interface(host, fd, local, does_share == Ok(true));
            }
            host.leave_to_kernel_about(self.into(), reason, detail);
            self.takes_from_shared(host, fd);
        }
    }

    /// Where connections to an address come in, of the interfaces that are `open`.
    pub(super) fn places_at(
        &self,
        host: &Host<S>,
        at: &Addresses,
        mut open: impl FnMut(u32) -> Result<&'static Interface<S>, Reason>,
    ) -> Result<Vec<Place<S>>, Reason> {
        let (fd, local) = (self.fd(), at.local);
        if let Some(reason) = host.refusal() {
            return Err(reason);
        }
        if !host.network().has_socket(fd) {
            return Err(Reason::Namespace);
        }
        if host.network().has_ipsec() {
            return Err(Reason::Ipsec);
        }
        if let Some((reason, _)) = self.common.no_repair() {
            return Err(reason);
        }
        let (scope, link) = (scope_of(local), self.device());
        if scope != 0 && scope != link {
            // Of a connection that has failed.
            return Err(Reason::Route);
        }
        let mut places = Vec::new();
        let mut refusal = match link {
            0 => Reason::Loopback,
            _ => Reason::NoInterface,
        };
        for facts in host.links.facts() {
            let is_other = link != 0 && link != facts.spec.index;
            if facts.loopback || !facts.is_eligible() || is_other {
                continue;
            }
            let hop_limit = host.network().hop_limit(facts.spec.index);
            for address in facts.addresses {
                let is_wanted = local.ip() == address
                    || local.ip().is_unspecified() && at.versions.carry(address);
                if !is_wanted {
                    continue;
                }
                let at = SocketAddr::new(address, local.port());
                if server_rule(host.rules(), at).is_some() {
                    refusal = Reason::Rule;
                    continue;
                }
                match open(facts.spec.index) {
                    Ok(interface) if interface.takes_connections() => {
                        places.push(Place {
                            interface,
                            address,
                            hop_limit,
                        });
                    }
                    Ok(_) => refusal = Reason::Merged,
                    // It may be free later.
                    Err(reason) if refusal != Reason::Held => refusal = reason,
                    Err(_) => {}
                }
            }
        }
        if places.is_empty() {
            Err(refusal)
        } else {
            Ok(places)
        }
    }

    /// Under the control lock.
    pub(super) fn begin_listening(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        beginning: &Beginning,
        places: Vec<Place<S>>,
    ) -> Result<(), Reason> {
        let Beginning {
            local,
            does_share,
            backlog,
            kernel_listens,
        } = *beginning;
        let Some((options, headers)) = self.options_before_connection() else {
            return Err(Reason::Option);
        };
        if self.common.rights_went().is_some() {
            // Since it was looked.
            return Err(Reason::RightsGone);
        }
        if !host.is_behind(fd, self) || !self.claim() {
            return Err(Reason::Forked);
        }
        if kernel_listens {
            // Whoever had it before may have left a filter, which connections have that wait to be accepted.
            let _ = sys::refuse_ways_in(fd, &[]);
            self.has_refused.store(true, Ordering::Relaxed);
        } else if self.refuse_ways_in(&places).is_err() {
            self.release();
            return Err(Reason::Option);
        }
        let mut listener = Listener::new(now(), self.common.config(), backlog);
        listener.set_defer_accept(options::defer_accept(fd));
        let listening = Listening {
            listener,
            children: HashMap::new(),
            ready: VecDeque::new(),
            places: places.clone(),
            device: self.device(),
            options,
            headers,
            habit: Habit::default(),
            is_returning: false,
            refuses_at: kernel_listens.then(|| now() + SETTLING),
            _counted: self.common.counted(),
        };
        *self.role.lock() = Role::Listener(Box::new(listening));
        self.notes_reuse();
        self.notes_sharing(local, does_share);
        for place in places {
            if let Err(reason) = self.take_place(&place, local.port()) {
                self.drop_flows();
                *self.role.lock() = Role::None;
                let _ = sys::refuse_ways_in(fd, &[]);
                self.release();
                return Err(reason);
            }
        }
        self.bring_flows();
        if kernel_listens {
            self.leave_connections_to_kernel();
        }
        self.counters().local.set(local);
        self.counters().tcp_state.set(LISTEN);
        self.set_reason(Reason::Offloaded);
        host.count_reason(Reason::Offloaded);
        log::debug!("fd {fd}: listens at {local}, past the kernel");
        host.socket_event(Reason::Offloaded, fd, &format!("listens at {local}"));
        // From here on the internal thread looks at the rings.
        self.common.timers.arm(self.timer(), now());
        self.interfaces_changed();
        Ok(())
    }

    /// Connections come in at a place from here on. Under the control lock.
    pub(super) fn take_place(&'static self, place: &Place<S>, port: u16) -> Result<(), Reason> {
        let flow = Flow {
            protocol: Protocol::Tcp,
            local: SocketAddr::new(place.address, port),
            peer: None,
        };
        self.attach_listener(place.interface, &flow)
            .map_err(|owner| owner.map_or(Reason::SteeringFailed, |_| Reason::PortShared))?;
        self.attachment().flows.push((place.interface, flow));
        self.begin_receiving(place.interface, place.address);
        Ok(())
    }

    pub(super) fn refuse_ways_in(&self, places: &[Place<S>]) -> Result<(), Errno> {
        let ways = ways_in(places);
        self.has_refused
            .fetch_or(!ways.is_empty(), Ordering::Relaxed);
        sys::refuse_ways_in(self.fd(), &ways)
    }

    /// Interfaces are gone, perhaps: connections come in by those that are left, and else to the kernel's socket. Under the control lock.
    pub(in crate::tcp) fn leave_lost_places(&'static self, host: &Host<S>) {
        let (left, is_settled) = {
            let mut role = self.role.lock();
            let Role::Listener(listening) = &mut *role else {
                return;
            };
            let before = listening.places.len();
            listening.places.retain(|it| !it.interface.is_lost());
            if listening.places.len() == before {
                return;
            }
            (listening.places.clone(), listening.refuses_at.is_none())
        };
        if left.is_empty() {
            return hand_over::leave(host, self.into(), Reason::DeviceLost, "");
        }
        if is_settled {
            let _ = self.refuse_ways_in(&left);
        }
        let flows = &mut self.attachment().flows;
        for (interface, flow) in flows.extract_if(.., |it| it.0.is_lost()) {
            interface.leave_flow(&flow, self);
        }
    }

    /// Connections have it of their listener.
    pub(in crate::tcp) fn notes_reuse(&self) {
        let reuses = sys::option_int(self.fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR) == Ok(1);
        self.attachment().reuses_address = reuses;
    }
}

/// Where segments to addresses of IPv4 come past the kernel.
fn ways_in<S: Stack>(places: &[Place<S>]) -> Vec<(u32, Ipv4Addr)> {
    let way_in = |place: &Place<S>| match place.address {
        IpAddr::V4(address) => Some((place.interface.spec().index, address)),
        IpAddr::V6(_) => None,
    };
    places.iter().filter_map(way_in).collect()
}

/// TCP_LISTEN, as ss(8) numbers it.
const LISTEN: u32 = 10;

/// The backlog of a listener of the kernel's (`tcpi_sacked`).
pub(crate) fn backlog_in_kernel(fd: c_int) -> c_int {
    const AT: usize = std::mem::offset_of!(libc::tcp_info, tcpi_sacked);
    let mut info = [0; AT + 4];
    let read = streams::option_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
    let backlog = info.last_chunk().copied().map_or(0, c_int::from_ne_bytes);
    read.map_or(libc::SOMAXCONN, |_| backlog)
}

/// What the kernel makes of the argument (`net.core.somaxconn`).
fn backlog_of(backlog: c_int) -> u32 {
    let text = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    let most = text.trim().parse().unwrap_or(4096);
    backlog.cast_unsigned().min(most)
}
