//! Sans-IO TCP: segments and time go in, segments and wake-ups come out.
//!
//! Pure computation: no sockets, no clock, no locks, no allocation per segment. Time is an argument ([`Instant`]), so
//! is every random number's seed.
//!
//! # Driving a connection
//!
//! The methods of [`Connection`] are of four kinds:
//!
//! * **inputs** from the network and the clock: [`on_segment`](Connection::on_segment),
//!   [`on_timeout`](Connection::on_timeout), [`on_icmp`](Connection::on_icmp);
//! * **commands** of the application: [`write`](Connection::write), [`read`](Connection::read),
//!   [`shutdown`](Connection::shutdown), [`close`](Connection::close), [`set_option`](Connection::set_option), ...;
//! * **outputs**: [`poll_transmit`](Connection::poll_transmit), [`poll_event`](Connection::poll_event),
//!   [`poll_timeout`](Connection::poll_timeout);
//! * **questions**, which change nothing: [`state`](Connection::state), [`is_readable`](Connection::is_readable),
//!   [`info`](Connection::info), ...
//!
//! After inputs and commands, as many of them as there are at once, the outputs are polled: `poll_transmit` until it
//! gives nothing, which may produce events; `poll_event` until it gives nothing; then `poll_timeout` for when to call
//! `on_timeout`. A driver that has no room for a segment leaves `poll_transmit` for later. What `poll_transmit` gave
//! counts as sent; a segment that is dropped behind it is lost and repaired as such.
//!
//! ```no_run
//! # use tcp::{Connection, Instant, Transmit};
//! # fn send(transmit: &Transmit, payload: [&[u8]; 2]) {}
//! # fn drive(connection: &mut Connection<Vec<u8>>, now: Instant, transmit: &mut Transmit) -> Option<Instant> {
//! while connection.poll_transmit(now, transmit) {
//!     send(transmit, connection.payload(transmit));
//! }
//! while let Some(event) = connection.poll_event() {
//!     // wake whoever waits for it
//! }
//! connection.poll_timeout()
//! # }
//! ```
//!
//! With very many connections the cost of a segment is that of the memory that it touches. A driver then keeps a
//! [`TimerWheel`](timer_wheel::TimerWheel) and arms it by [`poll_wake_up`](Connection::poll_wake_up), which seldom has anything
//! to say, and lets [`demux::in_turn`] process what arrived, which has memory fetched for later segments while it works on
//! the first.
//!
//! Received data is an owned handle ([`Payload`]) that stays in the connection until it is read. Data to send is copied
//! once, into the connection's send queue, and lent to the driver as slices.
//!
//! # Passive open
//!
//! [`Listener`] decides which SYNs open a connection and keeps the counts of the two queues. The connections are made by
//! [`Connection::accept`] and are the owner's from the first SYN on.
//!
//! # Fast Open
//!
//! RFC 7413: data in the SYN. A client asks its [`FastOpenCache`] how to begin and tells the connection
//! ([`Connection::attempt_fast_open`]); what the connection learns goes back into the cache. A server asks
//! [`Listener::fast_open`] what to reply to a SYN, and tells the connection ([`Connection::open_fast`]), which then is
//! connected before its handshake is over.
//!
//! The headers are those of [`wire::tcp`]; ports and addresses are the driver's.
//!
//! # Differences from the RFCs
//!
//! Where Linux differs from the text, programs and peers are used to Linux. `requirements/rfc*.txt` lists what the RFCs ask
//! for, with the deviations and their reasons; `docs/tcp-requirements.md` is made from that. What concerns one algorithm
//! only is explained in [`recovery`], [`congestion`] and [`rtt`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
#![warn(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod address;
mod challenge;
mod config;
pub mod congestion;
mod connection;
pub mod demux;
mod event;
mod fast_open;
mod info;
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
pub use connection::{
    Connection, Direction, FastOpenEnd, InvalidSnapshot, RepairTimestamps, RepairWindow,
    SequenceNumbers, Shutdown, Snapshot, reset_for,
};
pub use event::{Error, Event, ReadError, UrgentError, WriteError};
pub use fast_open::{
    FastOpen, FastOpenAttempt, FastOpenCache, FastOpenKeys, FastOpenLesson, FastOpenModes,
};
pub use info::{CaState, FastOpenFailure, Info, WindowScales};
pub use listener::{CookieError, FastOpenReply, ListenDisposition, Listener, SecretFlow};
pub use options::{CongestionAlgorithm, OptionError, Options, SocketOption};
pub use path::{IcmpError, Path, Secrets};
pub use payload::Payload;
pub use secret::SecretKey;
pub use seq::SeqNumber;
pub use state::State;
pub use time::Instant;
pub use transmit::{Ecn, Transmit};
pub use wire::tcp::{Flags, Header};
