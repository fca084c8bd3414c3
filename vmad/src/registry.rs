//! Who has which connections: what live processes told, and what of it is left when one dies.

use std::collections::HashMap;
use std::time::Instant;

use crate::connection::{Claim, Connection};
use crate::limit::TokenBucket;

/// Messages that one process may send.
const MESSAGES_PER_SECOND: u32 = 20_000;
const MESSAGES_AT_ONCE: u32 = 100_000;

/// What is kept at most, so that nobody fills the daemon's memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub processes: usize,
    /// Of one user that is not root: processes.
    pub processes_of_user: usize,
    /// Of one process.
    pub connections_of_process: usize,
    pub connections: usize,
    /// Of one user that is not root.
    pub connections_of_user: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: 8192,
            processes_of_user: 1024,
            connections_of_process: 65_536,
            connections: 524_288,
            connections_of_user: 131_072,
        }
    }
}

/// Why something was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the process did not begin with INIT")]
    Unknown,
    #[error("too many messages")]
    TooFast,
    #[error("too many processes")]
    Processes,
    #[error("too many connections")]
    Connections,
    #[error("another user's process has the connection")]
    Taken,
}

/// Processes that tell of their connections, by process id.
#[derive(Debug, Default)]
pub struct Registry {
    limits: Limits,
    processes: HashMap<u32, Process>,
    /// Who has a connection. Processes of one user may share one, after a fork.
    holders: HashMap<Connection, Holders>,
    users: HashMap<u32, Usage>,
}

#[derive(Debug)]
struct Process {
    user: u32,
    library: u32,
    /// By the process's descriptor.
    connections: HashMap<u32, Connection>,
    messages: TokenBucket,
}

#[derive(Clone, Copy, Debug)]
struct Holders {
    user: u32,
    processes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    processes: usize,
    connections: usize,
}

/// A line of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessSummary {
    pub pid: u32,
    pub user: u32,
    /// The library's version as the process told it.
    pub library: u32,
    pub connections: usize,
}

impl Registry {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Whether one more message of the process is to be read.
    pub fn admit(&mut self, pid: u32, now: Instant) -> Result<(), Refusal> {
        let process = self.processes.get_mut(&pid).ok_or(Refusal::Unknown)?;
        if process.messages.take(now) {
            Ok(())
        } else {
            Err(Refusal::TooFast)
        }
    }

    pub fn contains(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// A process begins to tell. One that is known goes on.
    pub fn begin(
        &mut self,
        pid: u32,
        user: u32,
        library: u32,
        now: Instant,
    ) -> Result<(), Refusal> {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.library = library;
            return Ok(());
        }
        let usage = self.users.entry(user).or_default();
        let too_many = self.processes.len() >= self.limits.processes
            || (user != ROOT && usage.processes >= self.limits.processes_of_user);
        if too_many {
            return Err(Refusal::Processes);
        }
        usage.processes += 1;
        let process = Process {
            user,
            library,
            connections: HashMap::new(),
            messages: TokenBucket::new(MESSAGES_PER_SECOND, MESSAGES_AT_ONCE, now),
        };
        self.processes.insert(pid, process);
        Ok(())
    }

    /// A descriptor of the process is an end of this connection.
    pub fn open(
        &mut self,
        pid: u32,
        descriptor: u32,
        connection: Connection,
    ) -> Result<(), Refusal> {
        let process = self.processes.get(&pid).ok_or(Refusal::Unknown)?;
        if process.connections.get(&descriptor) == Some(&connection) {
            return Ok(());
        }
        let user = process.user;
        if let Some(holders) = self.holders.get(&connection)
            && holders.user != user
        {
            return Err(Refusal::Taken);
        }
        self.close(pid, descriptor);
        let of_process = self.connections_of(pid);
        let of_user = self.users.entry(user).or_default();
        let too_many = of_process >= self.limits.connections_of_process
            || self.holders.len() >= self.limits.connections
            || (user != ROOT && of_user.connections >= self.limits.connections_of_user);
        if too_many {
            return Err(Refusal::Connections);
        }
        of_user.connections += 1;
        let holders = self
            .holders
            .entry(connection)
            .or_insert(Holders { user, processes: 0 });
        holders.processes += 1;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.connections.insert(descriptor, connection);
        }
        Ok(())
    }

    /// A descriptor of the process is no connection any more.
    pub fn close(&mut self, pid: u32, descriptor: u32) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let user = process.user;
        if let Some(connection) = process.connections.remove(&descriptor) {
            self.release(user, connection);
        }
    }

    /// The process is gone: what it left open and nobody else has. After [`Registry::leave`],
    /// nothing.
    pub fn end(&mut self, pid: u32) -> Vec<Claim> {
        let Some(process) = self.processes.remove(&pid) else {
            return Vec::new();
        };
        if let Some(usage) = self.users.get_mut(&process.user) {
            usage.processes = usage.processes.saturating_sub(1);
        }
        let mut left: Vec<Connection> = process
            .connections
            .into_values()
            .filter(|connection| self.release(process.user, *connection))
            .collect();
        self.users
            .retain(|_, usage| usage.processes > 0 || usage.connections > 0);
        left.sort_unstable();
        left.into_iter().map(Claim::unknown).collect()
    }

    /// The process said that it ends in good order.
    pub fn leave(&mut self, pid: u32) {
        drop(self.end(pid));
    }

    /// Whether a live process has told of the connection.
    pub fn has(&self, connection: &Connection) -> bool {
        self.holders.contains_key(connection)
    }

    /// Every process, lowest id first.
    pub fn summary(&self) -> Vec<ProcessSummary> {
        let mut all: Vec<_> = self
            .processes
            .iter()
            .map(|(pid, process)| ProcessSummary {
                pid: *pid,
                user: process.user,
                library: process.library,
                connections: process.connections.len(),
            })
            .collect();
        all.sort_unstable_by_key(|process| process.pid);
        all
    }

    fn connections_of(&self, pid: u32) -> usize {
        self.processes
            .get(&pid)
            .map_or(0, |process| process.connections.len())
    }

    /// One descriptor less is the connection. True if none is any more.
    fn release(&mut self, user: u32, connection: Connection) -> bool {
        if let Some(usage) = self.users.get_mut(&user) {
            usage.connections = usage.connections.saturating_sub(1);
        }
        let Some(holders) = self.holders.get_mut(&connection) else {
            return false;
        };
        holders.processes -= 1;
        let is_free = holders.processes == 0;
        if is_free {
            self.holders.remove(&connection);
        }
        is_free
    }
}

const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn connection(port: u16) -> Connection {
        Connection {
            local: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port).into(),
            peer: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 80).into(),
        }
    }

    fn registry(limits: Limits) -> Registry {
        let mut registry = Registry::new(limits);
        let now = Instant::now();
        for (pid, user) in [(1, 100), (2, 100), (3, 200), (4, 0)] {
            registry.begin(pid, user, 0, now).unwrap();
        }
        registry
    }

    fn left(registry: &mut Registry, pid: u32) -> Vec<Connection> {
        let claims = registry.end(pid);
        claims.into_iter().map(|claim| claim.connection).collect()
    }

    #[test]
    fn the_dead_leave_what_they_did_not_close() {
        let mut registry = registry(Limits::default());
        registry.open(1, 5, connection(1)).unwrap();
        registry.open(1, 6, connection(2)).unwrap();
        registry.open(1, 7, connection(3)).unwrap();
        registry.close(1, 6);
        // A descriptor is used again.
        registry.open(1, 7, connection(4)).unwrap();
        assert_eq!(left(&mut registry, 1), [connection(1), connection(4)]);
        assert_eq!(left(&mut registry, 1), []);
        assert!(!registry.has(&connection(1)));
    }

    #[test]
    fn a_good_end_leaves_nothing() {
        let mut registry = registry(Limits::default());
        registry.open(1, 5, connection(1)).unwrap();
        registry.leave(1);
        assert_eq!(left(&mut registry, 1), []);
        assert_eq!(registry.open(1, 5, connection(1)), Err(Refusal::Unknown));
    }

    #[test]
    fn what_a_live_process_has_is_not_left() {
        let mut registry = registry(Limits::default());
        registry.open(1, 5, connection(1)).unwrap();
        registry.open(2, 9, connection(1)).unwrap();
        assert_eq!(left(&mut registry, 1), []);
        assert_eq!(left(&mut registry, 2), [connection(1)]);
    }

    #[test]
    fn nobody_takes_the_connection_of_another_user() {
        let mut registry = registry(Limits::default());
        registry.open(1, 5, connection(1)).unwrap();
        assert_eq!(registry.open(3, 5, connection(1)), Err(Refusal::Taken));
        assert_eq!(left(&mut registry, 3), []);
        assert_eq!(left(&mut registry, 1), [connection(1)]);
    }

    #[test]
    fn memory_is_bounded_for_a_process_a_user_and_all() {
        let mut registry = registry(Limits {
            processes: 6,
            processes_of_user: 3,
            connections_of_process: 4,
            connections: 8,
            connections_of_user: 6,
        });
        let open = |registry: &mut Registry, pid, ports: std::ops::Range<u16>| {
            ports
                .filter(|port| {
                    registry
                        .open(pid, u32::from(*port), connection(*port))
                        .is_ok()
                })
                .count()
        };
        assert_eq!(open(&mut registry, 1, 0..10), 4);
        assert_eq!(open(&mut registry, 2, 10..20), 2);
        assert_eq!(open(&mut registry, 4, 20..30), 2);
        let now = Instant::now();
        assert_eq!(registry.begin(5, 100, 0, now), Ok(()));
        assert_eq!(registry.begin(6, 100, 0, now), Err(Refusal::Processes));
        assert_eq!(registry.begin(7, 0, 0, now), Ok(()));
        assert_eq!(registry.begin(8, 0, 0, now), Err(Refusal::Processes));
        // What ends makes room.
        registry.end(1);
        assert_eq!(open(&mut registry, 2, 30..40), 2);
    }

    #[test]
    fn usage_is_forgotten_with_the_last_process() {
        let mut registry = registry(Limits::default());
        registry.open(1, 5, connection(1)).unwrap();
        for pid in 1..=4 {
            registry.end(pid);
        }
        assert!(registry.users.is_empty() && registry.holders.is_empty());
    }

    #[test]
    fn a_flood_of_messages_is_cut() {
        let mut registry = registry(Limits::default());
        let now = Instant::now();
        let admitted = (0..2 * MESSAGES_AT_ONCE).filter(|_| registry.admit(1, now).is_ok());
        assert_eq!(admitted.count(), MESSAGES_AT_ONCE as usize);
        assert_eq!(registry.admit(2, now), Ok(()));
        assert_eq!(registry.admit(9, now), Err(Refusal::Unknown));
    }
}
