//! One connection. Its parts are the clauses of RFC 9293 §3.10, each in a module of its own.

use core::time::Duration;
use std::sync::Arc;

use wire::tcp::Header;

use crate::challenge::LastChallenge;
use crate::event::Events;
use crate::outgoing::Outgoing;
use crate::receive::Receiver;
use crate::receive::ack_policy::AckPolicy;
use crate::receive::window::ReceiveWindow;
use crate::recovery::{Recovery, Settings};
use crate::rtt::RttEstimator;
use crate::send::Sender;
use crate::time::Nanos;
use crate::timers::{Timer, Timers, Times};
use crate::{
    Config, Ecn, Error, Event, Instant, Options, Path, Payload, Secrets, SeqNumber, State,
};

mod acknowledge;
mod application;
pub(crate) mod close;
mod counters;
mod ecn;
mod ecn_state;
mod fast_open;
mod fast_open_state;
mod handshake;
mod header_options;
mod held;
mod icmp;
mod incoming;
mod info;
mod invariants;
pub(crate) mod layout;
mod measure;
mod options;
mod pacing_start;
mod path_mtu;
mod pressure;
pub(crate) mod repair;
mod reset;
mod reset_segment;
mod segment;
mod text;
mod time_wait;
mod timeout;
mod timestamp_state;
mod timestamps;
mod transmit;

use counters::{Counters, ReceivedOctets, SentCounters};
use ecn_state::EcnState;
use fast_open_state::FastOpenState;
use reset_segment::Reset;
use segment::Incoming;
use timestamp_state::TimestampState;

pub use reset_segment::reset_for;

/// A connection from its first SYN to CLOSED. How to drive one is in the [crate's
/// documentation](crate).
///
/// The order of the fields is that of `connection/layout.rs`: with a million connections a received
/// segment costs the cache lines that it touches.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Connection<P> {
    cold: Box<Cold>,
    sender: Sender,
    config: Arc<Config>,
    /// When the last acceptable acknowledgement came (`rcv_tstamp`).
    last_ack_at: Instant,
    receiver: Receiver<P>,
    timers: Timers,
    timestamps: TimestampState,
    counters: Counters,
    pending: Pending,
    /// Keepalive and window probes that were not answered.
    unanswered_probes: u8,
    state: State,
    ecn: EcnState,
    events: Events,
    error: Option<Error>,
    /// The application is gone; nobody reads or writes.
    is_orphan: bool,
    /// `shutdown(SHUT_RD)`.
    is_read_shut: bool,
}

/// What no received data touches that comes in order. It is elsewhere, so that the rest of a
/// million connections is on fewer pages.
#[derive(Debug)]
struct Cold {
    /// Losses, the congestion window, round-trip times.
    recovery: Recovery,
    options: Options,
    path: Path,
    handshake: Handshake,
    /// Doublings of the interval between window probes.
    probe_backoff: u8,
    /// An ICMP error that did not end the connection (`sk_err_soft`); the reason if it times out.
    soft_error: Option<Error>,
    last_challenge: LastChallenge,
    /// When the oldest unacknowledged segment was first retransmitted (`retrans_stamp`); during the
    /// handshake, when the first SYN was sent, if that is known.
    retransmitting_since: Option<Instant>,
    sent: SentCounters,
    received: ReceivedOctets,
    /// Segments that came out of order.
    out_of_order_segments: u32,
    /// When timers expire, but for [`Timer::DelayedAck`].
    times: Times,
    /// If one is [`Pending`].
    reset: Reset,
    /// What only senders need: there once something was written, or a pacing rate set.
    outgoing: Option<Box<Outgoing>>,
    /// RFC 7413
    fast_open: Option<Box<FastOpenState>>,
}

/// Where a connection is in both directions (RFC 9293 §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceNumbers {
    pub snd_una: SeqNumber,
    pub snd_nxt: SeqNumber,
    pub rcv_nxt: SeqNumber,
}

/// An idle connection takes at most a KiB, with handles of up to 16 octets for payloads and with
/// what the allocator adds. A million of them shall fit into a gigabyte and a half with all that
/// finds them and wakes them (`benches/many_connections.rs`).
const _: () = assert!(size_of::<Connection<Box<[u8]>>>() + size_of::<Cold>() + 16 <= 1024);

/// Segments to send that are not data.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// SYN or SYN-ACK, by the state.
    syn: bool,
    /// [`Cold::reset`]
    reset: bool,
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Makes the peer acknowledge: RFC 9293 §3.8.4.
    KeepAlive,
    /// RFC 9293 §3.8.6.1: as much data as the window allows, or none.
    Window,
    /// The segment of it that makes the peer acknowledge, after one that announced urgent data
    /// (`tcp_write_wakeup`).
    Announced,
}

/// What is known from the SYNs.
#[derive(Clone, Copy, Debug, Default)]
struct Handshake {
    iss: SeqNumber,
    /// The peer's initial sequence number.
    irs: SeqNumber,
    is_passive: bool,
    retransmits: u8,
    /// The MSS that the peer announced, or less (`TCP_MAXSEG`).
    peer_mss: u16,
    has_sack: bool,
    has_window_scaling: bool,
    /// `TCP_DEFER_ACCEPT`: until so many SYN-ACKs were sent, an ACK without data does not establish
    /// the connection.
    deferral: u8,
    /// Opened by the SYN's cookie (RFC 7413): data flows, although the SYN is not acknowledged.
    is_fast_open: bool,
}

impl<P: Payload> Connection<P> {
    /// Active open: the SYN is what `poll_transmit` gives first.
    pub fn connect(
        now: Instant,
        config: Arc<Config>,
        options: Options,
        path: Path,
        secrets: Secrets,
    ) -> Self {
        let mut connection = Self::closed(now, config, options, path, secrets);
        connection.state = State::SynSent;
        connection.pending.syn = true;
        if connection.cold.options.is_interactive {
            // `TCP_QUICKACK` was switched off before connect(2). What a listener has is not
            // inherited (as Linux).
            let config = &connection.config;
            connection.receiver.acks.set_quick(false, config);
        }
        connection
    }

    /// Passive open by the received SYN: the SYN-ACK is what `poll_transmit` gives first.
    /// Everything else that arrives on the flow is for the connection, after
    /// [`Listener::admits`](crate::Listener::admits) while [`is_embryonic`](Self::is_embryonic).
    pub fn accept(
        now: Instant,
        config: Arc<Config>,
        options: Options,
        path: Path,
        secrets: Secrets,
        syn: &Header,
        ecn: Ecn,
    ) -> Self {
        let mut connection = Self::closed(now, config, options, path, secrets);
        connection.cold.handshake.is_passive = true;
        connection.state = State::SynReceived;
        connection.take_syn(now, syn);
        // What the peer's segments will hold is known before a window is offered.
        let mss = connection.received_mss();
        connection.receiver.window.open(mss);
        connection.agree_to_ecn(syn, ecn);
        connection.pending.syn = true;
        connection
    }

    /// Passive open by the ACK that brings a cookie back: as if `syn` had been received and its
    /// answer with `iss` sent.
    pub(crate) fn resume(
        now: Instant,
        config: Arc<Config>,
        options: Options,
        path: Path,
        secrets: Secrets,
        syn: &Header,
    ) -> Self {
        let mut connection = Self::accept(now, config, options, path, secrets, syn, Ecn::NotEct);
        connection.pending.syn = false;
        connection.sender.snd_nxt = secrets.iss + 1;
        connection.set_timer(Timer::Retransmit, now + connection.rto());
        connection
    }

    /// `tcp_abort_on_overflow`: nobody has room for the connection that this ACK would establish.
    pub(crate) fn abort_embryo(&mut self, header: &Header) {
        self.refuse(&Incoming::new(header, 0, Ecn::NotEct));
        self.enter_closed();
    }

    /// `TCP_DEFER_ACCEPT`: whether to drop an ACK without data, because fewer than `deferral`
    /// SYN-ACKs were sent.
    pub(crate) fn defers_accept(&mut self, deferral: u8) -> bool {
        self.cold.handshake.deferral = deferral;
        self.cold.handshake.retransmits < deferral
    }

    fn closed(
        now: Instant,
        config: Arc<Config>,
        options: Options,
        path: Path,
        secrets: Secrets,
    ) -> Self {
        let options = options.with_defaults(&config);
        let mss = advertised_mss(&path, &options);
        let window = ReceiveWindow::new(&options, mss, &config);
        let recovery = Recovery::new(
            settings(&config, &options, u32::from(mss), false),
            RttEstimator::new(config.rto_min, config.rto_max),
            secrets.iss + 1,
        );
        Self {
            state: State::Closed,
            receiver: Receiver::new(window, AckPolicy::new(&config), options.receive_low_water),
            sender: Sender::new(secrets.iss),
            timestamps: TimestampState::new(secrets.timestamp_offset),
            ecn: EcnState::default(),
            timers: Timers::default(),
            pending: Pending::default(),
            last_ack_at: now,
            unanswered_probes: 0,
            counters: Counters::default(),
            events: Events::default(),
            error: None,
            is_orphan: false,
            is_read_shut: false,
            cold: Box::new(Cold {
                recovery,
                options,
                path,
                handshake: Handshake {
                    iss: secrets.iss,
                    ..Handshake::default()
                },
                probe_backoff: 0,
                soft_error: None,
                last_challenge: LastChallenge::default(),
                retransmitting_since: None,
                sent: SentCounters::default(),
                received: ReceivedOctets::default(),
                out_of_order_segments: 0,
                times: Times::default(),
                reset: Reset::default(),
                outgoing: None,
                fast_open: None,
            }),
            config,
        }
    }

    /// The next event. Call until `None`.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        // Room comes from acknowledgements and, as far as `TCP_NOTSENT_LOWAT` is concerned, from
        // sending.
        if self.sender.is_blocked && self.is_writable() {
            self.sender.is_blocked = false;
            self.events.raise(Event::Writable);
        }
        self.events.next()
    }

    /// When to call [`on_timeout`](Self::on_timeout), unless something else changes it before.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next(&self.cold.times)
    }

    /// As [`poll_timeout`](Self::poll_timeout), for an owner with one timer for each connection:
    /// gives a time only if the timer must expire earlier than it was last told. A deadline that
    /// moves back leaves the timer where it is; it then expires too early,
    /// [`on_timeout`](Self::on_timeout) does nothing, and the owner asks again. So most segments do
    /// not touch the timer's memory.
    #[inline]
    pub fn poll_wake_up(&mut self) -> Option<Instant> {
        self.timers.take_wake_up(&self.cold.times)
    }

    #[inline]
    fn set_timer(&mut self, timer: Timer, at: Instant) {
        self.timers.set(timer, at, &mut self.cold.times);
    }

    /// Whether the timer has expired; if so it is stopped.
    fn take_expired(&mut self, timer: Timer, now: Instant) -> bool {
        self.timers.take_expired(timer, now, &self.cold.times)
    }

    /// Copies the deadline of recovery and its RTO to where the rest of the connection reads them.
    /// To be called after whatever may have changed them.
    #[inline]
    fn follow_recovery(&mut self) {
        self.follow_deadline();
        self.receiver.acks.rto = self.cold.recovery.rtt.rto_nanos().into();
    }

    /// The same after sending, which does not change the RTO.
    #[inline]
    fn follow_deadline(&mut self) {
        match self.cold.recovery.deadline() {
            Some(at) => self.set_timer(Timer::Recovery, at),
            None => self.timers.stop(Timer::Recovery),
        }
    }

    /// The connection's state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// Passive and before its handshake's last ACK: not in the accept queue yet. One that was
    /// opened fast is.
    pub fn is_embryonic(&self) -> bool {
        self.cold.handshake.is_passive
            && self.state == State::SynReceived
            && !self.cold.handshake.is_fast_open
    }

    /// The sequence numbers, for another process that resets the peer if this one dies.
    pub fn numbers(&self) -> SequenceNumbers {
        SequenceNumbers {
            snd_una: self.sender.snd_una,
            snd_nxt: self.sender.snd_nxt,
            rcv_nxt: self.receiver.rcv_nxt,
        }
    }

    /// Gives back memory that is only kept for speed; for connections that are idle.
    pub fn shrink(&mut self) {
        self.sender.queue.shrink();
        self.receiver.shrink();
        self.cold.recovery.shrink();
    }

    #[inline]
    fn outgoing(&mut self) -> &mut Outgoing {
        self.cold.outgoing.get_or_insert_default()
    }

    #[inline]
    fn rto(&self) -> Duration {
        self.cold.recovery.rtt.rto()
    }

    #[inline]
    fn rto_nanos(&self) -> Nanos {
        self.cold.recovery.rtt.rto_nanos()
    }

    /// Forgets what is outstanding: nothing will be retransmitted.
    fn forget_outstanding(&mut self) {
        let settings = settings(
            &self.config,
            &self.cold.options,
            u32::from(self.mss()),
            self.cold.handshake.has_sack,
        );
        self.cold.recovery = Recovery::new(
            settings,
            self.cold.recovery.rtt.clone(),
            self.sender.snd_nxt,
        );
        self.follow_recovery();
    }
}

/// What recovery needs to know of `mss` and the rest.
fn settings(config: &Config, options: &Options, mss: u32, has_sack: bool) -> Settings {
    Settings {
        algorithm: options.congestion,
        mss,
        initial_window_segments: config.initial_window_segments,
        sack: has_sack,
        tail_loss_probe: config.tail_loss_probe,
        slow_start_after_idle: config.slow_start_after_idle,
        dup_threshold: config.reordering,
    }
}

/// RFC 9293 §3.7.1: what to announce.
fn advertised_mss(path: &Path, options: &Options) -> u16 {
    match options.max_segment {
        0 => path.mss(),
        user => user.min(path.mss()),
    }
}

#[cfg(test)]
mod tests;
