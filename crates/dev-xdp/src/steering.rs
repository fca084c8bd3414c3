//! Which flows the XDP program redirects: 3-tuples (everything that reaches a port) and 5-tuples (one peer only),
//! kept in the program's two maps.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use dev_core::{Flow, Steering};

use crate::bpf::BpfError;
use crate::bpf::link::XdpLink;
use crate::bpf::program::{FlowMaps, OnMatch, PortMode, Program};
use crate::sight::Sight;
use crate::xsk;

/// The maps of the XDP program, what we have put into them, and the attachment that makes it run.
#[derive(Debug)]
pub struct XdpSteering {
    maps: FlowMaps,
    link: XdpLink,
    sight: Sight,
    frame_capacity: u32,
    sockets: Vec<Arc<OwnDescriptor>>,
    ports: Mutex<HashMap<(u8, SocketAddrV4), PortUse>>,
}

/// Why a port is in the program's port map.
#[derive(Clone, Copy, Debug, Default)]
struct PortUse {
    from_anyone: bool,
    exact_flows: u32,
}

impl PortUse {
    fn mode(self) -> PortMode {
        if self.from_anyone {
            PortMode::AnySource
        } else {
            PortMode::ExactFlows
        }
    }

    fn is_unused(self) -> bool {
        !self.from_anyone && self.exact_flows == 0
    }
}

impl XdpSteering {
    pub(crate) fn new(
        maps: FlowMaps,
        link: XdpLink,
        sight: Sight,
        frame_capacity: u32,
        sockets: Vec<Arc<OwnDescriptor>>,
    ) -> Self {
        Self {
            maps,
            link,
            sight,
            frame_capacity,
            sockets,
            ports: Mutex::new(HashMap::new()),
        }
    }

    fn ports(&self) -> MutexGuard<'_, HashMap<(u8, SocketAddrV4), PortUse>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a port or flow out of a map. One that was not there is as good.
    fn taken_out(result: Result<(), BpfError>) -> Result<(), BpfError> {
        result.or_else(|error| match error.errno() {
            Some(libc::ENOENT) => Ok(()),
            _ => Err(error),
        })
    }

    fn take_out(&self, flow: &Flow, usage: PortUse) -> Result<(), BpfError> {
        let protocol = flow.protocol as u8;
        if usage.is_unused() {
            Self::taken_out(self.maps.remove_port(flow.local, protocol))?;
        } else {
            self.maps.add_port(flow.local, protocol, usage.mode())?;
        }
        match flow.peer {
            Some(peer) => Self::taken_out(self.maps.remove_flow(flow.local, peer, protocol)),
            None => Ok(()),
        }
    }
}

impl Steering for XdpSteering {
    fn add(&self, flow: &Flow) -> io::Result<()> {
        let protocol = flow.protocol as u8;
        let mut ports = self.ports();
        // From here on `remove` takes back whatever has been done.
        let usage = ports.entry((protocol, flow.local)).or_default();
        match flow.peer {
            // The exact flow goes in before its port does: the program looks at the port first.
            Some(peer) => {
                usage.exact_flows += 1;
                self.maps.add_flow(flow.local, peer, protocol)?;
            }
            None => usage.from_anyone = true,
        }
        self.maps.add_port(flow.local, protocol, usage.mode())?;
        Ok(())
    }

    fn remove(&self, flow: &Flow) -> io::Result<()> {
        let protocol = flow.protocol as u8;
        let mut ports = self.ports();
        let Entry::Occupied(mut entry) = ports.entry((protocol, flow.local)) else {
            return Ok(());
        };
        let usage = entry.get_mut();
        match flow.peer {
            Some(_) => usage.exact_flows = usage.exact_flows.saturating_sub(1),
            None => usage.from_anyone = false,
        }
        let taken_out = self.take_out(flow, *usage);
        if usage.is_unused() {
            entry.remove();
        }
        Ok(taken_out?)
    }

    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        // The address is part of the program.
        let hidden = self.sight.hidden();
        let (maps, capacity) = (&self.maps, self.frame_capacity);
        let program = Program::load(maps, mac, capacity, OnMatch::Redirect, hidden)?;
        self.link.update(&program)?;
        Ok(())
    }

    fn give_back(&self) {
        self.link.detach(self.maps.stand_in());
        self.sight.end();
    }

    fn dropped(&self) -> u64 {
        self.sockets
            .iter()
            .map(|fd| xsk::dropped(fd.as_raw_fd()))
            .sum()
    }
}
