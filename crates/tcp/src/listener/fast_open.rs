//! Which SYNs open a connection at once (RFC 7413 §4.2.2), in the manner of Linux
//! (`tcp_try_fastopen`).

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;

use wire::tcp::Header;

use super::Listener;
use crate::Instant;
use crate::fast_open::{
    CookieWorth, FastOpen, FastOpenEnd, FastOpenKeys, FastOpenModes, FastOpenReply,
};

/// Connections that were opened fast and whose handshakes are not over: RFC 7413 §5.1 bounds them,
/// since their SYNs may have been forged.
#[derive(Debug, Default)]
pub(super) struct FastOpenQueue {
    /// `TCP_FASTOPEN`: 0 for no Fast Open.
    limit: u32,
    pending: u32,
    /// Until when those that the peer has reset count as pending: a forged SYN's victim does.
    resets: VecDeque<Instant>,
    /// `TCP_FASTOPEN_KEY`, instead of the stack's.
    keys: Option<FastOpenKeys>,
    /// `TCP_FASTOPEN_NO_COOKIE`
    is_cookieless: bool,
}

impl FastOpenQueue {
    pub(super) fn new(modes: FastOpenModes, backlog: u32) -> Self {
        let mut queue = Self::default();
        queue.on_listen(modes, backlog);
        queue
    }

    /// `listen(2)`: a stack may have Fast Open for listeners that did not ask for it.
    pub(super) fn on_listen(&mut self, modes: FastOpenModes, backlog: u32) {
        if modes.server && modes.all_listeners && self.limit == 0 {
            self.limit = backlog;
        }
    }

    /// `tcp_fastopen_queue_check`: RFC 7413 §5.1, `PendingFastOpenRequests`.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.limit == 0 {
            return false;
        }
        let resets = u32::try_from(self.resets.len()).unwrap_or(u32::MAX);
        if self.pending.saturating_add(resets) < self.limit {
            return true;
        }
        // The place of one reset long ago.
        let is_over = self.resets.front().is_some_and(|until| *until <= now);
        if is_over {
            self.resets.pop_front();
        }
        is_over
    }
}

impl Listener {
    /// `TCP_FASTOPEN`: how many connections opened fast may wait for the ends of their handshakes;
    /// 0 for none.
    pub fn set_fast_open(&mut self, limit: u32) {
        self.fast_open.limit = limit;
    }

    /// `TCP_FASTOPEN`
    pub fn fast_open_limit(&self) -> u32 {
        self.fast_open.limit
    }

    /// `TCP_FASTOPEN_KEY`; `None` for the stack's.
    pub fn set_fast_open_keys(&mut self, keys: Option<FastOpenKeys>) {
        self.fast_open.keys = keys;
    }

    /// `TCP_FASTOPEN_NO_COOKIE`: data is taken from everybody.
    pub fn set_fast_open_without_cookie(&mut self, on: bool) {
        self.fast_open.is_cookieless = on;
    }

    /// What to reply to a SYN with `payload_len` octets of data from `client` to `server`, for
    /// which [`on_segment`](Self::on_segment) said [`Open`](super::ListenDisposition::Open). `keys`
    /// are the stack's.
    ///
    /// The SYN of a flood, which is answered by a SYN cookie, opens nothing fast: there is no
    /// memory for its data.
    pub fn fast_open(
        &mut self,
        now: Instant,
        keys: &FastOpenKeys,
        (client, server): (IpAddr, IpAddr),
        syn: &Header,
        payload_len: usize,
    ) -> FastOpenReply {
        let modes = self.config.fast_open;
        let option = syn.options.fast_open;
        let is_wanted = option.is_some() || payload_len > 0;
        if !modes.server || !is_wanted || !self.fast_open.make_room(now) {
            return FastOpenReply::default();
        }
        if modes.server_without_cookie || self.fast_open.is_cookieless {
            return self.open_fast(None);
        }
        let Some(option) = option else {
            return FastOpenReply::default();
        };
        let keys = self.fast_open.keys.as_ref().unwrap_or(keys);
        let fresh = keys.cookie(client, server, option.is_experimental());
        match keys.judge(option.cookie(), client, server) {
            CookieWorth::Good => self.open_fast(None),
            CookieWorth::Old => self.open_fast(fresh),
            // RFC 7413 §4.2.2: "If the cookie is invalid, the server [acknowledges] only the SYN
            // sequence" and sends a good one.
            CookieWorth::Nothing => FastOpenReply {
                is_open: false,
                option: fresh,
            },
        }
    }

    fn open_fast(&mut self, option: Option<FastOpen>) -> FastOpenReply {
        self.fast_open.pending = self.fast_open.pending.saturating_add(1);
        FastOpenReply {
            is_open: true,
            option,
        }
    }

    /// The handshake of a connection that was opened fast is over
    /// ([`Connection::take_fast_open_end`](crate::Connection::take_fast_open_end)).
    pub fn on_fast_open_end(&mut self, now: Instant, end: FastOpenEnd) {
        self.fast_open.pending = self.fast_open.pending.saturating_sub(1);
        // As Linux (`reqsk_fastopen_remove`): one that nobody has accepted yet is bounded by the
        // backlog.
        if end.was_reset && end.was_accepted {
            self.fast_open.resets.push_back(now + RESET_MEMORY);
        }
    }

    /// Connections opened fast whose handshakes are not over.
    pub fn fast_open_count(&self) -> u32 {
        self.fast_open.pending
    }
}

/// How long a reset counts.
const RESET_MEMORY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
