//! Resets what the dead left open. Pure: claims, segments of peers and the time in, segments to
//! send out.
//!
//! A peer takes a reset only if its sequence number is the very next one (RFC 5961 §3.2). Where
//! that is not known, a SYN asks for it: the peer of an established connection answers with an
//! acknowledgement that names it (RFC 5961 §4.2). The kernel of this host, which has no such
//! connection, resets it as well when it sees that acknowledgement.
//!
//! ```text
//! claim with a number     RST ─┐
//! claim without           SYN ─┴─ ACK n ──► RST n, done
//!                                  RST ────► done: the peer has no such connection
//!                                  nothing, after the interval: SYN again, three times in all
//! ```

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::connection::{Claim, Connection};
use crate::limit::TokenBucket;

/// How often a peer is asked.
const ATTEMPTS: u8 = 3;

/// Segments sent in a second, and at once. Ten thousand connections take a fraction of a second.
const SEGMENTS_PER_SECOND: u32 = 50_000;
const SEGMENTS_AT_ONCE: u32 = 4_000;

/// How many connections of one process are begun before it is another's turn.
const TURN: usize = 32;

/// A segment to send from the local end to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A SYN, to learn the sequence number that the peer expects.
    Probe,
    /// A reset with this sequence number.
    Reset(u32),
}

/// What a peer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An acknowledgement of everything before this number.
    Acknowledges(u32),
    /// A reset.
    Resets,
}

/// What became of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub probes: u64,
    pub resets: u64,
    /// Peers that had no such connection any more.
    pub unknown_to_peer: u64,
    /// Peers that never answered.
    pub unanswered: u64,
}

/// What is asked of [`Resets::next`]'s caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To find out whether the connection may be reset: then [`Resets::start`].
    Check(Claim),
    Send(Connection, Segment),
}

/// See the module.
#[derive(Debug)]
pub struct Resets {
    interval: Duration,
    /// Claims of a dead process each, in turn.
    waiting: VecDeque<VecDeque<Claim>>,
    left_of_turn: usize,
    /// Those that a peer was asked about.
    asked: HashMap<Connection, Asked>,
    /// Those of connections that are of one.
    links: BTreeSet<u32>,
    /// When which is to be asked again: the interval is the same for all, so the first is the
    /// earliest.
    deadlines: VecDeque<(Instant, Connection)>,
    ready: VecDeque<(Connection, Segment)>,
    bucket: TokenBucket,
    totals: Totals,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    attempts: u8,
    deadline: Instant,
}

impl Resets {
    /// Asks a peer again after `interval`.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            waiting: VecDeque::new(),
            left_of_turn: TURN,
            asked: HashMap::new(),
            links: BTreeSet::new(),
            deadlines: VecDeque::new(),
            ready: VecDeque::new(),
            bucket: TokenBucket::new(SEGMENTS_PER_SECOND, SEGMENTS_AT_ONCE, now),
            totals: Totals::default(),
        }
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether nothing is left to do.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty() && self.ready.is_empty()
    }

    /// A process died and left these.
    pub fn add(&mut self, claims: Vec<Claim>) {
        if !claims.is_empty() {
            self.waiting.push_back(claims.into());
        }
    }

    /// A process has the connection again: it is not to be reset.
    pub fn forget(&mut self, connection: &Connection) {
        self.asked.remove(connection);
        self.ready.retain(|(other, _)| other != connection);
        for claims in &mut self.waiting {
            claims.retain(|claim| claim.connection != *connection);
        }
    }

    /// What to do next, or `None` for now: until [`Resets::deadline`] or an answer.
    pub fn next(&mut self, now: Instant) -> Option<Next> {
        self.ask_again(now);
        let has_work = !self.ready.is_empty() || !self.waiting.is_empty();
        if !has_work || !self.bucket.take(now) {
            return None;
        }
        if let Some((connection, segment)) = self.ready.pop_front() {
            self.count(segment);
            return Some(Next::Send(connection, segment));
        }
        self.next_claim().map(Next::Check)
    }

    /// The claim that was checked may be reset: its first segment.
    pub fn start(&mut self, claim: Claim, now: Instant) -> (Connection, Segment) {
        let segment = claim.next_sequence.map_or(Segment::Probe, Segment::Reset);
        self.expect(claim.connection, 1, now);
        self.count(segment);
        (claim.connection, segment)
    }

    /// A peer sent something on a connection. What came does not say by which interface: with
    /// link-local addresses it may be of one connection on each.
    pub fn answered(&mut self, connection: &Connection, answer: Answer) {
        let on_links = self
            .links
            .iter()
            .filter_map(|link| connection.on_link(*link));
        let of = std::iter::once(*connection).chain(on_links);
        let of: Vec<_> = of.filter(|it| self.asked.contains_key(it)).collect();
        let is_one = of.len() == 1;
        for connection in of {
            if is_one {
                self.asked.remove(&connection);
            }
            match answer {
                Answer::Acknowledges(next) => {
                    self.ready.push_back((connection, Segment::Reset(next)));
                }
                Answer::Resets => self.totals.unknown_to_peer += u64::from(is_one),
            }
        }
    }

    /// When [`Resets::next`] may have something to do again.
    pub fn deadline(&self) -> Option<Instant> {
        let has_work = !self.ready.is_empty() || !self.waiting.is_empty();
        let limited = self.bucket.next().filter(|_| has_work);
        let again = self.deadlines.front().map(|(deadline, _)| *deadline);
        limited.into_iter().chain(again).min()
    }

    fn next_claim(&mut self) -> Option<Claim> {
        let claims = self.waiting.front_mut()?;
        let claim = claims.pop_front();
        self.left_of_turn -= 1;
        if claims.is_empty() {
            self.waiting.pop_front();
            self.left_of_turn = TURN;
        } else if self.left_of_turn == 0 {
            self.waiting.rotate_left(1);
            self.left_of_turn = TURN;
        }
        claim
    }

    fn ask_again(&mut self, now: Instant) {
        while let Some((deadline, connection)) = self.deadlines.front().copied() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_front();
            // One that was answered, or asked again since, is not this entry's.
            let Some(asked) = self.asked.get(&connection).copied() else {
                continue;
            };
            if asked.deadline != deadline {
                continue;
            }
            if asked.attempts == ATTEMPTS {
                self.asked.remove(&connection);
                self.totals.unanswered += 1;
            } else {
                self.expect(connection, asked.attempts + 1, now);
                self.ready.push_back((connection, Segment::Probe));
            }
        }
    }

    fn expect(&mut self, connection: Connection, attempts: u8, now: Instant) {
        let deadline = now + self.interval;
        if self.asked.is_empty() {
            self.links.clear();
        }
        if connection.link() != 0 {
            self.links.insert(connection.link());
        }
        self.asked.insert(connection, Asked { attempts, deadline });
        self.deadlines.push_back((deadline, connection));
    }

    fn count(&mut self, segment: Segment) {
        match segment {
            Segment::Probe => self.totals.probes += 1,
            Segment::Reset(_) => self.totals.resets += 1,
        }
    }
}

#[cfg(test)]
mod tests;
