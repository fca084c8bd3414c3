//! Which flows the XDP program redirects: 3-tuples (everything that reaches a port) and 5-tuples (one peer only),
//! kept in the program's two maps.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use dev_core::{Flow, Protocol, Steering};

use crate::attachment::Attached;
use crate::bpf::BpfError;
use crate::farewell;
use crate::flow_rules::FlowRules;
use crate::xsk::{self, Mapping};

/// The XDP program of an interface, and what we have put into its maps.
#[derive(Debug)]
pub struct XdpSteering {
    steered: Mutex<Steered>,
    sockets: Vec<Arc<OwnDescriptor>>,
    /// What the process's end would wait for.
    slow_to_close: Vec<Arc<OwnDescriptor>>,
    queues: Queues,
}

/// What keeps the interface's queues from other processes.
#[derive(Debug)]
pub(crate) struct Queues {
    /// The sockets that have them.
    pub(crate) sockets: Vec<Arc<OwnDescriptor>>,
    /// Their rings.
    pub(crate) rings: Vec<Mapping>,
}

impl Queues {
    /// Lets go of them: the rings stay as they are, and nobody else has them.
    ///
    /// # Safety
    /// Nobody but the kernel may write to the rings meanwhile.
    unsafe fn close(&self) -> io::Result<()> {
        let stand_in = xsk::silent_descriptor()?;
        for ring in &self.rings {
            // SAFETY: the caller's promise.
            unsafe { ring.detach() }?;
        }
        self.sockets
            .iter()
            .for_each(|socket| socket.become_copy_of(&stand_in));
        Ok(())
    }
}

#[derive(Debug)]
struct Steered {
    attached: Attached,
    /// Ports that everything comes here for, at one address or, with the unspecified one, at any of the interface.
    ports: HashSet<(Protocol, SocketAddr)>,
    /// The addresses of the interface.
    addresses: HashSet<IpAddr>,
    /// Flows of one peer, but for those that are covered.
    exact: HashSet<Flow>,
    /// Flows of one peer that need no entry: everything that reaches their port comes here.
    covered: HashSet<Flow>,
    /// Peers whose packets to one of the ports are the kernel's.
    exempt: HashMap<(Protocol, SocketAddr), HashSet<SocketAddr>>,
    rules: FlowRules,
    /// Something was steered since [`Steering::rest_if_unused`] was last called.
    was_used: bool,
}

impl XdpSteering {
    pub(crate) fn new(
        attached: Attached,
        sockets: Vec<Arc<OwnDescriptor>>,
        slow_to_close: Vec<Arc<OwnDescriptor>>,
        queues: Queues,
        rules: FlowRules,
    ) -> Self {
        Self {
            steered: Mutex::new(Steered {
                attached,
                ports: HashSet::new(),
                addresses: HashSet::new(),
                exact: HashSet::new(),
                covered: HashSet::new(),
                exempt: HashMap::new(),
                rules,
                was_used: true,
            }),
            sockets,
            slow_to_close,
            queues,
        }
    }

    fn steered(&self) -> MutexGuard<'_, Steered> {
        self.steered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steered {
    /// Whether the map has room for all flows of one peer, those with it that have no entry while their port is steered: else they could
    /// not go on without the port.
    fn has_room(&self) -> bool {
        let flows = self.exact.len() + self.covered.len() + self.exemptions();
        flows < self.attached.maps().capacity() as usize
    }

    fn exemptions(&self) -> usize {
        self.exempt.values().map(HashSet::len).sum()
    }

    fn has_flows(&self) -> bool {
        !self.ports.is_empty() || !self.exact.is_empty()
    }

    fn exempt(&mut self, flow: &Flow) -> io::Result<bool> {
        let (port, protocol) = ((flow.protocol, flow.local), flow.protocol as u8);
        let Some(peer) = flow.peer.filter(|_| self.ports.contains(&port)) else {
            return Ok(false);
        };
        if !self.has_room() {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let maps = self.attached.maps();
        maps.add_exemption(flow.local, peer, protocol)?;
        let peers = self.exempt.entry(port).or_default();
        if peers.is_empty()
            && let Err(error) = maps.port_has_exemptions(flow.local, protocol)
        {
            let _ = maps.remove_exemption(flow.local, peer, protocol);
            return Err(error.into());
        }
        peers.insert(peer);
        Ok(true)
    }

    fn end_exemption(&mut self, flow: &Flow) -> io::Result<()> {
        let (port, protocol) = ((flow.protocol, flow.local), flow.protocol as u8);
        let (Some(peer), Some(peers)) = (flow.peer, self.exempt.get_mut(&port)) else {
            return Ok(());
        };
        if !peers.remove(&peer) {
            return Ok(());
        }
        let is_last = peers.is_empty();
        let maps = self.attached.maps();
        taken_out(maps.remove_exemption(flow.local, peer, protocol))?;
        if is_last {
            self.exempt.remove(&port);
            maps.add_port(flow.local, protocol)?;
        }
        Ok(())
    }

    /// The port is not steered any more: nothing is exempt from that.
    fn end_exemptions(&mut self, port: (Protocol, SocketAddr)) -> Result<(), BpfError> {
        for peer in self.exempt.remove(&port).unwrap_or_default() {
            let maps = self.attached.maps();
            taken_out(maps.remove_exemption(port.1, peer, port.0 as u8))?;
        }
        Ok(())
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
        let mut steered = self.steered();
        // A new connection with the addresses of an earlier one.
        steered.end_exemption(flow)?;
        if flow.peer.is_some() && !steered.has_room() {
            // This one alone is not for us.
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let Steered {
            attached,
            ports,
            exact,
            covered,
            was_used,
            ..
        } = &mut *steered;
        *was_used = true;
        attached.resume()?;
        let maps = attached.maps();
        let port = (flow.protocol, flow.local);
        // From here on `remove` takes back whatever has been done.
        match flow.peer {
            Some(_) if ports.contains(&port) => {
                covered.insert(*flow);
            }
            Some(peer) => {
                exact.insert(*flow);
                maps.add_flow(flow.local, peer, protocol)?;
            }
            None if flow.local.ip().is_unspecified() => {
                if flow.protocol != Protocol::Udp {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                ports.insert(port);
                maps.add_wildcard(flow.local.port(), flow.local.is_ipv6())?;
            }
            None => {
                ports.insert(port);
                maps.add_port(flow.local, protocol)?;
            }
        }
        Ok(())
    }

    fn remove(&self, flow: &Flow) -> io::Result<()> {
        let protocol = flow.protocol as u8;
        let mut steered = self.steered();
        let Steered {
            attached,
            ports,
            exact,
            covered,
            rules,
            ..
        } = &mut *steered;
        rules.remove(flow);
        let maps = attached.maps();
        let Some(peer) = flow.peer else {
            let port = (flow.protocol, flow.local);
            if !ports.remove(&port) {
                return Ok(());
            }
            if flow.local.ip().is_unspecified() {
                return Ok(maps.remove_wildcard(flow.local.port(), flow.local.is_ipv6())?);
            }
            let is_here = |other: &Flow| (other.protocol, other.local) == port;
            for other in covered.extract_if(is_here) {
                exact.insert(other);
                if let Some(peer) = other.peer {
                    maps.add_flow(other.local, peer, protocol)?;
                }
            }
            taken_out(maps.remove_port(flow.local, protocol))?;
            return Ok(steered.end_exemptions(port)?);
        };
        if covered.remove(flow) || !exact.remove(flow) {
            return Ok(());
        }
        Ok(taken_out(maps.remove_flow(flow.local, peer, protocol))?)
    }

    fn set_addresses(&self, now: &[IpAddr]) -> io::Result<()> {
        let mut steered = self.steered();
        let Steered {
            attached,
            addresses,
            ..
        } = &mut *steered;
        let now: HashSet<IpAddr> = now.iter().copied().collect();
        let gone: Vec<_> = addresses.difference(&now).copied().collect();
        for address in gone {
            taken_out(attached.maps().remove_address(address))?;
            addresses.remove(&address);
        }
        for address in now {
            // Without room packets to it are the kernel's, unless they are for it alone.
            if !addresses.contains(&address) && attached.maps().add_address(address).is_ok() {
                addresses.insert(address);
            }
        }
        Ok(())
    }

    fn exempt(&self, flow: &Flow) -> io::Result<bool> {
        self.steered().exempt(flow)
    }

    fn exemptions(&self) -> usize {
        self.steered().exemptions()
    }

    fn end_exemption(&self, flow: &Flow) -> io::Result<()> {
        self.steered().end_exemption(flow)
    }

    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        self.steered().attached.set_mac(mac)
    }

    fn stamp_arrivals(&self, are_noted: bool) -> io::Result<()> {
        self.steered().attached.stamp(are_noted)
    }

    fn rest_if_unused(&self) {
        let mut steered = self.steered();
        let was_used = std::mem::take(&mut steered.was_used);
        if steered.has_flows() {
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

    fn has_flows(&self) -> bool {
        self.steered().has_flows()
    }

    fn is_taken_away(&self) -> bool {
        self.steered().attached.is_taken_away()
    }

    fn bring(&self, flow: &Flow, receiver: usize) -> io::Result<()> {
        // The queue of the receiving side's number is one of its own.
        let queue = receiver as u32;
        self.steered().rules.bring(flow, queue)
    }

    fn give_back(&self) {
        let mut steered = self.steered();
        steered.rules.remove_all();
        steered.attached.give_back();
    }

    fn close_if_unused(&self) -> io::Result<bool> {
        let mut steered = self.steered();
        if steered.has_flows() {
            return Ok(false);
        }
        steered.rules.remove_all();
        steered.attached.close();
        // SAFETY: the caller has all rings (contract of the trait).
        unsafe { self.queues.close() }?;
        Ok(true)
    }

    fn process_ends(&self) {
        self.steered().rules.remove_all();
        let fds: Vec<_> = self.slow_to_close.iter().map(|fd| fd.as_raw_fd()).collect();
        // Else the end takes longer.
        let _ = farewell::leave_to_kernel(&fds);
    }

    fn dropped(&self) -> u64 {
        self.sockets
            .iter()
            .map(|fd| xsk::dropped(fd.as_raw_fd()))
            .sum()
    }
}
