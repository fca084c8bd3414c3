//! What was received of each client: messages, and what is missing from their numbers.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};

use crate::message::{Flags, Header};
use crate::net::address::Peer;
use crate::sys::clock::Clock;
use crate::terminal::Output;

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Client {
    /// By address.
    Inet(SocketAddr),
    /// A socket of the Unix domain, by a number that stands for it.
    Unix(u64),
}

/// The sessions seen so far, one per client.
#[derive(Debug)]
pub struct Sessions {
    sessions: HashMap<Client, usize>,
    list: Vec<(Client, Session)>,
    latest: Option<usize>,
    shows_gaps: bool,
    untracked_messages: u64,
}

/// What was received of one client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionSummary {
    /// The client.
    pub client: Client,
    /// Messages received, without repetitions.
    pub received: u64,
    /// Messages that never came, up to the highest number.
    pub lost: u64,
    /// Messages that came after a later one.
    pub reordered: u64,
    /// Messages that came twice.
    pub duplicated: u64,
    /// Messages that were missing when a later one arrived, whether or not they came after it.
    pub missing: u64,
    /// Messages per second.
    pub messages_per_sec: f64,
}

#[derive(Debug, Default)]
struct Session {
    /// The start of the client's test was seen.
    begins_at_1: bool,
    first_sequence: u64,
    highest: u64,
    received: u64,
    reordered: u64,
    duplicated: u64,
    missing: u64,
    /// Which of the latest numbers came: bit n of the ring stands for numbers that leave n.
    seen: [u64; WINDOW_WORDS],
    first_nsec: u64,
    last_nsec: u64,
    received_by_last_nsec: u64,
}

/// Clients that are followed by one thread.
const SESSIONS_MAX: usize = 4096;
const WINDOW_WORDS: usize = 16;
const WINDOW_LEN: u64 = 64 * WINDOW_WORDS as u64;
/// The clock is read once in so many messages of a client.
const MESSAGES_PER_CLOCK_READING: u64 = 64;

impl Client {
    /// The sender of a datagram.
    #[inline]
    pub fn of(peer: &Peer) -> Self {
        match peer {
            Peer::Inet(address) => Self::Inet(*address),
            Peer::Connected => Self::Unix(0),
            Peer::Unix(address) => {
                let mut hasher = DefaultHasher::new();
                address.as_pathname().hash(&mut hasher);
                Self::Unix(hasher.finish())
            }
        }
    }

    /// The other end of a connection.
    pub fn connected(address: Option<SocketAddr>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        address.map_or_else(
            || Self::Unix(NEXT.fetch_add(1, Ordering::Relaxed)),
            Self::Inet,
        )
    }
}

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(formatter),
            Self::Unix(number) => write!(formatter, "unix:{number:x}"),
        }
    }
}

impl Serialize for Client {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Sessions {
    /// No sessions. With `shows_gaps`, gaps are printed when they are found.
    pub fn new(shows_gaps: bool) -> Self {
        Self {
            sessions: HashMap::new(),
            list: Vec::new(),
            latest: None,
            shows_gaps,
            untracked_messages: 0,
        }
    }

    /// Looks at a client's message.
    #[inline]
    pub fn message(&mut self, header: Header, client: Client, clock: &Clock, output: &mut Output) {
        let is_latest = |&index: &usize| {
            let latest = self.list.get(index);
            latest.is_some_and(|(latest, _)| *latest == client)
        };
        let index = self.latest.filter(is_latest);
        let Some(index) = index.or_else(|| self.find(client, output)) else {
            self.untracked_messages += 1;
            return;
        };
        self.latest = Some(index);
        let shows_gaps = self.shows_gaps;
        let Some((_, session)) = self.list.get_mut(index) else {
            return;
        };
        if header.flags.has(Flags::WARM_UP) {
            // Several warm-up messages start one session.
            if session.received > 0 {
                if shows_gaps {
                    output.line(gap_summary(client, session.missing));
                    output.line(started(client));
                }
                *session = Session::default();
            }
            session.begins_at_1 = true;
            return;
        }
        if session.received.is_multiple_of(MESSAGES_PER_CLOCK_READING) {
            session.stamp(clock.now_nsec());
        }
        if let Some((from, to)) = session.message(header.sequence)
            && shows_gaps
        {
            output.line(gap_line(client, session.missing, from, to));
        }
    }

    /// Messages of clients beyond the number that is followed.
    pub fn untracked_messages(&self) -> u64 {
        self.untracked_messages
    }

    /// The totals, sorted by client.
    pub fn finish(self) -> Vec<SessionSummary> {
        let mut summaries: Vec<SessionSummary> = self
            .list
            .iter()
            .filter(|(_, session)| session.received > 0)
            .map(|(client, session)| session.summary(*client))
            .collect();
        summaries.sort_by_key(|session| session.client);
        summaries
    }

    /// The place of the client's session, which may be new; `None` if there is no room.
    #[cold]
    fn find(&mut self, client: Client, output: &mut Output) -> Option<usize> {
        if let Some(&index) = self.sessions.get(&client) {
            return Some(index);
        }
        let index = self.list.len();
        if index == SESSIONS_MAX {
            return None;
        }
        self.sessions.insert(client, index);
        self.list.push((client, Session::default()));
        if self.shows_gaps {
            output.line(started(client));
        }
        Some(index)
    }
}

impl Session {
    /// Counts a message. Returns the numbers that are missing before it.
    fn message(&mut self, sequence: u64) -> Option<(u64, u64)> {
        self.received += 1;
        if self.received == 1 {
            self.first_sequence = if self.begins_at_1 { 1 } else { sequence };
            self.highest = self.first_sequence.saturating_sub(1);
        }
        if sequence <= self.highest {
            let is_old = self.highest - sequence >= WINDOW_LEN;
            if sequence < self.first_sequence || (!is_old && self.is_marked(sequence)) {
                self.duplicated += 1;
            } else {
                self.reordered += 1;
                if !is_old {
                    self.mark(sequence);
                }
            }
            return None;
        }
        let expected = self.highest + 1;
        let gap = sequence - expected;
        // What the ring holds of numbers that are now too old makes room.
        if gap >= WINDOW_LEN {
            self.seen = [0; WINDOW_WORDS];
        } else {
            (expected..sequence).for_each(|missing| self.unmark(missing));
        }
        self.mark(sequence);
        self.highest = sequence;
        self.missing = self.missing.saturating_add(gap);
        (gap > 0).then(|| (expected, sequence - 1))
    }

    fn stamp(&mut self, now_nsec: u64) {
        if self.received == 0 {
            self.first_nsec = now_nsec;
        }
        self.last_nsec = now_nsec;
        self.received_by_last_nsec = self.received;
    }

    fn summary(&self, client: Client) -> SessionSummary {
        // The first number is above the highest if only such came that are not the test's (0,
        // before 1).
        let numbers = self
            .highest
            .saturating_add(1)
            .saturating_sub(self.first_sequence);
        let received = self.received - self.duplicated;
        let elapsed_nsec = self.last_nsec.saturating_sub(self.first_nsec);
        SessionSummary {
            client,
            received,
            lost: numbers.saturating_sub(received),
            reordered: self.reordered,
            duplicated: self.duplicated,
            missing: self.missing,
            messages_per_sec: if elapsed_nsec == 0 {
                0.0
            } else {
                self.received_by_last_nsec as f64 * 1e9 / elapsed_nsec as f64
            },
        }
    }

    fn mark(&mut self, sequence: u64) {
        let (index, bit) = place(sequence);
        if let Some(word) = self.seen.get_mut(index) {
            *word |= bit;
        }
    }

    fn unmark(&mut self, sequence: u64) {
        let (index, bit) = place(sequence);
        if let Some(word) = self.seen.get_mut(index) {
            *word &= !bit;
        }
    }

    fn is_marked(&self, sequence: u64) -> bool {
        let (index, bit) = place(sequence);
        self.seen.get(index).is_some_and(|word| word & bit != 0)
    }
}

impl SessionSummary {
    /// The line at the end of a server with gap detection.
    pub fn gap_line(&self) -> String {
        gap_summary(self.client, self.missing)
    }

    /// The line at the end of a server.
    pub fn line(&self) -> String {
        format!(
            "[{}] received={}; lost={}; reordered={}; duplicated={}; rate={:.0} [msg/sec]",
            self.client,
            self.received,
            self.lost,
            self.reordered,
            self.duplicated,
            self.messages_per_sec
        )
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let index = usize::try_from(sequence % WINDOW_LEN / 64).unwrap_or(0);
    (index, 1 << (sequence % 64))
}

fn gap_summary(client: Client, missing: u64) -> String {
    let client = format!("[{client}]");
    format!("{client:<23} Summary: Total Dropped/OOO: {missing}")
}

fn started(client: Client) -> String {
    format!("Starting new session: {:<23}", format!("[{client}]"))
}

fn gap_line(client: Client, missing: u64, from: u64, to: u64) -> String {
    let client = format!("[{client}]");
    let gap = format!("({})", to - from + 1);
    format!("{client:<23} Total Dropped/OOO: {missing:<11} GAP:{gap:<7} [{from} - {to}]")
}

#[cfg(test)]
mod tests;
