//! A socket begins to listen.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use links::family::Addresses;
use links::reason::Reason;

use ::tcp::Listener;
use dev_core::{Flow, Protocol};
use libc::c_int;
use sys::{Errno, streams};

use crate::sockets::host::Host;
use crate::tcp::clock::now;
use crate::tcp::listen::Listening;
use crate::tcp::listen::place::{Place, WaysIn};
use crate::tcp::listen::places::ways_in;
use crate::tcp::listen::settling::SETTLING;
use crate::tcp::listen::shared::detail_of;
use crate::tcp::options;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::habit::Habit;

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
    /// `listen(2)` is about to be made, or has been made (`is_made`) if the socket was not bound
    /// before. No lock may be held.
    pub fn listens(&'static self, host: &Host<S>, fd: c_int, backlog: c_int, is_made: bool) {
        // What the kernel makes of the argument (`net.core.somaxconn`) it tells when it listens.
        let backlog = if is_made {
            backlog_in_kernel(fd)
        } else {
            backlog.clamp(0, libc::SOMAXCONN)
        };
        if let Role::Listener(listening) = &mut *self.role.lock() {
            if is_made {
                listening.kernel_listens = true;
                listening.listener.set_backlog(backlog.cast_unsigned());
            }
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
        let sharing = self.shares_address(host, &addresses);
        let does_share = sharing.is_ok_and(|it| it.does_share);
        let begun = sharing.and_then(|sharing| {
            let open = |index| host.links.open_for_flows(index);
            let places = self.places_at(host, &addresses, open)?;
            sharing.check(&places)?;
            self.globals.exempt.prepare(host.network());
            let _control = host.control();
            let beginning = Beginning {
                local,
                does_share,
                backlog: backlog.cast_unsigned(),
                kernel_listens: is_made,
            };
            self.begin_listening(host, fd, &beginning, places)
        });
        if let Err(reason) = begun {
            let detail = match reason {
                Reason::RightsGone => self.globals.rights_went().unwrap_or_default(),
                _ => detail_of(reason, fd),
            };
            if reason.passes() {
                return self.wait_for_interface(host, fd, (local, does_share), reason);
            }
            host.leave_to_kernel_about(self.into(), reason, detail);
            self.takes_from_shared(host, fd);
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
        if self.globals.rights_went().is_some() {
            // Since it was looked.
            return Err(Reason::RightsGone);
        }
        self.claim_for(host, fd, &places)?;
        let Ok(refused) = self.refuse_in_kernel(host, fd, kernel_listens, &places) else {
            self.release();
            return Err(Reason::Option);
        };
        let mut listener = Listener::new(now(), self.globals.config(), backlog);
        listener.set_defer_accept(options::defer_accept(fd));
        let (counted, is_first) = self.globals.counted_first();
        let listening = Listening {
            listener,
            children: HashMap::new(),
            ready: VecDeque::new(),
            places: places.clone(),
            kernel_listens,
            refused,
            device: self.device(),
            options,
            headers,
            habit: Habit::default(),
            is_returning: false,
            passes_on_from: self.is_taken_together().then(now),
            refuses_at: kernel_listens.then(|| now() + SETTLING),
            _counted: counted,
        };
        *self.role.lock() = Role::Listener(Box::new(listening));
        self.notes_reuse();
        self.notes_sharing(local, does_share);
        for place in places {
            if let Err(reason) = self.take_place(&place, local.port()) {
                self.drop_flows();
                *self.role.lock() = Role::None;
                let _ = sys::set_listener_filter(fd, &[]);
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
        if is_first || kernel_listens {
            // From here on the internal thread looks at the rings, as it does while there are
            // others.
            self.globals.timers.arm(self.timer(), now());
        }
        self.interfaces_changed();
        Ok(())
    }

    /// It is this process's to take connections from, alone or its part of them.
    fn claim_for(&self, host: &Host<S>, fd: c_int, places: &[Place<S>]) -> Result<(), Reason> {
        let is_alone = || places.iter().any(|it| !it.interface.is_joint());
        if self.is_taken_together() && is_alone() {
            // Others could have no part there.
            self.stops_taking_together();
        }
        if host.is_behind(fd, self) && self.claim() {
            return Ok(());
        }
        // Also if it had a part.
        self.release();
        Err(Reason::Forked)
    }

    /// What comes in past the kernel, the kernel's listener does not take; not if it listens
    /// already: then it may be at it.
    fn refuse_in_kernel(
        &self,
        host: &Host<S>,
        fd: c_int,
        kernel_listens: bool,
        places: &[Place<S>],
    ) -> Result<WaysIn, Errno> {
        if kernel_listens {
            // Whoever had it before may have left a filter, which connections have that wait to be
            // accepted.
            let _ = sys::set_listener_filter(fd, &[]);
            self.has_refused.store(true, Ordering::Relaxed);
            return Ok(WaysIn::new());
        }
        let refused = ways_in(host, places);
        self.set_listener_filter(&refused).map(|()| refused)
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

    /// Connections have it of their listener.
    pub(in crate::tcp) fn notes_reuse(&self) {
        let reuses = sys::option_int(self.fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR) == Ok(1);
        self.attachment().reuses_address = reuses;
    }
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
