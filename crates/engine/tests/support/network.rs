//! A network configuration that the test changes.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dev_core::LinkSpec;
use engine::{InterfaceFacts, Network, NetworkChange, NextHop, NextHopKey, Resolution};

use super::{FIRST_LINK, OUR_IP, OUR_MAC, PEER_MAC, SECOND_IP, SECOND_LINK};

/// The configuration. Clones share it.
#[derive(Clone)]
pub struct TestNetwork(Arc<Inner>);

struct Inner {
    interfaces: Mutex<Vec<InterfaceFacts>>,
    next_hop: Mutex<NextHop>,
    exceptions: Mutex<HashMap<Ipv4Addr, NextHop>>,
    look_ups: AtomicU64,
    changes: Mutex<VecDeque<NetworkChange>>,
    during_look_up: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    members: Mutex<Members>,
    last_asked: Mutex<Option<NextHopKey>>,
}

/// The groups that the host is a member of, and whether they have changed. `None`: the kernel does
/// not say.
#[derive(Default)]
struct Members {
    groups: Option<Vec<Ipv4Addr>>,
    changed: Vec<Ipv4Addr>,
}

impl TestNetwork {
    /// Two interfaces; every destination is behind the first one.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            interfaces: Mutex::new(vec![
                interface(FIRST_LINK, OUR_IP),
                interface(SECOND_LINK, SECOND_IP),
            ]),
            next_hop: Mutex::new(through(FIRST_LINK, PEER_MAC)),
            exceptions: Mutex::default(),
            look_ups: AtomicU64::new(0),
            changes: Mutex::default(),
            during_look_up: Mutex::default(),
            members: Mutex::default(),
            last_asked: Mutex::default(),
        }))
    }

    pub fn set_interfaces(&self, interfaces: Vec<InterfaceFacts>) {
        *self.0.interfaces.lock().unwrap() = interfaces;
    }

    pub fn change_interfaces(&self, change: impl FnOnce(&mut Vec<InterfaceFacts>)) {
        change(&mut self.0.interfaces.lock().unwrap());
    }

    pub fn set_next_hop(&self, next_hop: NextHop) {
        *self.0.next_hop.lock().unwrap() = next_hop;
    }

    /// The way to one destination.
    pub fn set_next_hop_of(&self, destination: Ipv4Addr, next_hop: NextHop) {
        let mut exceptions = self.0.exceptions.lock().unwrap();
        exceptions.insert(destination, next_hop);
    }

    /// How often the engine has asked for a way.
    pub fn look_ups(&self) -> u64 {
        self.0.look_ups.load(Ordering::Relaxed)
    }

    /// What the next look for changes finds.
    pub fn announce(&self, change: NetworkChange) {
        self.0.changes.lock().unwrap().push_back(change);
    }

    /// What the engine has asked for last.
    pub fn last_asked(&self) -> Option<NextHopKey> {
        *self.0.last_asked.lock().unwrap()
    }

    /// Some process joins a group, or the last leaves it.
    pub fn set_member(&self, group: Ipv4Addr, is_member: bool) {
        let mut members = self.0.members.lock().unwrap();
        let groups = members.groups.get_or_insert_default();
        groups.retain(|it| *it != group);
        groups.extend(is_member.then_some(group));
        members.changed.push(group);
    }

    /// Runs once, in the middle of the next look-up.
    pub fn during_next_look_up(&self, action: impl FnOnce() + Send + 'static) {
        *self.0.during_look_up.lock().unwrap() = Some(Box::new(action));
    }
}

impl fmt::Debug for TestNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestNetwork").finish_non_exhaustive()
    }
}

impl Network for TestNetwork {
    fn interfaces(&self) -> Vec<InterfaceFacts> {
        self.0.interfaces.lock().unwrap().clone()
    }

    fn take_changes(&self) -> Option<NetworkChange> {
        self.0.changes.lock().unwrap().pop_front()
    }

    fn has_members(&self, _link_index: u32, group: IpAddr) -> Option<bool> {
        let members = self.0.members.lock().unwrap();
        let groups = members.groups.as_ref();
        groups.map(|groups| groups.iter().any(|it| IpAddr::V4(*it) == group))
    }

    fn take_member_changes(&self) -> Option<NetworkChange> {
        let changed = std::mem::take(&mut self.0.members.lock().unwrap().changed);
        let routes: Vec<_> = changed
            .into_iter()
            .map(|group| (group.into(), 32))
            .collect();
        let is_any = !routes.is_empty();
        is_any.then(|| NetworkChange {
            routes,
            ..NetworkChange::default()
        })
    }

    fn next_hop(&self, key: &NextHopKey) -> Resolution {
        let IpAddr::V4(destination) = key.destination else {
            panic!("no test has a socket over IPv6");
        };
        *self.0.last_asked.lock().unwrap() = Some(*key);
        self.0.look_ups.fetch_add(1, Ordering::Relaxed);
        let action = self.0.during_look_up.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        let exception = self.0.exceptions.lock().unwrap().get(&destination).copied();
        let next_hop = exception.unwrap_or_else(|| *self.0.next_hop.lock().unwrap());
        let neighbour = match next_hop {
            NextHop::Link { link_index, .. } => Some((link_index, destination.into())),
            NextHop::Kernel(_) => None,
        };
        Resolution {
            neighbour,
            ..next_hop.into()
        }
    }
}

/// An interface that can be accelerated.
pub fn interface(index: u32, address: Ipv4Addr) -> InterfaceFacts {
    InterfaceFacts {
        spec: LinkSpec {
            index,
            name: format!("test{index}"),
            mac: OUR_MAC,
            mtu: 1500,
            upper: None,
        },
        addresses: vec![address.into()],
        up: true,
        loopback: false,
        obstacle: String::new(),
    }
}

/// A next hop on a link.
pub fn through(link_index: u32, mac: [u8; 6]) -> NextHop {
    NextHop::Link {
        link_index,
        mac,
        source: if link_index == SECOND_LINK {
            SECOND_IP.into()
        } else {
            OUR_IP.into()
        },
        hop_limit: 0,
        mtu: 1500,
        mtu_locked: false,
    }
}
