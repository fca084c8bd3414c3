//! A connection with its way to the peer, and what others see of its state.

mod shown;

use std::net::SocketAddr;
use std::time::Duration;

use links::interface::Interface;
use links::interface::gso::{GSO_MAX, segments};
use links::rings::{Migration, RingUser};

use ::tcp::{Connection, Event, Instant, State, Transmit};
use dev_core::Segmented;
use stats::{SocketStats, TcpSlot};
use wire::tcp::Template;

use crate::sockets::events;
use crate::sockets::payload::Received;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sockets::unseen::Gate;
use crate::tcp::arrivals::Arrivals;
use crate::tcp::egress::{Egress, Headers};
use crate::tcp::state::counted::Counted;
use crate::tcp::state::orphan::Orphan;
use crate::tcp::state::time_wait::Wait;
use shown::WRITABLE;

/// A connection of a socket. Under the socket's lock.
pub(super) struct Stream<S: Stack> {
    pub(super) connection: Connection<Received>,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Index of the interface that the kernel's socket is bound to, or 0.
    pub(super) device: u32,
    /// Where its segments come in.
    pub(super) interface: &'static Interface<S>,
    /// `None`: not known at present.
    pub(super) egress: Option<Egress<S>>,
    pub(super) headers: Headers,
    /// Whose ring it sends by.
    pub(super) user: RingUser,
    /// When it is moved to another.
    pub(super) migration: Migration,
    identification: u16,
    transmit: Transmit,
    /// The device had no room for what `transmit` says: that goes first.
    is_held: bool,
    /// It is in its interface's batch.
    pub(super) is_in_batch: bool,
    /// It is in the list of those that have ended.
    is_listed: bool,
    /// How often its TIME-WAIT has waited for others.
    waits: u8,
    /// The application has not been told of the end of the handshake by `connect(2)`
    /// (`SS_CONNECTING`).
    pub(super) is_connecting: bool,
    /// `connect(2)` was called again meanwhile.
    pub(super) is_asked_again: bool,
    pub(super) is_read_shut: bool,
    /// What was received is about to be taken by a call that has looked at it (`splice(2)`): others
    /// find nothing.
    pub(super) is_lent: bool,
    /// Whether a function of the program's is to see first what has come.
    pub(super) gate: Gate,
    pub(super) is_write_shut: bool,
    /// The application has let go.
    pub(super) orphan: Option<Orphan>,
    /// Where its TIME-WAIT is.
    pub(super) wait: Wait,
    /// When its octets came, once the program has asked.
    pub(super) arrivals: Option<Box<Arrivals>>,
    /// Who has accepted it, and that one's generation.
    pub(super) listener: Option<(S, u32)>,
    slot: Option<TcpSlot>,
    _counted: Counted,
}

/// What came of putting segments into the sending ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// The device has to be told.
    pub(super) needs_kick: bool,
    /// There was no room in the ring, or no frame: there may be more to send.
    pub(super) is_full: bool,
}

/// How soon it is looked again whether a ring that was full has room. An ACK may come earlier, but
/// need not: what has no room is not on its way, so nothing of it may ever be acknowledged.
const ROOM_INTERVAL: Duration = Duration::from_millis(1);

/// How long a connection that goes on to TIME-WAIT waits for others, so that the internal thread
/// wakes once for many.
const TIME_WAIT_DELAY: Duration = Duration::from_millis(4);

/// How often a connection that goes on to TIME-WAIT waits for others, a millisecond each.
const WAITS_MAX: u8 = 8;

/// After what time the internal thread ends what is over and nobody has, if no call has done so
/// that makes a socket.
const END_DELAY: Duration = Duration::from_millis(10);

impl Sent {
    /// When somebody has to look after the connection, which asks for `wake_up`.
    #[inline]
    pub(super) fn earlier(self, wake_up: Option<Instant>, now: Instant) -> Option<Instant> {
        if !self.is_full {
            return wake_up;
        }
        let soon = now + ROOM_INTERVAL;
        Some(wake_up.map_or(soon, |at| at.min(soon)))
    }
}

/// What has to be done after a connection was changed, without its lock.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "the device and those who wait have to be told"]
pub(super) struct Outcome {
    /// The device has to be told of segments.
    pub(super) needs_kick: bool,
    /// Events that have come.
    pub(super) events: u32,
    /// When somebody has to look after the connection.
    pub(super) wake_up: Option<Instant>,
    /// It is not known how segments reach the peer.
    pub(super) needs_egress: bool,
    /// The connection is over, and nobody has it.
    pub(super) has_ended: bool,
    /// Something has come that the program is to see first.
    pub(super) is_unseen: bool,
}

impl<S: Stack> Stream<S> {
    pub(super) fn new(
        connection: Connection<Received>,
        (local, peer): (SocketAddr, SocketAddr),
        interface: &'static Interface<S>,
        egress: Option<Egress<S>>,
        headers: Headers,
        user: RingUser,
        counted: Counted,
    ) -> Self {
        Self {
            connection,
            local,
            peer,
            device: 0,
            interface,
            egress,
            headers,
            user,
            migration: Migration::new(user.policy),
            identification: 0,
            transmit: Transmit::default(),
            is_held: false,
            is_in_batch: false,
            is_listed: false,
            waits: 0,
            is_connecting: false,
            is_asked_again: false,
            is_read_shut: false,
            is_lent: false,
            gate: Gate::Open,
            is_write_shut: false,
            orphan: None,
            wait: Wait::Open,
            arrivals: None,
            listener: None,
            slot: None,
            _counted: counted,
        }
    }

    /// The connection sends by the rings of this user from here on. What it has put into another is
    /// told of.
    pub(super) fn belongs_to(&mut self, user: RingUser) {
        if self.user.policy != user.policy {
            self.migration = Migration::new(user.policy);
        }
        self.user = user;
        if let Some(egress) = &mut self.egress {
            egress.sender = egress.sender.interface.lease(user, self.local.ip());
        }
    }

    /// [`Migration::count_call`] has said that it is to be looked who sends. Whether the connection
    /// is the calling thread's from here on, and sends by another ring.
    #[cold]
    pub(super) fn moves_to_caller(&mut self) -> bool {
        let present = RingUser::present(self.user.policy, self.user.socket);
        let moves = self.migration.moves(self.user, present);
        if moves {
            self.belongs_to(present);
        }
        moves
    }

    /// Shows the connection to readers of the statistics.
    pub(super) fn show(&mut self, slot: TcpSlot, fd: i32, inode: u64) {
        slot.fd.set(fd);
        slot.inode.set(inode);
        slot.local.set(self.local);
        slot.peer.set(self.peer);
        self.slot = Some(slot);
        self.publish();
    }

    /// A connection that was shown before it was accepted has a descriptor of its own.
    pub(super) fn show_accepted(&self, fd: i32, inode: u64) {
        if let Some(slot) = &self.slot {
            slot.fd.set(fd);
            slot.inode.set(inode);
        }
    }

    /// Shows the next sequence numbers and the state, which vmad needs of a process that was
    /// killed. With every segment, and cheap.
    #[inline]
    pub(super) fn publish(&self) {
        let Some(slot) = &self.slot else {
            return;
        };
        let numbers = self.connection.numbers();
        slot.snd_nxt.set(numbers.snd_nxt.0);
        slot.rcv_nxt.set(numbers.rcv_nxt.0);
        slot.state
            .set(self.connection.state().linux_number().into());
    }

    /// Sends what there is to send, and finds out what has changed for others. After whatever has
    /// been done to the connection. No lock of a ring is held.
    #[inline]
    pub(super) fn settle(&mut self, core: &SocketCore<S>, now: Instant) -> Outcome {
        if self.has_whole_to_send() {
            self.transmit_whole(core.counters(), now);
        }
        self.settle_in_batch(core, now)
    }

    /// The same under the lock of the ring that the stream has received from, unless it [sends
    /// later](Self::sends_after_batch).
    #[inline]
    pub(super) fn settle_in_batch(&mut self, core: &SocketCore<S>, now: Instant) -> Outcome {
        let sent = self.transmit(core.counters(), now);
        self.review(core, sent, now)
    }

    /// Finds out what has changed for others.
    #[inline]
    pub(super) fn review(&mut self, core: &SocketCore<S>, sent: Sent, now: Instant) -> Outcome {
        self.publish();
        let mut events = 0;
        while let Some(event) = self.connection.poll_event() {
            events |= match event {
                Event::Connected | Event::Writable => WRITABLE,
                Event::Readable => events::IN,
                Event::Urgent => events::PRI,
                // The kernel wakes everybody (`tcp_fin`).
                Event::PeerClosed | Event::Failed | Event::Closed | Event::TimeWait => events::ALL,
                Event::FinWait2 => 0,
            };
        }
        let is_unseen =
            (core.unseen.is_shown() || self.gate != Gate::Open) && self.follow_gate(core);
        self.show_readiness(core);
        let is_over = self.is_over();
        let wake_up = if !is_over {
            let wake_up = sent.earlier(self.connection.poll_wake_up(), now);
            let leaves_at = self.orphan.as_ref().map(Orphan::leaves_at);
            wake_up.into_iter().chain(leaves_at).min()
        } else if self.owes_time_wait() {
            Some(now + TIME_WAIT_DELAY)
        } else {
            // Whoever looks after the socket lets go of it.
            self.orphan.is_some().then_some(now + END_DELAY)
        };
        let has_ended = is_over && self.orphan.is_some() && !self.is_listed;
        self.is_listed |= has_ended;
        Outcome {
            needs_kick: sent.needs_kick,
            events,
            wake_up,
            needs_egress: !self.egress.as_ref().is_some_and(Egress::is_current),
            has_ended,
            is_unseen,
        }
    }

    /// Whether more than a segment is to be sent on a way that can have it whole.
    #[inline]
    fn has_whole_to_send(&self) -> bool {
        (self.is_held || self.connection.has_piece_to_send())
            && self
                .egress
                .as_ref()
                .is_some_and(|egress| egress.sender.interface.sends_whole())
    }

    /// Whether what is to be sent leaves when all that has come is taken.
    #[inline]
    pub(super) fn sends_after_batch(&self) -> bool {
        self.connection.has_plain_ack_to_send() || self.has_whole_to_send()
    }

    /// Sends all that there is to send as packets that the device cuts. A system call each, which
    /// on veth takes them to the peer.
    fn transmit_whole(&mut self, counters: &SocketStats, now: Instant) {
        if self.wait == Wait::Kernels {
            return;
        }
        let Some(egress) = &self.egress else {
            return;
        };
        egress.sender.interface.send_replies_first();
        let (connection, transmit) = (&mut self.connection, &mut self.transmit);
        connection.set_max_offload_len(GSO_MAX);
        let mut headers = [0; Template::MAX_HEADERS_LEN];
        while self.is_held || connection.poll_transmit(now, transmit) {
            self.is_held = false;
            let (len, segment_len) = (transmit.payload_len, transmit.segment_len);
            let packets = segments(len, segment_len);
            let written = egress.template.emit_headers(
                &mut headers,
                self.identification.wrapping_add(1),
                transmit.ecn as u8,
                &transmit.header,
                len,
            );
            let Some(headers) = written.and_then(|written| headers.get(..written)) else {
                break;
            };
            let payload = connection.payload(transmit);
            // What was held may have been acknowledged meanwhile, by a peer that guesses.
            if payload.clone().map(<[u8]>::len).sum::<usize>() != len as usize {
                continue;
            }
            match egress.sender.send_whole(headers, payload, len, segment_len) {
                Segmented::Sent => {
                    self.identification = self.identification.wrapping_add(packets as u16);
                    counters.tx_packets.add(packets);
                }
                Segmented::Full => {
                    self.is_held = true;
                    break;
                }
                Segmented::Refused(_) => break,
            }
        }
        connection.set_max_offload_len(0);
    }

    /// Puts segments into the sending ring.
    #[inline]
    pub(super) fn transmit(&mut self, counters: &SocketStats, now: Instant) -> Sent {
        if self.wait == Wait::Kernels {
            return Sent::default();
        }
        let Some(egress) = &self.egress else {
            return Sent::default();
        };
        if self.is_held {
            if egress.sender.interface.sends_whole() {
                return Sent {
                    needs_kick: false,
                    is_full: true,
                };
            }
            // It is lost, as what goes another way may be.
            self.is_held = false;
        }
        let (connection, transmit) = (&mut self.connection, &mut self.transmit);
        let identification = &mut self.identification;
        let burst = egress.sender.put_segments(|frame| {
            if !connection.poll_transmit(now, transmit) {
                return None;
            }
            *identification = identification.wrapping_add(1);
            let ecn = transmit.ecn as u8;
            let payload = connection.payload(transmit);
            egress
                .template
                .emit(frame, *identification, ecn, &transmit.header, payload)
        });
        if burst.count > 0 {
            counters.tx_packets.add(burst.count as u64);
        }
        Sent {
            needs_kick: burst.needs_kick,
            is_full: burst.is_full,
        }
    }

    /// Whether its TIME-WAIT can wait for others once more.
    pub(super) fn wait_once_more(&mut self) -> bool {
        self.waits = self.waits.saturating_add(1);
        self.waits < WAITS_MAX
    }

    /// The connection is over: nothing will be sent or received.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.connection.state(), State::Closed | State::TimeWait)
    }
}
