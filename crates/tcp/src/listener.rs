//! A listening socket: which SYNs to answer and how many connections may wait.

use std::sync::Arc;

use wire::tcp::{Flags, Header};

use crate::syn_rate::SynRate;
use crate::{Config, Connection, Instant, Payload, SynCookies};

pub(crate) mod cookie;
mod fast_open;

use fast_open::FastOpenQueue;

/// The queues of a listening socket, as counts; the connections themselves are the owner's.
///
/// Half-open connections are ordinary [`Connection`]s in SYN-RECEIVED, which are found by their
/// flow like all others. They count until they are established (and wait for `accept`) or die.
///
/// # Locks
///
/// Only [`admits`](Self::admits) needs a listener and a connection at the same time. A driver with
/// a lock for each takes the listener's first, everywhere: so it does anyway where a listener is
/// closed and its embryos with it. What `admits` says of the accept queue holds for as long as the
/// listener's lock is kept: until the connection has had the segment and, if that has established
/// it, [`on_established`](Self::on_established) was called. Otherwise two connections may take the
/// last place, which lets one more wait than the backlog allows and does no other harm. The
/// listener of an embryo has to be known without the connection's lock, for instance from where its
/// flow is looked up.
#[derive(Debug)]
pub struct Listener {
    config: Arc<Config>,
    backlog: u32,
    half_open_count: u32,
    accept_count: u32,
    overflow_count: u64,
    syn_rate: SynRate,
    /// `TCP_DEFER_ACCEPT`, as a number of SYN-ACKs.
    deferral: u8,
    last_cookie_at: Option<Instant>,
    fast_open: FastOpenQueue,
}

/// What to do with a segment for a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenDisposition {
    /// Make a connection with [`Connection::accept`].
    Open,
    /// Answer with a cookie ([`Listener::answer_with_cookie`]) and keep nothing.
    Cookie,
    /// Answer with a reset ([`reset_for`](crate::reset_for)), unless the segment brings a cookie
    /// back ([`Listener::accept_cookie`]).
    Reset,
    Ignore,
}

impl Listener {
    /// `backlog` is `listen(2)`'s, limited by `somaxconn`.
    pub fn new(now: Instant, config: Arc<Config>, backlog: u32) -> Self {
        Self {
            syn_rate: SynRate::new(config.syn_rate_max, now),
            fast_open: FastOpenQueue::new(config.fast_open, backlog),
            config,
            backlog,
            half_open_count: 0,
            accept_count: 0,
            overflow_count: 0,
            deferral: 0,
            last_cookie_at: None,
        }
    }

    /// `listen(2)` again.
    pub fn set_backlog(&mut self, backlog: u32) {
        self.backlog = backlog;
        self.fast_open.on_listen(self.config.fast_open, backlog);
    }

    /// `TCP_DEFER_ACCEPT`: a connection counts as established when data comes, or after so many
    /// seconds; 0 for at once.
    pub fn set_defer_accept(&mut self, secs: u32) {
        self.deferral = syn_acks_within(secs);
    }

    /// RFC 9293 §3.10.7.2, LISTEN state. After [`ListenDisposition::Open`] the connection is
    /// counted as half-open.
    pub fn on_segment(&mut self, now: Instant, header: &Header) -> ListenDisposition {
        // "First, check for a RST": ignored. "Second, check for an ACK": reset. "Third, check for a
        // SYN". "Fourth, other data or control": dropped.
        if header.flags.contains(Flags::RST) {
            return ListenDisposition::Ignore;
        }
        if header.flags.contains(Flags::ACK) {
            return ListenDisposition::Reset;
        }
        // Linux drops SYN with FIN, which no stack sends.
        if !header.flags.contains(Flags::SYN) || header.flags.contains(Flags::FIN) {
            return ListenDisposition::Ignore;
        }
        // `VMA_TCP_MAX_SYN_RATE`
        if !self.syn_rate.admits(now) {
            return ListenDisposition::Ignore;
        }
        // In the order of `tcp_conn_request`. As many embryos as connections wait for accept, at
        // most (`inet_csk_reqsk_queue_is_full`).
        let is_full = self.half_open_count > self.backlog;
        let wants_cookie = match self.config.syn_cookies {
            SynCookies::Never if is_full => return ListenDisposition::Ignore,
            SynCookies::Never => false,
            SynCookies::WhenFull => is_full,
            SynCookies::Always => true,
        };
        if self.is_accept_queue_full() {
            self.overflow_count = self.overflow_count.saturating_add(1);
            return ListenDisposition::Ignore;
        }
        if wants_cookie {
            self.last_cookie_at = Some(now);
            return ListenDisposition::Cookie;
        }
        self.half_open_count = self.half_open_count.saturating_add(1);
        ListenDisposition::Open
    }

    /// Whether an embryonic connection of this listener may have a segment with `payload_len`
    /// octets of data. While the accept queue is full, the ACK that would establish it is dropped;
    /// the peer is reminded by the next SYN-ACK. So is a bare ACK while the application waits for
    /// data (`TCP_DEFER_ACCEPT`).
    pub fn admits<P: Payload>(
        &mut self,
        connection: &mut Connection<P>,
        header: &Header,
        payload_len: usize,
    ) -> bool {
        if !connection.is_established_by(header, payload_len) {
            return true;
        }
        let is_bare = payload_len == 0 && !header.flags.contains(Flags::FIN);
        if is_bare && connection.defers_accept(self.deferral) {
            return false;
        }
        let is_full = self.is_accept_queue_full();
        if is_full {
            self.overflow_count = self.overflow_count.saturating_add(1);
            if self.config.abort_on_overflow {
                connection.abort_embryo(header);
            }
        }
        !is_full
    }

    /// An embryonic connection was established and waits for `accept`.
    pub fn on_established(&mut self) {
        self.half_open_count = self.half_open_count.saturating_sub(1);
        self.accept_count = self.accept_count.saturating_add(1);
    }

    /// An embryonic connection died.
    pub fn on_embryonic_closed(&mut self) {
        self.half_open_count = self.half_open_count.saturating_sub(1);
    }

    /// The application accepted a connection.
    pub fn on_accepted(&mut self) {
        self.accept_count = self.accept_count.saturating_sub(1);
    }

    /// Connections that wait for `accept`.
    pub fn accept_count(&self) -> u32 {
        self.accept_count
    }

    /// Connections in SYN-RECEIVED.
    pub fn half_open_count(&self) -> u32 {
        self.half_open_count
    }

    /// Segments dropped because the accept queue was full (`LINUX_MIB_LISTENOVERFLOWS`).
    pub fn overflow_count(&self) -> u64 {
        self.overflow_count
    }

    /// Linux lets one more wait than the backlog says (`sk_acceptq_is_full`).
    fn is_accept_queue_full(&self) -> bool {
        self.accept_count > self.backlog
    }
}

/// How many SYN-ACKs are sent within so many seconds (`secs_to_retrans`).
fn syn_acks_within(secs: u32) -> u8 {
    if secs == 0 {
        return 0;
    }
    let (mut count, mut interval, mut total) = (1u8, 1u32, 1u32);
    while secs > total && count < u8::MAX {
        count = count.saturating_add(1);
        interval = interval.saturating_mul(2).min(120);
        total = total.saturating_add(interval);
    }
    count
}

#[cfg(test)]
mod tests;
