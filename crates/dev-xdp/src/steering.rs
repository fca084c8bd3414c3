//! Which flows the XDP program redirects: 3-tuples (everything that reaches a port) and 5-tuples (one peer only),
//! kept in the program's two maps.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use dev_core::{Flow, Steering};

use crate::attachment::Attached;
use crate::bpf::BpfError;
use crate::bpf::program::{FlowMaps, PortMode};
use crate::flow_rules::FlowRules;
use crate::xsk;

/// The XDP program of an interface, and what we have put into its maps.
#[derive(Debug)]
pub struct XdpSteering {
    steered: Mutex<Steered>,
    sockets: Vec<Arc<OwnDescriptor>>,
}

#[derive(Debug)]
struct Steered {
    attached: Attached,
    ports: HashMap<(u8, SocketAddr), PortUse>,
    /// Flows of one peer that need no entry: everything that reaches their port comes here.
    covered: HashSet<Flow>,
    rules: FlowRules,
    /// Something was steered since [`Steering::rest_if_unused`] was last called.
    was_used: bool,
}

/// Why a port is in the program's port map.
#[derive(Clone, Copy, Debug, Default)]
struct PortUse {
    from_anyone: bool,
    exact_flows: u32,
}

impl PortUse {
    /// `None`: it is not there.
    fn mode(self) -> Option<PortMode> {
        if self.from_anyone {
            Some(PortMode::AnySource)
        } else {
            (self.exact_flows > 0).then_some(PortMode::ExactFlows)
        }
    }

    fn is_unused(self) -> bool {
        self.mode().is_none()
    }
}

impl XdpSteering {
    pub(crate) fn new(
        attached: Attached,
        sockets: Vec<Arc<OwnDescriptor>>,
        rules: FlowRules,
    ) -> Self {
        Self {
            steered: Mutex::new(Steered {
                attached,
                ports: HashMap::new(),
                covered: HashSet::new(),
                rules,
                was_used: true,
            }),
            sockets,
        }
    }

    fn steered(&self) -> MutexGuard<'_, Steered> {
        self.steered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what a port is used for, in as few calls as can be: that is most of what a connection costs here.
fn change_port(
    maps: &FlowMaps,
    flow: &Flow,
    before: Option<PortMode>,
    now: Option<PortMode>,
) -> Result<(), BpfError> {
    let (local, protocol) = (flow.local, flow.protocol as u8);
    match (before, now) {
        _ if before == now => Ok(()),
        (None, Some(mode)) => maps.add_new_port(local, protocol, mode),
        (Some(_), Some(mode)) => maps.add_port(local, protocol, mode),
        (Some(PortMode::ExactFlows), None) => taken_out(maps.remove_exact_port(local, protocol)),
        (_, None) => taken_out(maps.remove_port(local, protocol)),
    }
}

/// Takes a flow out of the maps, and its port if nothing uses it.
fn take_out(
    maps: &FlowMaps,
    flow: &Flow,
    before: Option<PortMode>,
    usage: PortUse,
) -> Result<(), BpfError> {
    let protocol = flow.protocol as u8;
    change_port(maps, flow, before, usage.mode())?;
    match flow.peer {
        Some(peer) => taken_out(maps.remove_flow(flow.local, peer, protocol)),
        None => Ok(()),
    }
}

/// One that was not there is as good.
fn taken_out(result: Result<(), BpfError>) -> Result<(), BpfError> {
    result.or_else(|error| match error.errno() {
        Some(libc::ENOENT) => Ok(()),
        _ => Err(error),
    })
}

impl Steering for XdpSteering {
    fn add(&self, flow: &Flow) -> io::Result<()> {
        let protocol = flow.protocol as u8;
        let Steered {
            attached,
            ports,
            covered,
            was_used,
            ..
        } = &mut *self.steered();
        *was_used = true;
        attached.resume()?;
        let maps = attached.maps();
        // From here on `remove` takes back whatever has been done.
        let usage = ports.entry((protocol, flow.local)).or_default();
        let before = usage.mode();
        match flow.peer {
            Some(_) if usage.from_anyone => {
                covered.insert(*flow);
            }
            // The exact flow goes in before its port does: the program looks at the port first.
            Some(peer) => {
                usage.exact_flows += 1;
                maps.add_flow(flow.local, peer, protocol)?;
            }
            None => usage.from_anyone = true,
        }
        Ok(change_port(maps, flow, before, usage.mode())?)
    }

    fn remove(&self, flow: &Flow) -> io::Result<()> {
        let protocol = flow.protocol as u8;
        let Steered {
            attached,
            ports,
            covered,
            rules,
            ..
        } = &mut *self.steered();
        rules.remove(flow);
        if covered.remove(flow) {
            return Ok(());
        }
        let Entry::Occupied(mut entry) = ports.entry((protocol, flow.local)) else {
            return Ok(());
        };
        let usage = entry.get_mut();
        let before = usage.mode();
        match flow.peer {
            Some(_) => usage.exact_flows = usage.exact_flows.saturating_sub(1),
            None => {
                usage.from_anyone = false;
                let is_here =
                    |other: &Flow| (other.protocol, other.local) == (flow.protocol, flow.local);
                for other in covered.extract_if(is_here) {
                    usage.exact_flows += 1;
                    if let Some(peer) = other.peer {
                        attached.maps().add_flow(other.local, peer, protocol)?;
                    }
                }
            }
        }
        let taken_out = take_out(attached.maps(), flow, before, *usage);
        if usage.is_unused() {
            entry.remove();
        }
        Ok(taken_out?)
    }

    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        self.steered().attached.set_mac(mac)
    }

    fn stamp_arrivals(&self) -> io::Result<()> {
        self.steered().attached.stamp()
    }

    fn rest_if_unused(&self) {
        let mut steered = self.steered();
        let was_used = std::mem::take(&mut steered.was_used);
        if !steered.ports.is_empty() {
            steered.was_used = true;
        } else if !was_used {
            steered.attached.rest();
        }
    }

    fn is_resting(&self) -> bool {
        let mut steered = self.steered();
        steered.was_used = true;
        steered.attached.is_resting()
    }

    fn bring(&self, flow: &Flow, receiver: usize) -> io::Result<()> {
        // The queue of the receiving side's number is one of its own.
        let queue = receiver as u32;
        self.steered().rules.bring(flow, queue)
    }

    fn process_ends(&self) {
        self.steered().rules.remove_all();
    }

    fn give_back(&self) {
        let mut steered = self.steered();
        steered.rules.remove_all();
        steered.attached.give_back();
    }

    fn dropped(&self) -> u64 {
        self.sockets
            .iter()
            .map(|fd| xsk::dropped(fd.as_raw_fd()))
            .sum()
    }
}
