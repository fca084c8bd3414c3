//! Which flows the XDP program redirects: 3-tuples (everything that reaches a port) and 5-tuples
//! (one peer only), kept in the program's two maps.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use dev_core::{ClockSample, Flow, Noted, Protocol, Steering, at_any_address};

use crate::exit;
use crate::flow_rules::FlowRules;
use crate::table::{FLOW_CAPACITY, Port, Table};
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
    table: Table,
    /// Ports that everything comes here for, at one address or, with the unspecified one, at any of
    /// the interface.
    ports: HashSet<(Protocol, SocketAddr)>,
    /// The addresses of the interface.
    addresses: HashSet<IpAddr>,
    /// Flows of one peer, but for those that are covered.
    exact: HashSet<Flow>,
    /// Flows of one peer that need no entry: everything that reaches their port comes here.
    covered: HashSet<Flow>,
    /// Local ends and peers whose packets to one of the ports are the kernel's.
    exempt: HashMap<(Protocol, SocketAddr), HashSet<(SocketAddr, SocketAddr)>>,
    rules: FlowRules,
    joined: Joined,
    /// Something was steered since [`Steering::rest_if_unused`] was last called.
    was_used: bool,
}

/// Ports that other processes have, too, and their connections: the program knows those by the SYN,
/// and forgets them when many have come since.
#[derive(Debug, Default)]
struct Joined {
    ports: HashSet<Port>,
    /// Those of the time since the last look, and of that before.
    young: Vec<Flow>,
    old: Vec<Flow>,
    /// Those that have entries though they are covered.
    settled: HashSet<Flow>,
}

impl Joined {
    fn note(&mut self, flow: &Flow) {
        if !self.ports.is_empty() {
            self.young.push(*flow);
        }
    }

    /// Those that have been there since before the last time.
    fn next_old(&mut self) -> Vec<Flow> {
        let young = std::mem::take(&mut self.young);
        std::mem::replace(&mut self.old, young)
    }
}

impl XdpSteering {
    pub(crate) fn new(
        table: Table,
        sockets: Vec<Arc<OwnDescriptor>>,
        slow_to_close: Vec<Arc<OwnDescriptor>>,
        queues: Queues,
        rules: FlowRules,
    ) -> Self {
        Self {
            steered: Mutex::new(Steered {
                table,
                ports: HashSet::new(),
                addresses: HashSet::new(),
                exact: HashSet::new(),
                covered: HashSet::new(),
                exempt: HashMap::new(),
                rules,
                joined: Joined::default(),
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
    /// Whether the map has room for all flows of one peer, those with it that have no entry while
    /// their port is steered: else they could not go on without the port.
    fn has_room(&self) -> bool {
        let flows = self.exact.len() + self.covered.len() + self.exemptions();
        flows < FLOW_CAPACITY as usize
    }

    fn exemptions(&self) -> usize {
        self.exempt.values().map(HashSet::len).sum()
    }

    fn has_flows(&self) -> bool {
        !self.ports.is_empty() || !self.exact.is_empty()
    }

    /// The port that brings a flow's packets here, for all that reaches it comes here: at its
    /// address, or at any of the interface.
    fn port_of(&self, flow: &Flow) -> Option<(Protocol, SocketAddr)> {
        let port = (flow.protocol, flow.local);
        if self.ports.contains(&port) {
            return Some(port);
        }
        let any = (flow.protocol, at_any_address(flow.local));
        let is_here = self.ports.contains(&any) && self.addresses.contains(&flow.local.ip());
        is_here.then_some(any)
    }

    /// Whether a flow of one peer needs no entry. Of datagrams to a port that others have, too, it
    /// does.
    fn is_covered(&self, flow: &Flow) -> bool {
        let port = self.port_of(flow);
        port.is_some_and(|it| it.0 == Protocol::Tcp || !self.joined.ports.contains(&it))
    }

    /// A connection gets an entry that nothing displaces, if it is there still.
    fn settle(&mut self, flow: &Flow) {
        let Some(peer) = flow.peer else {
            return;
        };
        let port = self.port_of(flow);
        let is_joined = port.is_some_and(|it| self.joined.ports.contains(&it));
        if !is_joined || !self.covered.contains(flow) || self.joined.settled.contains(flow) {
            return;
        }
        let added = self.table.add_flow((flow.protocol, flow.local), peer);
        if added.is_ok() {
            self.joined.settled.insert(*flow);
        }
    }

    fn exempt(&mut self, flow: &Flow) -> io::Result<bool> {
        let (Some(peer), Some(port)) = (flow.peer, self.port_of(flow)) else {
            return Ok(false);
        };
        if !self.has_room() {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        self.table
            .add_exemption((flow.protocol, flow.local), peer)?;
        let ends = self.exempt.entry(port).or_default();
        if ends.is_empty()
            && let Err(error) = self.table.port_has_exemptions(port)
        {
            let _ = self
                .table
                .remove_exemption((flow.protocol, flow.local), peer);
            return Err(error);
        }
        ends.insert((flow.local, peer));
        Ok(true)
    }

    fn end_exemption(&mut self, flow: &Flow) -> io::Result<()> {
        let Some(peer) = flow.peer.filter(|_| !self.exempt.is_empty()) else {
            return Ok(());
        };
        // The address may not be the interface's any more.
        for local in [flow.local, at_any_address(flow.local)] {
            let port = (flow.protocol, local);
            let Some(ends) = self.exempt.get_mut(&port) else {
                continue;
            };
            if !ends.remove(&(flow.local, peer)) {
                continue;
            }
            let is_last = ends.is_empty();
            self.table
                .remove_exemption((flow.protocol, flow.local), peer)?;
            if is_last {
                self.exempt.remove(&port);
                self.table.add(port)?;
            }
        }
        Ok(())
    }

    /// The port is not steered any more: nothing is exempt from that.
    fn end_exemptions(&mut self, port: Port) -> io::Result<()> {
        for (local, peer) in self.exempt.remove(&port).unwrap_or_default() {
            self.table.remove_exemption((port.0, local), peer)?;
        }
        Ok(())
    }

    /// Has flows that needed no entry so far, and are `among` these, have one if they need it now.
    fn uncover(&mut self, among: impl Fn(&Flow) -> bool) -> io::Result<()> {
        let mut covered = std::mem::take(&mut self.covered);
        let needs_entry = |flow: &Flow| among(flow) && self.port_of(flow).is_none();
        let uncovered: Vec<_> = covered.extract_if(needs_entry).collect();
        self.covered = covered;
        for flow in uncovered {
            self.exact.insert(flow);
            let has_entry = self.joined.settled.remove(&flow);
            if let Some(peer) = flow.peer.filter(|_| !has_entry) {
                self.table.add_flow((flow.protocol, flow.local), peer)?;
            }
        }
        Ok(())
    }
}

impl Steering for XdpSteering {
    fn add(&self, flow: &Flow) -> io::Result<()> {
        let mut steered = self.steered();
        // A new connection with the addresses of an earlier one.
        steered.end_exemption(flow)?;
        if flow.peer.is_some() && !steered.has_room() {
            // This one alone is not for us.
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        steered.was_used = true;
        steered.table.resume()?;
        // From here on `remove` takes back whatever has been done.
        match flow.peer {
            Some(_) if steered.is_covered(flow) => {
                steered.covered.insert(*flow);
                steered.joined.note(flow);
            }
            Some(peer) => {
                steered.exact.insert(*flow);
                steered.table.add_flow((flow.protocol, flow.local), peer)?;
            }
            None => {
                let port = (flow.protocol, flow.local);
                steered.ports.insert(port);
                steered.table.add(port)?;
            }
        }
        Ok(())
    }

    fn join(&self, flow: &Flow, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut steered = self.steered();
        steered.was_used = true;
        steered.table.resume()?;
        let port = (flow.protocol, flow.local);
        steered.ports.insert(port);
        if steered.table.join(port, socket)? {
            steered.joined.ports.insert(port);
        }
        Ok(())
    }

    fn is_joint(&self) -> bool {
        self.steered().table.is_shared()
    }

    fn have_joined(&self, flow: &Flow, inodes: &[u64]) -> bool {
        let port = (flow.protocol, flow.local);
        self.steered().table.have_joined(port, inodes)
    }

    fn settle(&self) {
        let last = self.steered().joined.next_old();
        for flow in last {
            // Others may want it meanwhile.
            self.steered().settle(&flow);
        }
    }

    fn remove(&self, flow: &Flow) -> io::Result<()> {
        let mut steered = self.steered();
        steered.rules.remove(flow);
        let Some(peer) = flow.peer else {
            let port = (flow.protocol, flow.local);
            if !steered.ports.remove(&port) {
                return Ok(());
            }
            let (protocol, number) = (flow.protocol, flow.local.port());
            steered.uncover(|it| it.protocol == protocol && it.local.port() == number)?;
            steered.joined.ports.remove(&port);
            steered.table.remove(port)?;
            return steered.end_exemptions(port);
        };
        let was_covered = steered.covered.remove(flow);
        let has_entry = match was_covered {
            true => steered.joined.settled.remove(flow),
            false => steered.exact.remove(flow),
        };
        if !has_entry {
            return Ok(());
        }
        steered.table.remove_flow((flow.protocol, flow.local), peer)
    }

    fn set_addresses(&self, now: &[IpAddr]) -> io::Result<()> {
        let mut steered = self.steered();
        let now: HashSet<IpAddr> = now.iter().copied().collect();
        let gone: HashSet<_> = steered.addresses.difference(&now).copied().collect();
        if !gone.is_empty() {
            // Connections of such an address go on for as long as they are here.
            steered.addresses.retain(|it| !gone.contains(it));
            steered.uncover(|it| gone.contains(&it.local.ip()))?;
        }
        for address in gone {
            steered.table.remove_address(address)?;
        }
        for address in now {
            // Without room packets to it are the kernel's, unless they are for it alone.
            if !steered.addresses.contains(&address) && steered.table.add_address(address).is_ok() {
                steered.addresses.insert(address);
            }
        }
        steered.table.addresses_have_changed()
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
        self.steered().table.set_mac(mac)
    }

    fn stamp_arrivals(&self, noted: Noted) -> io::Result<()> {
        self.steered().table.stamp(noted)
    }

    fn clock_sample(&self) -> io::Result<ClockSample> {
        self.steered().table.clock_sample()
    }

    fn rest_if_unused(&self) {
        let mut steered = self.steered();
        let was_used = std::mem::take(&mut steered.was_used);
        if steered.has_flows() {
            steered.was_used = true;
        } else if !was_used {
            steered.table.rest();
        }
    }

    fn is_resting(&self) -> bool {
        let mut steered = self.steered();
        steered.was_used = true;
        steered.table.is_resting()
    }

    fn has_flows(&self) -> bool {
        self.steered().has_flows()
    }

    fn is_taken_away(&self) -> bool {
        self.steered().table.is_taken_away()
    }

    fn bring(&self, flow: &Flow, receiver: usize) -> io::Result<()> {
        // The queue of the receiving side's number is one of its own.
        let queue = receiver as u32;
        self.steered().rules.bring(flow, queue)
    }

    fn give_back(&self) {
        let mut steered = self.steered();
        steered.rules.remove_all();
        steered.table.give_back();
    }

    fn close_if_unused(&self) -> io::Result<bool> {
        let mut steered = self.steered();
        if steered.has_flows() {
            return Ok(false);
        }
        if !steered.table.close() {
            return Ok(false);
        }
        steered.rules.remove_all();
        // SAFETY: the caller has all rings (contract of the trait).
        unsafe { self.queues.close() }?;
        Ok(true)
    }

    fn let_go(&self) -> io::Result<()> {
        let steered = self.steered();
        let Table::Shared(membership) = &steered.table else {
            return Ok(());
        };
        // SAFETY: the caller has all rings (contract of the trait), but for the fill and the
        // completion ring, to which other processes write: nobody reads them here any more.
        unsafe { self.queues.close() }?;
        membership.forget_area()
    }

    fn process_ends(&self) {
        self.steered().rules.remove_all();
        let fds: Vec<_> = self.slow_to_close.iter().map(|fd| fd.as_raw_fd()).collect();
        // Else the end takes longer.
        let _ = exit::leave_to_kernel(&fds);
    }

    fn dropped(&self) -> u64 {
        self.sockets.iter().map(xsk::dropped).sum()
    }
}
