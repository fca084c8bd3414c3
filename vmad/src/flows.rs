//! Which packets processes want redirected to a TAP device, and which of them want it still.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddrV4;

/// Packets that are to go to a TAP device, or come from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The interface that other hosts are reached by.
    pub link: u32,
    pub tap: u32,
    pub direction: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// What comes from the TAP device goes out of the interface, or to this host if it is for this
    /// host.
    Egress,
    /// What arrives at the interface, or is sent by this host, goes to the TAP device.
    Ingress {
        protocol: Protocol,
        destination: SocketAddrV4,
        /// `None` is anybody.
        source: Option<SocketAddrV4>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Udp,
    Tcp,
}

/// Why a flow is not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {FLOWS_MAX} flows already")]
pub struct Full;

/// Of all processes.
const FLOWS_MAX: usize = 4096;

/// The flows of all processes. Several may want the same.
#[derive(Debug, Default)]
pub struct Flows {
    /// Processes, by number.
    wanted_by: HashMap<Flow, BTreeSet<u32>>,
}

impl Flows {
    /// True if nobody wanted it before.
    pub fn add(&mut self, process: u32, flow: Flow) -> Result<bool, Full> {
        let is_new = !self.wanted_by.contains_key(&flow);
        if is_new && self.wanted_by.len() >= FLOWS_MAX {
            return Err(Full);
        }
        self.wanted_by.entry(flow).or_default().insert(process);
        Ok(is_new)
    }

    /// True if nobody wants it any more.
    pub fn remove(&mut self, process: u32, flow: &Flow) -> bool {
        let Some(processes) = self.wanted_by.get_mut(flow) else {
            return false;
        };
        let is_last = processes.remove(&process) && processes.is_empty();
        if is_last {
            self.wanted_by.remove(flow);
        }
        is_last
    }

    /// The process has ended: what nobody wants any more.
    pub fn end(&mut self, process: u32) -> Vec<Flow> {
        let flows: Vec<Flow> = self.wanted_by.keys().copied().collect();
        flows
            .into_iter()
            .filter(|flow| self.remove(process, flow))
            .collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.wanted_by.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.wanted_by.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(tap: u32) -> Flow {
        Flow {
            link: 2,
            tap,
            direction: Direction::Egress,
        }
    }

    #[test]
    fn a_flow_stays_until_the_last_who_wants_it_is_gone() {
        let mut flows = Flows::default();
        assert_eq!(flows.add(1, flow(3)), Ok(true));
        assert_eq!(flows.add(1, flow(3)), Ok(false));
        assert_eq!(flows.add(2, flow(3)), Ok(false));
        assert_eq!(flows.add(2, flow(4)), Ok(true));
        assert!(!flows.remove(3, &flow(3)), "not its own");
        assert!(!flows.remove(1, &flow(3)));
        assert!(!flows.remove(1, &flow(3)), "twice");
        assert_eq!(flows.len(), 2);
        let mut ended = flows.end(2);
        ended.sort_by_key(|flow| flow.tap);
        assert_eq!(ended, [flow(3), flow(4)]);
        assert!(flows.is_empty());
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut flows = Flows::default();
        for tap in 0..u32::try_from(FLOWS_MAX).unwrap() {
            assert_eq!(flows.add(1, flow(tap)), Ok(true));
        }
        assert_eq!(flows.add(2, flow(u32::MAX)), Err(Full));
        assert_eq!(flows.add(2, flow(0)), Ok(false), "an old one");
    }
}
