//! Listeners: connections that peers open, from the first SYN until the program accepts them. The kernel's socket listens, too, for
//! what comes by other ways.

mod cookie;
mod returning;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use ::tcp::{
    Connection, CookieError, Ecn, Event, Flags, Instant, ListenDisposition, Listener, Options,
    State,
};
use dev_core::{Flow, Protocol};
use libc::c_int;
use wire::tcp::Segment;

use crate::sockets::delivery;
use crate::sockets::events;
use crate::sockets::family::{Addresses, is_narrow};
use crate::sockets::host::Host;
use crate::sockets::interface::Interface;
use crate::sockets::reason::Reason;
use crate::sockets::rings::RingUser;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sys::{self, streams};
use crate::tcp::Common;
use crate::tcp::common::{Counted, Stranger, now};
use crate::tcp::offload::server_rule;
use crate::tcp::payload::Received;
use crate::tcp::socket::Role;
use crate::tcp::stream::{Outcome, Stream};
use crate::tcp::way::{Headers, Way, path_to};
use crate::tcp::{TcpSocket, TcpStack, options};
pub(super) use returning::Returning;

/// A listener, and its connections that were not accepted yet. Under the socket's lock.
pub(super) struct Listening<S: Stack> {
    pub(super) listener: Listener,
    /// By the addresses of both sides.
    children: HashMap<(SocketAddr, SocketAddr), Child<S>>,
    /// Those that wait to be accepted, the oldest first.
    ready: VecDeque<(SocketAddr, SocketAddr)>,
    places: Vec<Place<S>>,
    options: Options,
    headers: Headers,
    /// It is the kernel's socket that listens: nobody accepts here.
    is_returning: bool,
    /// SYNs are answered also while the program does something else.
    _counted: Counted,
}

/// Where connections come in.
#[derive(Clone, Copy)]
pub(super) struct Place<S: Stack> {
    interface: &'static Interface<S>,
    address: IpAddr,
    /// For IPv6: what the interface says.
    hop_limit: u8,
}

/// A connection that was not accepted yet.
struct Child<S: Stack> {
    stream: Box<Stream<S>>,
    is_ready: bool,
    /// It may have something to send for which there was no room.
    waits_for_room: bool,
}

impl<S: Stack> Listening<S> {
    /// A segment for the listener's port. Under the ring's lock.
    pub(super) fn take(
        &mut self,
        core: &SocketCore<S>,
        common: &Common<S>,
        now: Instant,
        segment: &Segment,
        mac: [u8; 6],
        data: Option<Received>,
    ) -> Outcome {
        let key = delivery::ends(segment);
        if self.children.contains_key(&key) {
            return self.take_for_child(core, common, now, segment, key, data);
        }
        match self.listener.on_segment(now, &segment.header) {
            ListenDisposition::Open => self.open(core, common, now, segment, mac),
            ListenDisposition::Cookie => self.answer_with_cookie(common, now, segment, mac),
            // It may be for a connection that the kernel has, in TIME-WAIT for example.
            ListenDisposition::Ignore if segment.header.flags.contains(Flags::RST) => {
                leave_to_kernel(common, now, segment, data)
            }
            // The queue is full; the peer tries again.
            ListenDisposition::Ignore => Outcome::default(),
            ListenDisposition::Reset => {
                let opened = self.open_by_cookie(common, now, segment, mac);
                match opened {
                    Ok(()) => self.take_for_child(core, common, now, segment, key, data),
                    Err(CookieError::QueueFull) => Outcome::default(),
                    Err(CookieError::Invalid) => leave_to_kernel(common, now, segment, data),
                }
            }
        }
    }

    /// How segments get back to where one came from.
    fn way_back(&self, segment: &Segment, mac: [u8; 6]) -> Option<Way<S>> {
        let (local, peer) = delivery::ends(segment);
        let place = self.places.iter().find(|it| it.address == local.ip())?;
        let (interface, hop_limit) = (place.interface, place.hop_limit);
        let (ends, user) = ((local, peer), passing_user(interface, peer));
        Some(Way::back(
            interface,
            hop_limit,
            mac,
            ends,
            self.headers,
            user,
        ))
    }

    fn open(
        &mut self,
        core: &SocketCore<S>,
        common: &Common<S>,
        now: Instant,
        segment: &Segment,
        mac: [u8; 6],
    ) -> Outcome {
        let (local, peer) = delivery::ends(segment);
        let Some(way) = self.way_back(segment, mac) else {
            self.listener.on_embryonic_closed();
            return Outcome::default();
        };
        let connection = Connection::accept(
            now,
            common.config(),
            self.options.clone(),
            path_to(segment.endpoints.source().ip(), way.mtu),
            common.key().secrets(local, peer, now),
            &segment.header,
            Ecn::from_tos(segment.tos),
        );
        self.hold(common, connection, way, (local, peer));
        self.settle((local, peer), core, common, now)
    }

    fn hold(
        &mut self,
        common: &Common<S>,
        connection: Connection<Received>,
        way: Way<S>,
        (local, peer): (SocketAddr, SocketAddr),
    ) {
        let interface = way.sender.interface;
        let counted = common.counted();
        let stream = Stream::new(
            connection,
            (local, peer),
            interface,
            Some(way),
            self.headers,
            passing_user(interface, peer),
            counted,
        );
        let child = Child {
            stream: Box::new(stream),
            is_ready: false,
            waits_for_room: false,
        };
        self.children.insert((local, peer), child);
    }

    fn take_for_child(
        &mut self,
        core: &SocketCore<S>,
        common: &Common<S>,
        now: Instant,
        segment: &Segment,
        key: (SocketAddr, SocketAddr),
        data: Option<Received>,
    ) -> Outcome {
        let Some(child) = self.children.get_mut(&key) else {
            return Outcome::default();
        };
        let connection = &mut child.stream.connection;
        let len = usize::from(segment.payload_len);
        if connection.is_embryonic() && !self.listener.admits(connection, &segment.header, len) {
            return self.settle(key, core, common, now);
        }
        let ecn = Ecn::from_tos(segment.tos);
        connection.on_segment(now, &segment.header, ecn, data);
        self.settle(key, core, common, now)
    }

    /// Does something to a connection that was not accepted yet, if there is such a one.
    pub(super) fn with_child(
        &mut self,
        key: (SocketAddr, SocketAddr),
        core: &SocketCore<S>,
        common: &Common<S>,
        now: Instant,
        change: impl FnOnce(&mut Stream<S>),
    ) -> Outcome {
        if let Some(child) = self.children.get_mut(&key) {
            change(&mut child.stream);
        }
        self.settle(key, core, common, now)
    }

    /// After whatever was done to a connection.
    fn settle(
        &mut self,
        key: (SocketAddr, SocketAddr),
        core: &SocketCore<S>,
        common: &Common<S>,
        now: Instant,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(child) = self.children.get_mut(&key) else {
            return outcome;
        };
        let sent = child.stream.transmit(core.counters(), now);
        if sent.needs_kick
            && let Some(way) = &child.stream.way
        {
            outcome.needs_kick = !way.sender.has_replied_to(child.stream.interface);
        }
        while let Some(event) = child.stream.connection.poll_event() {
            if event == Event::Connected && !child.is_ready {
                child.is_ready = true;
                // Until it is accepted its descriptor is the listener's.
                let slot = common.segment.claim_tcp_connection();
                child.stream.show(slot, core.fd(), 0);
                self.listener.on_established();
                self.ready.push_back(key);
                if !self.is_returning {
                    outcome.events |= events::IN;
                }
            }
        }
        child.stream.publish();
        child.waits_for_room = sent.is_full;
        outcome.wake_up = sent.earlier(child.stream.connection.poll_wake_up(), now);
        let is_over = child.stream.connection.state() == State::Closed;
        if is_over && !child.is_ready {
            self.listener.on_embryonic_closed();
            self.children.remove(&key);
        }
        self.show_readiness(core);
        outcome
    }

    fn show_readiness(&self, core: &SocketCore<S>) {
        if self.ready.is_empty() || self.is_returning {
            core.readiness.clear(events::IN);
        } else {
            core.readiness.set(events::IN);
        }
    }

    /// Timers of the connections. Returns what the last of them needs, and whether devices have to be told.
    pub(super) fn look_after(
        &mut self,
        core: &SocketCore<S>,
        common: &Common<S>,
        now: Instant,
    ) -> Outcome {
        let mut all = Outcome::default();
        let mut soon = None;
        let is_due = |child: &Child<S>| {
            let at = child.stream.connection.poll_timeout();
            child.waits_for_room || at.is_some_and(|at| at <= now)
        };
        // Of thousands in a flood few are due.
        let due = self.children.iter().filter(|(_, child)| is_due(child));
        let keys: Vec<_> = due.map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(child) = self.children.get_mut(&key) {
                child.stream.connection.on_timeout(now);
            }
            let outcome = self.settle(key, core, common, now);
            all.events |= outcome.events;
            soon = soon.into_iter().chain(outcome.wake_up).min();
        }
        let children = self.children.values();
        all.wake_up = children
            .filter_map(|child| child.stream.connection.poll_timeout())
            .chain(soon)
            .min();
        all
    }

    /// The connection that is to be accepted next.
    pub(super) fn next(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.ready.front().copied()
    }

    /// Takes it out.
    pub(super) fn accepted(
        &mut self,
        key: (SocketAddr, SocketAddr),
        core: &SocketCore<S>,
    ) -> Option<Box<Stream<S>>> {
        let child = self.children.remove(&key)?;
        self.ready.retain(|other| *other != key);
        self.listener.on_accepted();
        self.show_readiness(core);
        Some(child.stream)
    }

    /// Resets one. The device has to be told, whose interface this returns.
    pub(super) fn refuse(
        &mut self,
        key: (SocketAddr, SocketAddr),
        core: &SocketCore<S>,
        now: Instant,
    ) -> Option<&'static Interface<S>> {
        let mut stream = self.accepted(key, core)?;
        stream.connection.abort();
        stream.transmit(core.counters(), now);
        Some(stream.interface)
    }

    /// Where a connection comes in.
    pub(super) fn interface_of(
        &self,
        key: (SocketAddr, SocketAddr),
    ) -> Option<&'static Interface<S>> {
        self.children.get(&key).map(|child| child.stream.interface)
    }

    /// Resets what nobody will accept, and forgets what is not established. The devices have to be told.
    pub(super) fn abort_all(&mut self, core: &SocketCore<S>, now: Instant) {
        for (_, mut child) in self.children.drain() {
            if child.stream.connection.is_embryonic() {
                continue;
            }
            child.stream.connection.abort();
            child.stream.transmit(core.counters(), now);
        }
        self.ready.clear();
    }

    pub(super) fn interfaces(&self) -> impl Iterator<Item = &'static Interface<S>> + '_ {
        self.places.iter().map(|place| place.interface)
    }
}

/// Whose rings a connection sends by that nobody has accepted: the thread's that receives for it.
fn passing_user<S: Stack>(interface: &Interface<S>, peer: SocketAddr) -> RingUser {
    let host = match peer.ip() {
        IpAddr::V4(ip) => u64::from(u32::from(ip)),
        // Hosts of one network differ in the lower half.
        IpAddr::V6(ip) => u128::from(ip) as u64,
    };
    let number = usize::from(peer.port()) ^ (host as usize).rotate_left(16);
    RingUser::passing(interface.ring_policy(), number)
}

/// A segment of no connection here: the kernel knows it, or resets it.
fn leave_to_kernel<S: Stack>(
    common: &Common<S>,
    now: Instant,
    segment: &Segment,
    data: Option<Received>,
) -> Outcome {
    common.add_stranger(Stranger::new(segment, data));
    Outcome {
        wake_up: Some(now),
        ..Outcome::default()
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// `listen(2)` is about to be made, or has been made if the socket was not bound before. No lock may be held.
    pub fn listens(&'static self, host: &Host<S>, fd: c_int, backlog: c_int) {
        let backlog = backlog_of(backlog);
        if let Role::Listener(listening) = &mut *self.role.lock() {
            listening.listener.set_backlog(backlog);
            return;
        }
        if self.is_committed() || self.reason() != Reason::NotBound {
            return;
        }
        let addresses = Addresses::of(fd).ok().flatten();
        let Some(addresses) = addresses.filter(|it| it.local.port() != 0) else {
            return;
        };
        let local = addresses.local;
        let begun = self.places_at(host, &addresses);
        let begun = begun.and_then(|places| self.begin_listening(host, fd, local, places, backlog));
        if let Err(reason) = begun {
            host.leave_to_kernel(self, reason);
        }
    }

    /// Where connections to an address come in. Opens interfaces.
    fn places_at(&self, host: &Host<S>, at: &Addresses) -> Result<Vec<Place<S>>, Reason> {
        let (fd, local) = (self.fd(), at.local);
        if !host.settings().offloaded_sockets {
            return Err(Reason::Disabled);
        }
        if !host.network().has_socket(fd) {
            return Err(Reason::Namespace);
        }
        if host.network().has_ipsec() {
            return Err(Reason::Ipsec);
        }
        if sys::option_int(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Ok(1) {
            return Err(Reason::ReusePort);
        }
        if !self.common.can_repair() {
            return Err(Reason::Repair);
        }
        if is_narrow(local.ip()) {
            return Err(Reason::Tcp);
        }
        let mut places = Vec::new();
        let mut refusal = Reason::Loopback;
        for facts in host.links.facts() {
            if facts.loopback || !facts.is_eligible() {
                continue;
            }
            let hop_limit = host.network().hop_limit(facts.spec.index);
            for address in facts.addresses {
                let is_wanted = local.ip() == address
                    || local.ip().is_unspecified() && at.versions.carry(address);
                if !is_wanted || is_narrow(address) {
                    continue;
                }
                let at = SocketAddr::new(address, local.port());
                if server_rule(host.rules(), at).is_some() {
                    refusal = Reason::Rule;
                    continue;
                }
                match host.links.open_for_flows(facts.spec.index) {
                    Ok(interface) if interface.takes_connections() => {
                        places.push(Place {
                            interface,
                            address,
                            hop_limit,
                        });
                    }
                    Ok(_) => refusal = Reason::Merged,
                    Err(reason) => refusal = reason,
                }
            }
        }
        if places.is_empty() {
            Err(refusal)
        } else {
            Ok(places)
        }
    }

    fn begin_listening(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        local: SocketAddr,
        places: Vec<Place<S>>,
        backlog: u32,
    ) -> Result<(), Reason> {
        let _control = host.control();
        let Some((options, headers)) = self.options_before_connection() else {
            return Err(Reason::Option);
        };
        if !host.is_behind(fd, self) || !self.claim() {
            return Err(Reason::Forked);
        }
        let indexes: Vec<_> = places.iter().map(|it| it.interface.spec().index).collect();
        if streams::refuse_interfaces(fd, &indexes).is_err() {
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
            options,
            headers,
            is_returning: false,
            _counted: self.common.counted(),
        };
        *self.role.lock() = Role::Listener(Box::new(listening));
        self.notes_reuse();
        for place in places {
            let flow = Flow {
                protocol: Protocol::Tcp,
                local: SocketAddr::new(place.address, local.port()),
                peer: None,
            };
            if place.interface.attach(&flow, self.into()).is_err() {
                self.drop_flows();
                *self.role.lock() = Role::None;
                let _ = streams::refuse_interfaces(fd, &[]);
                self.release();
                return Err(Reason::SteeringFailed);
            }
            self.attachment().flows.push((place.interface, flow));
            self.begin_receiving(place.interface, place.address);
        }
        self.bring_flows();
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

    /// Connections have it of their listener.
    pub(super) fn notes_reuse(&self) {
        let reuses = sys::option_int(self.fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR) == Ok(1);
        self.attachment().reuses_address = reuses;
    }

    /// The listener is closed. What nobody has accepted is reset. Under the control lock.
    pub(super) fn end_listening(&self, mut listening: Box<Listening<S>>) {
        listening.abort_all(&self.core, now());
        for interface in listening.interfaces() {
            interface.start_segments();
        }
        let _ = streams::refuse_interfaces(self.fd(), &[]);
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

/// What the kernel makes of the argument (`net.core.somaxconn`).
fn backlog_of(backlog: c_int) -> u32 {
    let text = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    let most = text.trim().parse().unwrap_or(4096);
    backlog.cast_unsigned().min(most)
}
