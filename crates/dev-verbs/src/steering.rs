//! Which flows the device has rules for.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dev_core::{Carrier, ClockSample, Flow, Noted, Steering, at_any_address};
use rdma_core_sys::{create_flow, destroy_flow, ibv_flow};

use crate::clock::Clock;
use crate::events::{self, Left};
use crate::opened::Device;
use crate::pair::Pair;
use crate::rule::Rule;

/// The rules of an interface.
#[derive(Debug)]
pub struct VerbsSteering {
    devices: Box<[Arc<Device>]>,
    steered: Mutex<Steered>,
}

/// The provider's object of a rule.
#[derive(Debug)]
struct Handle(*mut ibv_flow);

// SAFETY: it is used under the lock only.
unsafe impl Send for Handle {}

/// What brings a flow: a rule of each device.
#[derive(Debug)]
struct Brought {
    ring: usize,
    /// The later of two precedences: see [`Steered::take_turns`].
    is_second: bool,
    handles: Vec<Handle>,
}

#[derive(Debug)]
struct Steered {
    /// By receiving side a queue pair of each device.
    rings: Vec<Box<[Arc<Pair>]>>,
    mac: [u8; 6],
    /// With the receiving side that each is to come by.
    flows: HashMap<Flow, usize>,
    addresses: HashSet<IpAddr>,
    /// Of flows at one address each.
    rules: HashMap<Flow, Brought>,
    /// A device has said that it, or its queues, have failed.
    is_lost: bool,
}

impl VerbsSteering {
    pub(crate) fn new(rings: Vec<Box<[Arc<Pair>]>>, mac: [u8; 6]) -> Self {
        let first = rings.first().into_iter().flatten();
        Self {
            devices: first.map(|pair| Arc::clone(&pair.device)).collect(),
            steered: Mutex::new(Steered {
                rings,
                mac,
                flows: HashMap::new(),
                addresses: HashSet::new(),
                rules: HashMap::new(),
                is_lost: false,
            }),
        }
    }

    fn steered(&self) -> MutexGuard<'_, Steered> {
        self.steered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clocks(&self) -> impl Iterator<Item = Option<&Clock>> {
        self.devices.iter().map(|device| device.clock.as_ref())
    }
}

/// Flow label and scope do not count.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

fn is_at_any(flow: &Flow) -> bool {
    flow.local.ip().is_unspecified() && flow.peer.is_none()
}

impl Steered {
    /// The flows at one address each that a flow stands for.
    fn rules_of(&self, flow: &Flow) -> Vec<Flow> {
        let at = |address| Flow {
            local: SocketAddr::new(address, flow.local.port()),
            peer: flow.peer.map(plain),
            ..*flow
        };
        if !is_at_any(flow) {
            return vec![at(flow.local.ip())];
        }
        let is_of_version = |address: &&IpAddr| address.is_ipv4() == flow.local.is_ipv4();
        let addresses = self.addresses.iter().filter(is_of_version);
        addresses.map(|address| at(*address)).collect()
    }

    /// The receiving side of a rule that any flow needs.
    fn ring_of(&self, rule: &Flow) -> Option<usize> {
        let any = Flow {
            local: at_any_address(rule.local),
            ..*rule
        };
        let is_here = rule.peer.is_none() && self.addresses.contains(&rule.local.ip());
        let of_any = || self.flows.get(&any).filter(|_| is_here);
        self.flows.get(rule).or_else(of_any).copied()
    }

    fn make(&self, flow: &Flow, ring: usize, is_second: bool) -> io::Result<Brought> {
        let mut brought = Brought {
            ring,
            is_second,
            handles: Vec::new(),
        };
        for pair in &self.rings[ring] {
            let device = &pair.device;
            device.refresh_numbers();
            let mut rule = Rule::new(flow, self.mac, device.tag, device.port);
            rule.set_precedence(flow.peer.is_some(), is_second);
            // SAFETY: the queue pair is live, and the rule is followed by what it asks.
            let handle = unsafe { create_flow(pair.qp, rule.as_mut_ptr()) };
            if handle.is_null() {
                let error = io::Error::last_os_error();
                let _ = self.end(brought);
                return Err(error);
            }
            brought.handles.push(Handle(handle));
        }
        Ok(brought)
    }

    fn end(&self, brought: Brought) -> io::Result<()> {
        let mut result = Ok(());
        for (Handle(handle), pair) in brought.handles.into_iter().zip(&self.rings[brought.ring]) {
            pair.device.refresh_numbers();
            // SAFETY: it comes from `create_flow`, and is in no table any more.
            match unsafe { destroy_flow(handle) } {
                0 => {}
                errno => result = Err(io::Error::from_raw_os_error(errno.abs())),
            }
        }
        result
    }

    /// Creates a rule that is needed, if it is not there.
    fn create(&mut self, flow: &Flow) -> io::Result<()> {
        let ring = self.ring_of(flow).unwrap_or(0);
        if self.rules.contains_key(flow) {
            return self.take_turns(flow, ring);
        }
        let brought = self.make(flow, ring, false)?;
        self.rules.insert(*flow, brought);
        Ok(())
    }

    /// Has a rule's packets come by this receiving side, if they do not. While one rule is made and
    /// the other ended both are there: one takes precedence, so that each packet comes once.
    fn take_turns(&mut self, flow: &Flow, ring: usize) -> io::Result<()> {
        let Some(known) = self.rules.get(flow).filter(|known| known.ring != ring) else {
            return Ok(());
        };
        let brought = self.make(flow, ring, !known.is_second)?;
        match self.rules.insert(*flow, brought) {
            Some(before) => self.end(before),
            None => Ok(()),
        }
    }

    fn destroy(&mut self, flow: &Flow) -> io::Result<()> {
        match self.rules.remove(flow) {
            Some(brought) => self.end(brought),
            None => Ok(()),
        }
    }

    fn destroy_unneeded(&mut self, rules: &[Flow]) -> io::Result<()> {
        let mut result = Ok(());
        for rule in rules {
            match self.ring_of(rule) {
                None => result = self.destroy(rule).and(result),
                Some(ring) => result = self.take_turns(rule, ring).and(result),
            }
        }
        result
    }
}

fn known(flow: &Flow) -> Flow {
    Flow {
        local: plain(flow.local),
        peer: flow.peer.map(plain),
        ..*flow
    }
}

impl Steering for VerbsSteering {
    fn add(&self, flow: &Flow) -> io::Result<()> {
        let mut steered = self.steered();
        let flow = known(flow);
        steered.flows.entry(flow).or_insert(0);
        for rule in steered.rules_of(&flow) {
            steered.create(&rule)?;
        }
        Ok(())
    }

    fn bring(&self, flow: &Flow, receiver: usize) -> io::Result<()> {
        let mut steered = self.steered();
        let flow = known(flow);
        if receiver >= steered.rings.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match steered.flows.get_mut(&flow) {
            Some(ring) => *ring = receiver,
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        for rule in steered.rules_of(&flow) {
            steered.create(&rule)?;
        }
        Ok(())
    }

    fn remove(&self, flow: &Flow) -> io::Result<()> {
        let mut steered = self.steered();
        let flow = known(flow);
        let rules = steered.rules_of(&flow);
        steered.flows.remove(&flow);
        steered.destroy_unneeded(&rules)
    }

    fn set_addresses(&self, now: &[IpAddr]) -> io::Result<()> {
        let mut steered = self.steered();
        steered.addresses = now.iter().copied().collect();
        let rules: Vec<_> = steered.rules.keys().copied().collect();
        let removed = steered.destroy_unneeded(&rules);
        let at_any = steered.flows.keys().filter(|flow| is_at_any(flow));
        let at_any: Vec<_> = at_any.copied().collect();
        for flow in at_any {
            for rule in steered.rules_of(&flow) {
                // Without a rule packets to it are the kernel's.
                let _ = steered.create(&rule);
            }
        }
        removed
    }

    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        let mut steered = self.steered();
        steered.mac = mac;
        let rules: Vec<_> = steered.rules.keys().copied().collect();
        for rule in rules {
            steered.destroy(&rule)?;
            steered.create(&rule)?;
        }
        Ok(())
    }

    fn stamp_arrivals(&self, noted: Noted) -> io::Result<()> {
        if self.clocks().any(|clock| clock.is_none()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut clocks = self.clocks().flatten();
        clocks.try_for_each(|clock| clock.want(noted != Noted::Nothing))
    }

    /// Of the device that is active, or of the first.
    fn clock_sample(&self) -> io::Result<ClockSample> {
        let active = self.devices.iter().find(|device| device.is_active());
        let device = active.or_else(|| self.devices.first());
        let clock = device.and_then(|device| device.clock.as_ref());
        clock.ok_or(io::ErrorKind::Unsupported)?.compare()
    }

    fn settle(&self) {
        for clock in self.clocks().flatten().filter(|clock| clock.is_wanted()) {
            // What was known last is good enough for the packets of another second.
            let _ = clock.compare();
        }
    }

    fn follow_carriers(&self, carriers: &[Carrier]) {
        self.devices.iter().for_each(|it| it.follow(carriers));
    }

    fn rest_if_unused(&self) {}

    fn is_resting(&self) -> bool {
        false
    }

    fn has_flows(&self) -> bool {
        !self.steered().flows.is_empty()
    }

    fn is_taken_away(&self) -> bool {
        let mut steered = self.steered();
        for device in &self.devices {
            while let Some(left) = events::take(device) {
                match left {
                    Left::All(what) => log::info!("RDMA device {}: {what}", device.name),
                    Left::Nothing(what) => {
                        log::warn!("RDMA device {}: {what}", device.name);
                        steered.is_lost = true;
                    }
                }
            }
        }
        steered.is_lost
    }

    fn give_back(&self) {
        let mut steered = self.steered();
        steered.flows.clear();
        let rules: Vec<_> = steered.rules.keys().copied().collect();
        for rule in rules {
            let _ = steered.destroy(&rule);
        }
    }

    fn dropped(&self) -> u64 {
        0
    }
}
