//! Listeners: connections that peers open, from the first SYN until the program accepts them. The
//! kernel's socket listens, too, for what comes by other ways.

pub(in crate::tcp) mod begin;
mod cookie;
mod ending;
mod more_places;
mod passing_on;
mod place;
mod places;
pub(in crate::tcp) mod return_queue;
mod returning;
mod settling;
pub(in crate::tcp) mod shared;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use links::delivery;
use links::interface::Interface;
use links::rings::RingUser;

use ::tcp::{
    Connection, CookieError, Ecn, Event, Flags, Instant, ListenDisposition, Listener, Options,
    State,
};
use wire::tcp::Segment;

use crate::sockets::events;
use crate::sockets::payload::Received;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::tcp::egress::{Egress, Headers, path_to};
use crate::tcp::globals::Globals;
use crate::tcp::state::counted::Counted;
use crate::tcp::state::habit::Habit;
use crate::tcp::state::origin::Origin;
use crate::tcp::state::unmatched::UnmatchedSegment;
use crate::tcp::stream::{Outcome, Stream};
use place::{Place, WaysIn, includes};

/// A listener, and its connections that were not accepted yet. Under the socket's lock.
pub(super) struct Listening<S: Stack> {
    pub(super) listener: Listener,
    /// By the addresses of both sides.
    children: HashMap<(SocketAddr, SocketAddr), Child<S>>,
    /// Those that wait to be accepted, the oldest first.
    ready: VecDeque<(SocketAddr, SocketAddr)>,
    places: Vec<Place<S>>,
    /// listen(2) has been made: until then the kernel socket is a closed socket.
    pub(super) kernel_listens: bool,
    /// What the kernel's socket refuses.
    refused: WaysIn,
    /// Index of the interface that the kernel's socket is bound to, or 0.
    pub(super) device: u32,
    /// What the program has set on the listener: connections begin with that.
    pub(super) options: Options,
    pub(super) headers: Headers,
    /// What becomes of those that are accepted.
    pub(super) habit: Habit,
    /// It is the kernel's socket that listens: nobody accepts here.
    is_returning: bool,
    /// If other processes accept from the kernel's socket, too: from when on those are
    /// [passed on](passing_on) that wait.
    passes_on_from: Option<Instant>,
    /// When the kernel's socket refuses what comes past it, if it does not yet.
    refuses_at: Option<Instant>,
    /// SYNs are answered also while the program does something else.
    _counted: Counted,
}

/// A connection that was not accepted yet.
struct Child<S: Stack> {
    stream: Box<Stream<S>>,
    /// Since when it waits to be accepted.
    ready_since: Option<Instant>,
    /// It may have something to send for which there was no room.
    waits_for_room: bool,
    /// The headers of the segment that has opened it, if they are asked for (`TCP_SAVE_SYN`).
    syn: Option<Box<[u8]>>,
}

impl<S: Stack> Listening<S> {
    /// A segment for the listener's port. Under the ring's lock.
    pub(super) fn take(
        &mut self,
        core: &SocketCore<S>,
        globals: &Globals<S>,
        now: Instant,
        segment: &Segment,
        origin: Origin,
        data: Option<Received>,
    ) -> Outcome {
        let key = delivery::ends(segment, origin.link_index);
        if self.children.contains_key(&key) {
            return self.take_for_child(core, globals, now, segment, key, data);
        }
        match self.listener.on_segment(now, &segment.header) {
            ListenDisposition::Open => self.open(core, globals, now, segment, origin),
            ListenDisposition::Cookie => self.answer_with_cookie(globals, now, segment, origin),
            // It may be for a connection that the kernel has, in TIME-WAIT for example.
            ListenDisposition::Ignore if segment.header.flags.contains(Flags::RST) => {
                leave_to_kernel(globals, now, segment, origin, data)
            }
            // The queue is full; the peer tries again.
            ListenDisposition::Ignore => Outcome::default(),
            ListenDisposition::Reset => {
                let opened = self.open_by_cookie(globals, now, segment, origin);
                match opened {
                    Ok(()) => self.take_for_child(core, globals, now, segment, key, data),
                    Err(CookieError::QueueFull) => Outcome::default(),
                    Err(CookieError::Invalid) => {
                        leave_to_kernel(globals, now, segment, origin, data)
                    }
                }
            }
        }
    }

    /// How segments get back to where one came from.
    fn egress_back(&self, segment: &Segment, origin: Origin) -> Option<Egress<S>> {
        let (local, peer) = delivery::ends(segment, origin.link_index);
        // Several interfaces may have one link-local address.
        let is_here = |it: &&Place<S>| {
            includes(it.address, local.ip()) && it.interface.spec().index == origin.link_index
        };
        let place = self.places.iter().find(is_here)?;
        let (interface, hop_limit) = (place.interface, place.hop_limit);
        let (ends, user) = ((local, peer), passing_user(interface, peer));
        Some(Egress::back(
            interface,
            hop_limit,
            origin.mac,
            ends,
            self.headers,
            user,
        ))
    }

    fn open(
        &mut self,
        core: &SocketCore<S>,
        globals: &Globals<S>,
        now: Instant,
        segment: &Segment,
        origin: Origin,
    ) -> Outcome {
        let (local, peer) = delivery::ends(segment, origin.link_index);
        let Some(egress) = self.egress_back(segment, origin) else {
            self.listener.on_embryonic_closed();
            return Outcome::default();
        };
        let connection = Connection::accept(
            now,
            globals.config(),
            self.options.clone(),
            path_to(segment.endpoints.source().ip(), egress.mtu),
            globals.key().secrets(local, peer, now),
            &segment.header,
            Ecn::from_tos(segment.tos),
        );
        self.hold(globals, connection, egress, (local, peer));
        self.settle((local, peer), core, globals, now)
    }

    fn hold(
        &mut self,
        globals: &Globals<S>,
        connection: Connection<Received>,
        egress: Egress<S>,
        (local, peer): (SocketAddr, SocketAddr),
    ) {
        let interface = egress.sender.interface;
        let counted = globals.counted();
        let stream = Stream::new(
            connection,
            (local, peer),
            interface,
            Some(egress),
            self.headers,
            passing_user(interface, peer),
            counted,
        )
        .bound_to(self.device);
        let child = Child {
            stream: Box::new(stream),
            ready_since: None,
            waits_for_room: false,
            syn: None,
        };
        self.children.insert((local, peer), child);
    }

    fn take_for_child(
        &mut self,
        core: &SocketCore<S>,
        globals: &Globals<S>,
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
            return self.settle(key, core, globals, now);
        }
        let ecn = Ecn::from_tos(segment.tos);
        connection.on_segment(now, &segment.header, ecn, data);
        self.settle(key, core, globals, now)
    }

    /// Does something to a connection that was not accepted yet, if there is such a one.
    pub(super) fn with_child(
        &mut self,
        key: (SocketAddr, SocketAddr),
        core: &SocketCore<S>,
        globals: &Globals<S>,
        now: Instant,
        change: impl FnOnce(&mut Stream<S>),
    ) -> Outcome {
        if let Some(child) = self.children.get_mut(&key) {
            change(&mut child.stream);
        }
        self.settle(key, core, globals, now)
    }

    /// After whatever was done to a connection.
    fn settle(
        &mut self,
        key: (SocketAddr, SocketAddr),
        core: &SocketCore<S>,
        globals: &Globals<S>,
        now: Instant,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(child) = self.children.get_mut(&key) else {
            return outcome;
        };
        let sent = child.stream.transmit(core.counters(), now);
        if sent.needs_kick
            && let Some(egress) = &child.stream.egress
        {
            outcome.needs_kick = !egress.sender.note_reply_to(child.stream.interface);
        }
        while let Some(event) = child.stream.connection.poll_event() {
            if event == Event::Connected && child.ready_since.is_none() {
                child.ready_since = Some(now);
                // Until it is accepted its descriptor is the listener's.
                let slot = globals.segment.claim_tcp_connection();
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
        let passed_on_at = passing_on::due(child.ready_since, self.passes_on_from);
        let wake_up = child.stream.connection.poll_wake_up();
        let wake_up = wake_up.into_iter().chain(passed_on_at).min();
        outcome.wake_up = sent.earlier(wake_up, now);
        let is_over = child.stream.connection.state() == State::Closed;
        if is_over && child.ready_since.is_none() {
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

    /// Timers of the connections. Returns what the last of them needs, and whether devices have to
    /// be told.
    pub(super) fn look_after(
        &mut self,
        core: &SocketCore<S>,
        globals: &Globals<S>,
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
            let outcome = self.settle(key, core, globals, now);
            all.events |= outcome.events;
            soon = soon.into_iter().chain(outcome.wake_up).min();
        }
        let children = self.children.values();
        all.wake_up = children
            .filter_map(|child| child.stream.connection.poll_timeout())
            .chain(soon)
            .chain(self.next_passed_on_at())
            .chain(self.refuses_at)
            .min();
        all
    }

    /// The headers of the segment that opens a connection.
    #[cold]
    pub(super) fn keep_syn(&mut self, key: (SocketAddr, SocketAddr), headers: Box<[u8]>) {
        if let Some(child) = self.children.get_mut(&key)
            && child.stream.connection.is_embryonic()
        {
            child.syn.get_or_insert(headers);
        }
    }

    pub(super) fn take_syn(&mut self, key: (SocketAddr, SocketAddr)) -> Option<Box<[u8]>> {
        self.children.get_mut(&key)?.syn.take()
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

    /// Whether nobody waits to be accepted, or is about to.
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Where a connection comes in.
    pub(super) fn interface_of(
        &self,
        key: (SocketAddr, SocketAddr),
    ) -> Option<&'static Interface<S>> {
        self.children.get(&key).map(|child| child.stream.interface)
    }

    /// Resets what nobody will accept, and forgets what is not established. The devices have to be
    /// told.
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

    /// The ends of the connections that are not accepted yet, at this address or, with the
    /// unspecified one, at any.
    fn waiting(&self, address: IpAddr) -> impl Iterator<Item = (SocketAddr, SocketAddr)> + '_ {
        let all = self.children.keys().copied();
        // Of link-local ones the keys have the link.
        all.filter(move |(local, _)| includes(address, local.ip()))
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
    globals: &Globals<S>,
    now: Instant,
    segment: &Segment,
    origin: Origin,
    data: Option<Received>,
) -> Outcome {
    globals.add_unmatched(UnmatchedSegment::new(segment, origin.link_index, data));
    Outcome {
        wake_up: Some(now),
        ..Outcome::default()
    }
}
