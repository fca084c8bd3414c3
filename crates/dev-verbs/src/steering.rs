//! Which flows the device has rules for.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dev_core::{ClockSample, Flow, Noted, Steering, at_any_address};
use rdma_core_sys::{create_flow, destroy_flow, ibv_flow};

use crate::events::{self, Left};
use crate::opened::Opened;
use crate::rule::Rule;

/// The rules of an interface.
#[derive(Debug)]
pub struct VerbsSteering {
    device: Arc<Opened>,
    steered: Mutex<Steered>,
}

/// The provider's object of a rule.
#[derive(Debug)]
struct Handle(*mut ibv_flow);

// SAFETY: it is used under the lock only.
unsafe impl Send for Handle {}

#[derive(Debug)]
struct Steered {
    device: Arc<Opened>,
    mac: [u8; 6],
    flows: HashSet<Flow>,
    addresses: HashSet<IpAddr>,
    /// Of flows at one address each.
    rules: HashMap<Flow, Handle>,
    /// The device has said that it, or its queues, have failed.
    is_lost: bool,
}

impl VerbsSteering {
    pub(crate) fn new(device: Arc<Opened>, mac: [u8; 6]) -> Self {
        Self {
            device: Arc::clone(&device),
            steered: Mutex::new(Steered {
                device,
                mac,
                flows: HashSet::new(),
                addresses: HashSet::new(),
                rules: HashMap::new(),
                is_lost: false,
            }),
        }
    }

    fn steered(&self) -> MutexGuard<'_, Steered> {
        self.steered.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether any flow needs the rule.
    fn is_needed(&self, rule: &Flow) -> bool {
        let any = Flow {
            local: at_any_address(rule.local),
            ..*rule
        };
        self.flows.contains(rule)
            || rule.peer.is_none()
                && self.flows.contains(&any)
                && self.addresses.contains(&rule.local.ip())
    }

    fn create(&mut self, flow: &Flow) -> io::Result<()> {
        if self.rules.contains_key(flow) {
            return Ok(());
        }
        self.device.refresh_numbers();
        let mut rule = Rule::new(flow, self.mac, self.device.port);
        // SAFETY: the queue pair is live, and the rule is followed by what it asks.
        let handle = unsafe { create_flow(self.device.qp, rule.as_mut_ptr()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        self.rules.insert(*flow, Handle(handle));
        Ok(())
    }

    fn destroy(&mut self, flow: &Flow) -> io::Result<()> {
        let Some(Handle(handle)) = self.rules.remove(flow) else {
            return Ok(());
        };
        self.device.refresh_numbers();
        // SAFETY: it comes from `create_flow`, and was taken out of the table.
        match unsafe { destroy_flow(handle) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno.abs())),
        }
    }

    fn destroy_unneeded(&mut self, rules: &[Flow]) -> io::Result<()> {
        let mut result = Ok(());
        for rule in rules {
            if !self.is_needed(rule) {
                result = self.destroy(rule).and(result);
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
        steered.flows.insert(flow);
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
        let at_any = steered.flows.iter().filter(|flow| is_at_any(flow));
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
        match &self.device.clock {
            Some(clock) => clock.want(noted != Noted::Nothing),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn clock_sample(&self) -> io::Result<ClockSample> {
        let clock = self.device.clock.as_ref();
        clock.ok_or(io::ErrorKind::Unsupported)?.compare()
    }

    fn settle(&self) {
        let clock = self.device.clock.as_ref();
        if let Some(clock) = clock.filter(|clock| clock.is_wanted()) {
            // What was known last is good enough for the packets of another second.
            let _ = clock.compare();
        }
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
        while let Some(left) = events::take(&steered.device) {
            match left {
                Left::All(what) => log::info!("RDMA device: {what}"),
                Left::Nothing(what) => {
                    log::warn!("RDMA device: {what}");
                    steered.is_lost = true;
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
