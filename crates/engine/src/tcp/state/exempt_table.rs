//! Which connections are exempt from the steering of their port, and for how long.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;

use ::tcp::Instant;

/// The ends of a connection: this host's, and the peer's.
pub(in crate::tcp) type Ends = (SocketAddr, SocketAddr);

/// Connections of the kernel's, with a `P` each for where they are exempt.
#[derive(Debug)]
pub(in crate::tcp) struct Table<P> {
    connections: HashMap<Ends, Exemption<P>>,
    by_cookie: HashMap<u64, Ends>,
    /// Those whose socket has ended, by the time until which the kernel answers for them.
    waiting: BTreeSet<(Instant, Ends)>,
}

#[derive(Debug)]
struct Exemption<P> {
    place: P,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The kernel has a socket with this cookie.
    Lives(u64),
    /// It has none any more, and answers for the connection until this time (TIME-WAIT).
    Waits(Instant),
}

/// So many may wait. What comes late for others takes the way through the library.
const WAITING_MAX: usize = 4096;

impl<P> Default for Table<P> {
    fn default() -> Self {
        Self {
            connections: HashMap::new(),
            by_cookie: HashMap::new(),
            waiting: BTreeSet::new(),
        }
    }
}

impl<P> Table<P> {
    pub(in crate::tcp) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(in crate::tcp) fn contains(&self, ends: &Ends) -> bool {
        self.connections.contains_key(ends)
    }

    /// Where a connection is exempt.
    pub(in crate::tcp) fn place(&self, ends: &Ends) -> Option<&P> {
        self.connections.get(ends).map(|it| &it.place)
    }

    /// Adds a connection whose socket has this cookie. One with these ends that was there before is
    /// gone.
    pub(in crate::tcp) fn add(&mut self, ends: Ends, cookie: u64, place: P) {
        self.remove(&ends);
        self.by_cookie.insert(cookie, ends);
        let state = State::Lives(cookie);
        self.connections.insert(ends, Exemption { place, state });
    }

    /// Whose socket has this cookie.
    pub(in crate::tcp) fn with_cookie(&self, cookie: u64) -> Option<Ends> {
        self.by_cookie.get(&cookie).copied()
    }

    /// The socket has ended, and the kernel answers for the connection until this time. Returns the
    /// one that makes room for it, if too many wait.
    pub(in crate::tcp) fn waits(&mut self, ends: Ends, until: Instant) -> Option<Ends> {
        let connection = self.connections.get_mut(&ends)?;
        match std::mem::replace(&mut connection.state, State::Waits(until)) {
            State::Lives(cookie) => drop(self.by_cookie.remove(&cookie)),
            State::Waits(before) => drop(self.waiting.remove(&(before, ends))),
        }
        self.waiting.insert((until, ends));
        let is_too_many = self.waiting.len() > WAITING_MAX;
        let first = self.waiting.first().filter(|_| is_too_many);
        first.map(|(_, ends)| *ends)
    }

    /// Takes a connection out. Returns where it was exempt.
    pub(in crate::tcp) fn remove(&mut self, ends: &Ends) -> Option<P> {
        let Exemption { place, state } = self.connections.remove(ends)?;
        match state {
            State::Lives(cookie) => drop(self.by_cookie.remove(&cookie)),
            State::Waits(until) => drop(self.waiting.remove(&(until, *ends))),
        }
        Some(place)
    }

    /// When the first of those that wait has waited long enough.
    pub(in crate::tcp) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|(until, _)| *until)
    }

    /// Those that have waited long enough.
    pub(in crate::tcp) fn due(&self, now: Instant) -> Vec<Ends> {
        let due = self.waiting.iter().take_while(|(until, _)| *until <= now);
        due.map(|(_, ends)| *ends).collect()
    }

    /// The ports of this host's ends of connections that have a socket.
    pub(in crate::tcp) fn ports(&self) -> HashSet<u16> {
        let ends = self.by_cookie.values();
        ends.map(|(local, _)| local.port()).collect()
    }

    /// The cookies of sockets that are not among these.
    pub(in crate::tcp) fn missing(&self, living: &HashSet<u64>) -> Vec<u64> {
        let known = self.by_cookie.keys().copied();
        known.filter(|cookie| !living.contains(cookie)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ends(port: u16) -> Ends {
        let local = ([10, 0, 0, 1], 80).into();
        (local, ([10, 0, 0, 2], port).into())
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn a_connection_is_exempt_until_nobody_answers_for_it() {
        let mut table = Table::default();
        table.add(ends(1), 101, 'a');
        table.add(ends(2), 102, 'b');
        assert_eq!(table.with_cookie(101), Some(ends(1)));
        assert_eq!(table.ports(), HashSet::from([80]));
        assert_eq!(
            (table.next_due(), table.waits(ends(3), at(5))),
            (None, None)
        );

        // TIME-WAIT begins, and begins anew with another FIN of the peer's.
        assert_eq!(table.waits(ends(1), at(60)), None);
        assert_eq!((table.with_cookie(101), table.len()), (None, 2));
        assert_eq!(table.waits(ends(1), at(70)), None);
        assert_eq!(table.due(at(60)), []);
        assert_eq!(
            (table.next_due(), table.due(at(70))),
            (Some(at(70)), vec![ends(1)])
        );
        assert_eq!(table.remove(&ends(1)), Some('a'));
        assert_eq!((table.next_due(), table.remove(&ends(1))), (None, None));
        assert!(!table.contains(&ends(1)) && table.contains(&ends(2)));
        assert_eq!(
            (table.place(&ends(1)), table.place(&ends(2))),
            (None, Some(&'b'))
        );

        // Others may have ended without a word.
        assert_eq!(table.missing(&HashSet::from([7, 102])), []);
        assert_eq!(table.missing(&HashSet::from([7])), [102]);
    }

    #[test]
    fn a_later_connection_takes_the_place_of_an_earlier() {
        let mut table = Table::default();
        table.add(ends(1), 101, ());
        table.add(ends(1), 102, ());
        // What is told late of the earlier concerns nobody.
        assert_eq!(table.with_cookie(101), None);
        assert_eq!(table.with_cookie(102), Some(ends(1)));
        table.waits(ends(1), at(60));
        table.add(ends(1), 103, ());
        assert_eq!((table.due(at(99)), table.len()), (vec![], 1));
        assert_eq!(table.remove(&ends(1)), Some(()));
        assert_eq!((table.len(), table.ports().len()), (0, 0));
    }

    #[test]
    fn of_too_many_that_wait_the_first_makes_room() {
        let mut table = Table::default();
        let most = WAITING_MAX as u16;
        for port in 1..=most + 1 {
            table.add(ends(port), port.into(), ());
        }
        for port in 1..=most {
            assert_eq!(table.waits(ends(port), at(port.into())), None);
        }
        assert_eq!(table.waits(ends(most + 1), at(9999)), Some(ends(1)));
        assert_eq!(table.remove(&ends(1)), Some(()));
        assert_eq!(table.waits(ends(2), at(9998)), None);
    }
}
