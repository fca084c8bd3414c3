//! Sans-IO TCP: segments and time go in, segments and wake-ups come out.
//!
//! Pure computation: no sockets, no clock, no locks, no allocation per segment. Time is an argument
//! ([`Instant`]), and so are the secrets that come from random numbers ([`SecretKey`]). Segments
//! are [`Header`]s and payloads; addresses, ports and checksums are the driver's, for which
//! [`wire::tcp`] parses and builds packets.
//!
//! # Driving a connection
//!
//! The methods of [`Connection`] are of four kinds:
//!
//! * **inputs** from the network and the clock: [`on_segment`](Connection::on_segment),
//!   [`on_timeout`](Connection::on_timeout), [`on_icmp`](Connection::on_icmp),
//!   [`set_path_mtu`](Connection::set_path_mtu);
//! * **commands** of the application: [`write`](Connection::write), [`read`](Connection::read),
//!   [`shutdown`](Connection::shutdown), [`close`](Connection::close),
//!   [`set_option`](Connection::set_option), ...;
//! * **outputs**: [`poll_transmit`](Connection::poll_transmit),
//!   [`poll_event`](Connection::poll_event), [`poll_timeout`](Connection::poll_timeout);
//! * **questions**, which change nothing: [`state`](Connection::state),
//!   [`is_readable`](Connection::is_readable), [`info`](Connection::info), ...
//!
//! After inputs and commands, as many of them as there are at once, the outputs are polled:
//! `poll_transmit` until it gives nothing, which may produce events; `poll_event` until it gives
//! nothing; then `poll_timeout` for when to call `on_timeout`. A driver that has no room for a
//! segment leaves `poll_transmit` for later: a timeout whose segment could not be sent is not
//! backed off further. What `poll_transmit` gave counts as sent; a segment that is dropped behind
//! it is lost and repaired as such.
//!
//! Here the driver is a loop between two connections, over a network that takes a millisecond:
//!
//! ```
//! use std::collections::VecDeque;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use tcp::{
//!     Config, Connection, Ecn, Header, Instant, ListenDisposition, Listener, Options, Path, SecretKey, State,
//!     Transmit,
//! };
//!
//! /// Puts all that a connection has to send on the wire.
//! fn send(connection: &mut Connection<Vec<u8>>, now: Instant, wire: &mut VecDeque<(Header, Ecn, Vec<u8>)>) {
//!     let mut transmit = Transmit::default();
//!     while connection.poll_transmit(now, &mut transmit) {
//!         let payload = connection.payload(&transmit).flatten().copied().collect();
//!         wire.push_back((transmit.header, transmit.ecn, payload));
//!     }
//! }
//!
//! let config = Arc::new(Config::default());
//! let (options, path) = (Options::default(), Path::ipv4(1500));
//! let key = SecretKey::new([0; 16]); // To be random.
//! let (here, there) = ("192.0.2.1:40000".parse().unwrap(), "192.0.2.2:80".parse().unwrap());
//! let mut now = Instant::ZERO;
//!
//! let mut listener = Listener::new(now, config.clone(), 128);
//! let mut server = None;
//! let secrets = key.secrets(here, there, now);
//! let mut client = Connection::connect(now, config.clone(), options.clone(), path, secrets);
//! let (mut to_server, mut to_client) = (VecDeque::new(), VecDeque::new());
//! let mut received = Vec::new();
//!
//! while client.state() != State::TimeWait {
//!     send(&mut client, now, &mut to_server);
//!     now = now + Duration::from_millis(1);
//!     for (header, ecn, payload) in to_server.drain(..) {
//!         let Some(server) = &mut server else {
//!             assert_eq!(listener.on_segment(now, &header), ListenDisposition::Open);
//!             let (options, secrets) = (options.clone(), key.secrets(there, here, now));
//!             server = Some(Connection::accept(now, config.clone(), options, path, secrets, &header, ecn));
//!             continue;
//!         };
//!         let payload = Some(payload).filter(|payload| !payload.is_empty());
//!         server.on_segment(now, &header, ecn, payload);
//!     }
//!     let Some(server) = &mut server else { continue };
//!     while let Some(data) = server.read_payload(now).ok().flatten() {
//!         received.extend(data);
//!     }
//!     if server.state() == State::CloseWait {
//!         server.close(now);
//!     }
//!     send(server, now, &mut to_client);
//!     now = now + Duration::from_millis(1);
//!     for (header, ecn, payload) in to_client.drain(..) {
//!         let payload = Some(payload).filter(|payload| !payload.is_empty());
//!         client.on_segment(now, &header, ecn, payload);
//!     }
//!     while let Some(event) = client.poll_event() {
//!         if event == tcp::Event::Connected {
//!             client.write(now, b"hello").unwrap();
//!             client.close(now);
//!         }
//!     }
//!     for connection in [&mut client, server] {
//!         if connection.poll_timeout().is_some_and(|at| at <= now) {
//!             connection.on_timeout(now);
//!         }
//!     }
//! }
//! assert_eq!(received, b"hello");
//! ```
//!
//! Received data is an owned handle ([`Payload`]) that stays in the connection until it is read.
//! Data to send is copied once, into the connection's send queue, and lent to the driver in slices.
//!
//! # What a driver does beside that
//!
//! * It finds the connection of a segment ([`demux::Demux`]), and answers one that has none with
//!   [`reset_for`].
//! * It opens passively with a [`Listener`], which decides about SYNs and keeps the counts of the
//!   two queues. Connections are made by [`Connection::accept`] and are the driver's from the first
//!   SYN on. While one [is embryonic](Connection::is_embryonic), [`Listener::admits`] is asked
//!   before each of its segments; with [`Event::Connected`] the driver calls
//!   [`Listener::on_established`], with the application's `accept(2)` [`Listener::on_accepted`],
//!   and if it dies before that [`Listener::on_embryonic_closed`].
//! * With [`Event::TimeWait`] it may replace a connection by its [residue](Connection::residue) in
//!   a [`TimeWaitTable`](time_wait::TimeWaitTable), which is asked before a listener.
//! * With [`Event::Closed`] it forgets the connection, once the application has let go of it.
//! * When frames or memory run short it lets connections give some back ([`Connection::relieve`]);
//!   those that rest for long can [shrink](Connection::shrink).
//! * It keeps a timer for each connection, for instance in a
//!   [`TimerWheel`](timer_wheel::TimerWheel), and the [`FastOpenCache`] and [`FastOpenKeys`] of the
//!   stack, if data is to go with SYNs.
//!
//! With very many connections the cost of a segment is that of the memory that it touches. A driver
//! then arms its timers by [`poll_wake_up`](Connection::poll_wake_up), which seldom has anything to
//! say, and lets [`demux::in_turn`] process what arrived, which has memory fetched for later
//! segments while it works on the first.
//!
//! # Fast Open
//!
//! RFC 7413: data in the SYN. A client asks its [`FastOpenCache`] how to begin and tells the
//! connection ([`Connection::attempt_fast_open`]); what the connection learns goes back into the
//! cache. A server asks [`Listener::fast_open`] what to reply to a SYN, and tells the connection
//! ([`Connection::open_fast`]), which then is connected before its handshake is over.
//!
//! # Differences from the RFCs
//!
//! Where Linux differs from the text, programs and peers are used to Linux. `requirements/rfc*.txt`
//! lists what the RFCs ask for, with the deviations and their reasons; `docs/tcp-requirements.md`
//! is made from that. What concerns one algorithm only is explained in [`recovery`], [`congestion`]
//! and [`rtt`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
#![warn(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod address;
mod cache_lines;
mod challenge;
mod config;
pub mod congestion;
mod connection;
pub mod demux;
mod event;
mod fast_open;
mod info;
mod links;
mod listener;
mod mss;
mod options;
mod outgoing;
pub mod pacing;
mod path;
mod payload;
mod receive;
pub mod recovery;
pub mod rtt;
mod secret;
mod send;
mod seq;
mod state;
pub mod syn_cookie;
pub mod syn_rate;
mod time;
pub mod time_wait;
pub mod timer_wheel;
mod timers;
mod timestamp;
mod transmit;

pub use config::{Config, EcnMode, MtuProbing, SynCookies};
pub use connection::close::Shutdown;
pub use connection::layout::Direction;
pub use connection::repair::{InvalidSnapshot, Remains, RepairTimestamps, RepairWindow, Snapshot};
pub use connection::{Connection, SequenceNumbers, reset_for};
pub use event::{Error, Event, ReadError, UrgentError, WriteError};
pub use fast_open::{
    FastOpen, FastOpenAttempt, FastOpenCache, FastOpenEnd, FastOpenKeys, FastOpenLesson,
    FastOpenModes, FastOpenReply,
};
pub use info::{CaState, FastOpenFailure, Info, WindowScales};
pub use listener::cookie::{CookieError, SecretFlow};
pub use listener::{ListenDisposition, Listener};
pub use options::{CongestionAlgorithm, OptionError, Options, SocketOption};
pub use path::{IcmpError, Path, Secrets};
pub use payload::Payload;
pub use receive::urgent::UrgentOctet;
pub use secret::SecretKey;
pub use send::queue::CHUNK_MAX;
pub use seq::SeqNumber;
pub use state::State;
pub use time::Instant;
pub use transmit::{Ecn, Transmit};
pub use wire::tcp::{Flags, Header};
