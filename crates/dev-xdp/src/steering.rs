//! Which flows the XDP program redirects: 3-tuples (everything that reaches a port) and 5-tuples (one peer only),
//! kept in the program's two maps.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::{Flow, Steering};

use crate::bpf::link::XdpLink;
use crate::bpf::program::{FlowMaps, OnMatch, PortMode, Program};
use crate::xsk;

/// The maps of the XDP program, what we have put into them, and the attachment that makes it run.
#[derive(Debug)]
pub struct XdpSteering {
    maps: FlowMaps,
    /// Closing it gives the interface back to the kernel.
    link: XdpLink,
    frame_capacity: u32,
    sockets: Vec<Arc<OwnedFd>>,
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
        frame_capacity: u32,
        sockets: Vec<Arc<OwnedFd>>,
    ) -> Self {
        Self {
            maps,
            link,
            frame_capacity,
            sockets,
            ports: Mutex::new(HashMap::new()),
        }
    }

    fn ports(&self) -> MutexGuard<'_, HashMap<(u8, SocketAddrV4), PortUse>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steering for XdpSteering {
    fn add(&self, flow: &Flow) -> io::Result<()> {
        let protocol = flow.protocol as u8;
        let mut ports = self.ports();
        let mut usage = ports
            .get(&(protocol, flow.local))
            .copied()
            .unwrap_or_default();
        match flow.peer {
            // The exact flow goes in before its port does: the program looks at the port first.
            Some(peer) => {
                self.maps.add_flow(flow.local, peer, protocol)?;
                usage.exact_flows += 1;
            }
            None => usage.from_anyone = true,
        }
        if let Err(error) = self.maps.add_port(flow.local, protocol, usage.mode()) {
            if let Some(peer) = flow.peer {
                // The entry alone redirects nothing; an error here changes nothing either.
                let _ = self.maps.remove_flow(flow.local, peer, protocol);
            }
            return Err(error.into());
        }
        ports.insert((protocol, flow.local), usage);
        Ok(())
    }

    fn remove(&self, flow: &Flow) {
        let protocol = flow.protocol as u8;
        let mut ports = self.ports();
        let Entry::Occupied(mut entry) = ports.entry((protocol, flow.local)) else {
            return;
        };
        let usage = entry.get_mut();
        match flow.peer {
            Some(_) => usage.exact_flows = usage.exact_flows.saturating_sub(1),
            None => usage.from_anyone = false,
        }
        // Deleting can fail only for an entry that is not there (ENOENT), which is what we want.
        if usage.is_unused() {
            let _ = self.maps.remove_port(flow.local, protocol);
            entry.remove();
        } else {
            let _ = self.maps.add_port(flow.local, protocol, usage.mode());
        }
        if let Some(peer) = flow.peer {
            let _ = self.maps.remove_flow(flow.local, peer, protocol);
        }
    }

    fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        // The address is part of the program.
        let program = Program::load(&self.maps, mac, self.frame_capacity, OnMatch::Redirect)?;
        self.link.update(&program)?;
        Ok(())
    }

    fn dropped(&self) -> u64 {
        self.sockets
            .iter()
            .map(|fd| xsk::dropped(fd.as_raw_fd()))
            .sum()
    }
}
