//! TIME-WAIT of many connections (RFC 9293 §3.6.1), in 56 octets each, or 80 over IPv6, instead of
//! a connection.
//!
//! All wait for the same time, so a list in the order of expiry is enough: what is restarted goes
//! to its end. The number is bounded; connections beyond it are closed at once, as Linux does
//! (`tcp_max_tw_buckets`).

use core::net::SocketAddr;
use core::time::Duration;

use wire::tcp::Header;

use crate::Instant;
use crate::demux::{ConnectionTable, IPV4_KEY_LEN, IPV6_KEY_LEN, Key};
use crate::links::{NIL, position};

mod entry;
mod judge;

pub use entry::{Answer, Residue, TimestampState, Verdict};

use entry::Entry;
pub(crate) use judge::{Action, judge};

/// The connections of a stack that are in TIME-WAIT.
#[derive(Clone, Debug)]
pub struct TimeWaitTable {
    ipv4: Family<IPV4_KEY_LEN>,
    ipv6: Family<IPV6_KEY_LEN>,
    most: usize,
}

/// Those of one family.
#[derive(Clone, Debug)]
struct Family<const KEY: usize> {
    flows: ConnectionTable<KEY>,
    entries: Vec<Entry<KEY>>,
    /// Entries to use again.
    free: u32,
    /// In the order of expiry.
    oldest: u32,
    newest: u32,
    settings: Settings,
}

/// How long TIME-WAIT lasts, and how it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 2 MSL (`TCP_TIMEWAIT_LEN`).
    pub duration: Duration,
    /// `tcp_rfc1337`: a reset does not end it.
    pub rfc1337: bool,
    /// `tcp_invalid_ratelimit`: answers to one connection's segments without data are at least this
    /// far apart.
    pub answer_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(60),
            rfc1337: false,
            answer_interval: Duration::from_millis(500),
        }
    }
}

impl TimeWaitTable {
    /// For at most `most` connections. `key` is random and secret.
    #[must_use]
    pub fn new(key: [u8; 16], most: u32, settings: Settings) -> Self {
        Self {
            ipv4: Family::new(key, settings),
            ipv6: Family::new(key, settings),
            most: position(most.min(NIL - 1)),
        }
    }

    /// A connection enters TIME-WAIT. `false`: there is no room, and it is closed.
    pub fn insert(
        &mut self,
        local: impl Into<SocketAddr>,
        remote: impl Into<SocketAddr>,
        residue: &Residue,
        now: Instant,
    ) -> bool {
        if self.len() >= self.most {
            return false;
        }
        match Key::new(local.into(), remote.into()) {
            Key::Ipv4(key) => self.ipv4.insert(key, residue, now),
            Key::Ipv6(key) => self.ipv6.insert(key, residue, now),
        }
    }

    /// A segment for a connection without an owner. `None`: its flow is not in TIME-WAIT.
    pub fn on_segment(
        &mut self,
        local: impl Into<SocketAddr>,
        remote: impl Into<SocketAddr>,
        header: &Header,
        payload_len: usize,
        now: Instant,
    ) -> Option<Verdict> {
        match Key::new(local.into(), remote.into()) {
            Key::Ipv4(key) => self.ipv4.on_segment(&key, header, payload_len, now),
            Key::Ipv6(key) => self.ipv6.on_segment(&key, header, payload_len, now),
        }
    }

    /// Whether the flow is in TIME-WAIT: its ports are not free.
    #[must_use]
    pub fn contains(&self, local: impl Into<SocketAddr>, remote: impl Into<SocketAddr>) -> bool {
        let found = match Key::new(local.into(), remote.into()) {
            Key::Ipv4(key) => self.ipv4.flows.look_up(&key),
            Key::Ipv6(key) => self.ipv6.flows.look_up(&key),
        };
        found.is_some()
    }

    /// Ends those whose time is over by `now`. Returns their number.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.ipv4.expire(now).saturating_add(self.ipv6.expire(now))
    }

    /// When to call [`Self::expire`].
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        let ends = [self.ipv4.next_expiry(), self.ipv6.next_expiry()];
        ends.into_iter().flatten().min()
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.ipv4.flows.len().saturating_add(self.ipv6.flows.len())
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<const KEY: usize> Family<KEY> {
    fn new(key: [u8; 16], settings: Settings) -> Self {
        Self {
            flows: ConnectionTable::new(key),
            entries: Vec::new(),
            free: NIL,
            oldest: NIL,
            newest: NIL,
            settings,
        }
    }

    fn insert(&mut self, key: [u8; KEY], residue: &Residue, now: Instant) -> bool {
        let entry = Entry::new(key, residue);
        let index = match self.entries.get(position(self.free)) {
            Some(unused) => {
                let index = self.free;
                self.free = unused.next;
                index
            }
            None => u32::try_from(self.entries.len()).unwrap_or(NIL),
        };
        if self.flows.insert(&entry.key, index).is_err() {
            // One connection is not twice in TIME-WAIT: the owner has let in a second incarnation.
            debug_assert!(false, "the flow is in TIME-WAIT already");
            return false;
        }
        match self.entries.get_mut(position(index)) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.append(index, now);
        true
    }

    fn on_segment(
        &mut self,
        key: &[u8; KEY],
        header: &Header,
        payload_len: usize,
        now: Instant,
    ) -> Option<Verdict> {
        let index = self.flows.look_up(key)?;
        let settings = self.settings;
        let entry = self.entries.get_mut(position(index))?;
        let (verdict, restarts) = entry.judge(header, payload_len, &settings, now);
        match verdict {
            Verdict::Closed | Verdict::Open { .. } => self.remove_index(index),
            Verdict::Drop | Verdict::Answer(_) if restarts => {
                self.take_out(index);
                self.append(index, now);
            }
            Verdict::Drop | Verdict::Answer(_) => {}
        }
        Some(verdict)
    }

    fn expire(&mut self, now: Instant) -> usize {
        let before = self.flows.len();
        while self.next_expiry().is_some_and(|expires| expires <= now) {
            self.remove_index(self.oldest);
        }
        before.saturating_sub(self.flows.len())
    }

    fn next_expiry(&self) -> Option<Instant> {
        let oldest = self.entries.get(position(self.oldest))?;
        Some(oldest.expires)
    }

    fn append(&mut self, index: u32, now: Instant) {
        let newest = core::mem::replace(&mut self.newest, index);
        let expires = now + self.settings.duration;
        if let Some(entry) = self.entries.get_mut(position(index)) {
            entry.expires = expires;
            entry.previous = newest;
            entry.next = NIL;
        }
        match self.entries.get_mut(position(newest)) {
            Some(entry) => entry.next = index,
            None => self.oldest = index,
        }
    }

    fn take_out(&mut self, index: u32) {
        let Some(&Entry { previous, next, .. }) = self.entries.get(position(index)) else {
            return;
        };
        match self.entries.get_mut(position(previous)) {
            Some(entry) => entry.next = next,
            None => self.oldest = next,
        }
        match self.entries.get_mut(position(next)) {
            Some(entry) => entry.previous = previous,
            None => self.newest = previous,
        }
    }

    fn remove_index(&mut self, index: u32) {
        self.take_out(index);
        let free = core::mem::replace(&mut self.free, index);
        if let Some(entry) = self.entries.get_mut(position(index)) {
            entry.next = free;
            let key = entry.key;
            self.flows.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
