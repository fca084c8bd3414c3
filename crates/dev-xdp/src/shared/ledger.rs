//! Whose the ports and flows of an interface are: each is one process's.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;

use dev_core::Protocol;

use crate::table::Port;

mod groups;

pub(super) use groups::GroupChange;
use groups::Groups;

/// A flow of one peer.
pub(super) type PeerFlow = (Port, SocketAddr);

/// What one process has.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) ports: HashSet<Port>,
    pub(super) flows: HashSet<PeerFlow>,
    /// Flows that are the kernel's though their port is not.
    pub(super) exemptions: HashSet<PeerFlow>,
}

/// By the number of a port, who has what there. The program knows one process for each number that
/// is redirected, and looks for that before it looks for flows.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    holdings: HashMap<u8, Holdings>,
    ports: HashMap<(Protocol, u16), Users>,
    groups: Groups,
}

/// Of one number: how many ports, and flows, each process has.
#[derive(Debug, Default)]
struct Users {
    port: Option<(u8, u32)>,
    flows: HashMap<u8, u32>,
}

impl Ledger {
    /// A process has a port. Whether it is its first with this number.
    ///
    /// # Errors
    /// `EADDRINUSE`: another process has one with the number, or a flow.
    pub(super) fn add_port(&mut self, place: u8, port: Port) -> io::Result<bool> {
        let holdings = self.holdings.entry(place).or_default();
        if holdings.ports.contains(&port) {
            return Ok(false);
        }
        if self.groups.has(port) {
            return Err(in_use());
        }
        let users = self.ports.entry((port.0, port.1.port())).or_default();
        let has_other = users.flows.keys().any(|other| *other != place);
        let count = match users.port {
            Some((other, _)) if other != place => return Err(in_use()),
            _ if has_other => return Err(in_use()),
            Some((_, count)) => count,
            None => 0,
        };
        users.port = Some((place, count + 1));
        holdings.ports.insert(port);
        Ok(count == 0)
    }

    /// A process has a port together with others.
    ///
    /// # Errors
    /// `EADDRINUSE`: a process has it alone, or others have another address. `ENOSPC`: no room.
    pub(super) fn join_port(
        &mut self,
        place: u8,
        port: Port,
        inode: u64,
    ) -> io::Result<GroupChange> {
        let users = self.ports.get(&(port.0, port.1.port()));
        if users.is_some_and(|it| it.port.is_some()) {
            return Err(in_use());
        }
        let change = self.groups.join(place, port, inode)?;
        let holdings = self.holdings.entry(place).or_default();
        holdings.ports.insert(port);
        Ok(change)
    }

    /// It has it no longer. `None`: it had none.
    pub(super) fn leave_port(&mut self, place: u8, port: Port) -> Option<GroupChange> {
        let change = self.groups.leave(place, port)?;
        let holdings = self.holdings.entry(place).or_default();
        holdings.ports.remove(&port);
        Some(change)
    }

    /// Those that a process has together with others.
    pub(super) fn ports_in_groups(&self, place: u8) -> Vec<Port> {
        let held = self.holdings.get(&place).into_iter();
        let ports = held.flat_map(|it| &it.ports).copied();
        ports
            .filter(|port| self.groups.is_member(place, *port))
            .collect()
    }

    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Whether the process had it.
    pub(super) fn remove_port(&mut self, place: u8, port: Port) -> bool {
        let holdings = self.holdings.entry(place).or_default();
        if !holdings.ports.remove(&port) {
            return false;
        }
        self.change(port, |users| {
            users.port = users
                .port
                .and_then(|(place, count)| (count > 1).then(|| (place, count - 1)));
        });
        true
    }

    pub(super) fn has_port(&self, place: u8, port: Port) -> bool {
        let holdings = self.holdings.get(&place);
        holdings.is_some_and(|it| it.ports.contains(&port))
    }

    /// A process has a flow.
    ///
    /// # Errors
    /// `EADDRINUSE`: another process has it, or its port.
    pub(super) fn add_flow(&mut self, place: u8, flow: PeerFlow) -> io::Result<()> {
        let mut others = self.holdings.iter().filter(|(other, _)| **other != place);
        if others.any(|(_, it)| it.flows.contains(&flow)) {
            return Err(in_use());
        }
        let users = self.ports.entry((flow.0.0, flow.0.1.port())).or_default();
        if users.port.is_some_and(|(other, _)| other != place) {
            return Err(in_use());
        }
        let holdings = self.holdings.entry(place).or_default();
        if holdings.flows.insert(flow) {
            *users.flows.entry(place).or_default() += 1;
        }
        Ok(())
    }

    pub(super) fn has_flow(&self, place: u8, flow: PeerFlow) -> bool {
        let holdings = self.holdings.get(&place);
        holdings.is_some_and(|it| it.flows.contains(&flow))
    }

    /// Whether the process had it.
    pub(super) fn remove_flow(&mut self, place: u8, flow: PeerFlow) -> bool {
        let holdings = self.holdings.entry(place).or_default();
        if !holdings.flows.remove(&flow) {
            return false;
        }
        self.change(flow.0, |users| {
            if let Some(count) = users.flows.get_mut(&place) {
                *count -= 1;
                if *count == 0 {
                    users.flows.remove(&place);
                }
            }
        });
        true
    }

    /// A flow of a process's is the kernel's, at a port that it has.
    ///
    /// # Errors
    /// `EACCES`: the process has no such port.
    pub(super) fn add_exemption(&mut self, place: u8, flow: PeerFlow) -> io::Result<()> {
        let number = (flow.0.0, flow.0.1.port());
        let users = self.ports.get(&number).and_then(|users| users.port);
        if users.is_none_or(|(owner, _)| owner != place) {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        let holdings = self.holdings.entry(place).or_default();
        holdings.exemptions.insert(flow);
        Ok(())
    }

    /// Whether there was one.
    pub(super) fn remove_exemption(&mut self, place: u8, flow: PeerFlow) -> bool {
        let holdings = self.holdings.entry(place).or_default();
        holdings.exemptions.remove(&flow)
    }

    /// All that a process has, which it has no longer, but for what it has together with others.
    pub(super) fn remove_all(&mut self, place: u8) -> Holdings {
        let holdings = self.holdings.remove(&place).unwrap_or_default();
        for port in &holdings.ports {
            self.change(*port, |users| users.port = None);
        }
        for (port, _) in &holdings.flows {
            self.change(*port, |users| _ = users.flows.remove(&place));
        }
        holdings
    }

    /// The ports of a process, and how many flows it has.
    pub(super) fn held_by(&self, place: u8) -> (Vec<Port>, usize) {
        let Some(holdings) = self.holdings.get(&place) else {
            return Default::default();
        };
        let mut ports: Vec<_> = holdings.ports.iter().copied().collect();
        ports.sort_unstable_by_key(|(protocol, local)| (*protocol as u8, *local));
        (ports, holdings.flows.len())
    }

    fn change(&mut self, port: Port, change: impl FnOnce(&mut Users)) {
        let number = (port.0, port.1.port());
        if let Some(users) = self.ports.get_mut(&number) {
            change(users);
            if users.port.is_none() && users.flows.is_empty() {
                self.ports.remove(&number);
            }
        }
    }
}

fn in_use() -> io::Error {
    io::Error::from_raw_os_error(libc::EADDRINUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(last: u8, number: u16) -> Port {
        (Protocol::Tcp, SocketAddr::from(([10, 0, 0, last], number)))
    }

    fn peer(number: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 1, 1], number))
    }

    /// Ports and flows of the first process.
    fn counted(ledger: &Ledger) -> usize {
        let (ports, flows) = ledger.held_by(0);
        ports.len() + flows
    }

    #[test]
    fn a_number_is_one_process_s() {
        let mut ledger = Ledger::default();
        assert!(ledger.add_port(0, port(1, 80)).unwrap());
        assert!(!ledger.add_port(0, port(2, 80)).unwrap(), "the same number");
        assert!(ledger.add_port(1, port(3, 80)).is_err());
        assert!(ledger.add_port(1, (Protocol::Udp, port(3, 80).1)).unwrap());
        assert!(ledger.add_flow(1, (port(1, 80), peer(5))).is_err());
        ledger.add_flow(0, (port(1, 80), peer(5))).unwrap();
        assert!(ledger.remove_port(0, port(1, 80)) && !ledger.remove_port(0, port(1, 80)));
        assert!(ledger.remove_port(0, port(2, 80)));
        assert!(ledger.add_port(1, port(3, 80)).is_err(), "a flow is there");
        assert!(ledger.remove_flow(0, (port(1, 80), peer(5))));
        assert!(ledger.add_port(1, port(3, 80)).unwrap());
    }

    #[test]
    fn flows_of_one_local_port_may_be_of_several_processes() {
        let mut ledger = Ledger::default();
        ledger.add_flow(0, (port(1, 4000), peer(1))).unwrap();
        ledger.add_flow(1, (port(1, 4000), peer(2))).unwrap();
        assert!(ledger.add_flow(1, (port(1, 4000), peer(1))).is_err());
        assert!(ledger.add_port(0, port(1, 4000)).is_err());
        assert!(!ledger.remove_flow(1, (port(1, 4000), peer(1))));
        assert!(ledger.remove_flow(1, (port(1, 4000), peer(2))));
        assert!(ledger.add_port(0, port(1, 4000)).unwrap());
    }

    #[test]
    fn exemptions_are_for_who_has_the_port() {
        let mut ledger = Ledger::default();
        let flow = (port(1, 80), peer(1));
        assert!(ledger.add_exemption(0, flow).is_err());
        ledger.add_port(0, port(0, 80)).unwrap();
        assert!(ledger.add_exemption(1, flow).is_err());
        ledger.add_exemption(0, flow).unwrap();
        assert!(ledger.remove_exemption(0, flow) && !ledger.remove_exemption(0, flow));
    }

    #[test]
    fn what_the_dead_had_is_free() {
        let mut ledger = Ledger::default();
        ledger.add_port(0, port(1, 80)).unwrap();
        ledger.add_port(0, port(2, 80)).unwrap();
        ledger.add_flow(0, (port(1, 99), peer(1))).unwrap();
        assert_eq!(counted(&ledger), 3);
        let had = ledger.remove_all(0);
        assert_eq!(
            (had.ports.len(), had.flows.len(), counted(&ledger)),
            (2, 1, 0)
        );
        assert!(ledger.ports.is_empty());
        assert!(ledger.add_port(1, port(1, 80)).unwrap());
        assert!(ledger.add_port(1, port(1, 99)).unwrap());
    }
}
