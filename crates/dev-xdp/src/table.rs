//! Where the entries of flows are put: into the maps of a program of our own, or, through the
//! broker, into those of an interface that several processes have.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use dev_core::{ClockSample, Noted, Protocol};

use crate::attachment::Attached;
use crate::bpf::BpfError;
use crate::bpf::program::FlowMaps;
use crate::shared::membership::Membership;
use crate::shared::message::Request;

/// Flows of one interface that the program can know.
pub(crate) const FLOW_CAPACITY: u32 = 65_536;

#[derive(Debug)]
pub(crate) enum Table {
    Own(Box<Attached>),
    Shared(Arc<Membership>),
}

/// A port at one address, or, at the unspecified one, at any of the interface.
pub(crate) type Port = (Protocol, SocketAddr);

impl Table {
    pub(crate) fn add(&self, port: Port) -> io::Result<()> {
        match self {
            Self::Own(attached) => Ok(attached.maps().add(port)?),
            Self::Shared(membership) => membership.ask(Request::AddPort(port.0, port.1)),
        }
    }

    /// The port of a socket that others may have, too, each its part of the peers. `false`: nobody
    /// else can have it here.
    pub(crate) fn join(&self, port: Port, socket: BorrowedFd<'_>) -> io::Result<bool> {
        match self {
            Self::Own(_) => self.add(port).map(|()| false),
            Self::Shared(membership) => {
                let request = Request::JoinPort(port.0, port.1);
                membership.ask_with(&request.encode(), &[socket])?;
                Ok(true)
            }
        }
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Whether all of these sockets, by their numbers, have [joined](Self::join).
    pub(crate) fn have_joined(&self, port: Port, inodes: &[u64]) -> bool {
        let Self::Shared(membership) = self else {
            return false;
        };
        // As many as a message has room for.
        inodes.chunks(32).all(|inodes| {
            let mut question = Request::HaveJoined(port.0, port.1).encode();
            question.extend(inodes.iter().flat_map(|it| it.to_ne_bytes()));
            membership.ask_with(&question, &[]).is_ok()
        })
    }

    /// One that was not there is as good.
    pub(crate) fn remove(&self, port: Port) -> io::Result<()> {
        match self {
            Self::Own(attached) => Ok(attached.maps().remove(port)?),
            Self::Shared(membership) => membership.ask(Request::RemovePort(port.0, port.1)),
        }
    }

    pub(crate) fn add_flow(&self, (protocol, local): Port, peer: SocketAddr) -> io::Result<()> {
        match self {
            Self::Own(attached) => Ok(attached.maps().add_flow(local, peer, protocol as u8)?),
            Self::Shared(membership) => membership.ask(Request::AddFlow(protocol, local, peer)),
        }
    }

    /// One that was not there is as good.
    pub(crate) fn remove_flow(&self, (protocol, local): Port, peer: SocketAddr) -> io::Result<()> {
        match self {
            Self::Own(attached) => {
                let removed = attached.maps().remove_flow(local, peer, protocol as u8);
                Ok(taken_out(removed)?)
            }
            Self::Shared(membership) => membership.ask(Request::RemoveFlow(protocol, local, peer)),
        }
    }

    pub(crate) fn add_exemption(
        &self,
        (protocol, local): Port,
        peer: SocketAddr,
    ) -> io::Result<()> {
        match self {
            Self::Own(attached) => {
                let maps = attached.maps();
                Ok(maps.add_exemption(local, peer, protocol as u8)?)
            }
            Self::Shared(membership) => {
                membership.ask(Request::AddExemption(protocol, local, peer))
            }
        }
    }

    /// One that was not there is as good.
    pub(crate) fn remove_exemption(
        &self,
        (protocol, local): Port,
        peer: SocketAddr,
    ) -> io::Result<()> {
        match self {
            Self::Own(attached) => {
                let removed = attached
                    .maps()
                    .remove_exemption(local, peer, protocol as u8);
                Ok(taken_out(removed)?)
            }
            Self::Shared(membership) => {
                membership.ask(Request::RemoveExemption(protocol, local, peer))
            }
        }
    }

    pub(crate) fn port_has_exemptions(&self, (protocol, local): Port) -> io::Result<()> {
        match self {
            Self::Own(attached) => {
                let maps = attached.maps();
                Ok(maps.port_has_exemptions(local, protocol as u8)?)
            }
            Self::Shared(membership) => membership.ask(Request::PortHasExemptions(protocol, local)),
        }
    }

    /// The broker looks itself: see [`Self::addresses_have_changed`].
    pub(crate) fn add_address(&self, address: IpAddr) -> io::Result<()> {
        match self {
            Self::Own(attached) => Ok(attached.maps().add_address(address)?),
            Self::Shared(_) => Ok(()),
        }
    }

    pub(crate) fn remove_address(&self, address: IpAddr) -> io::Result<()> {
        match self {
            Self::Own(attached) => Ok(taken_out(attached.maps().remove_address(address))?),
            Self::Shared(_) => Ok(()),
        }
    }

    pub(crate) fn addresses_have_changed(&self) -> io::Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Shared(membership) => membership.ask(Request::LookAgain),
        }
    }

    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) -> io::Result<()> {
        match self {
            Self::Own(attached) => attached.set_mac(mac),
            Self::Shared(membership) => membership.ask(Request::LookAgain),
        }
    }

    pub(crate) fn stamp(&mut self, noted: Noted) -> io::Result<()> {
        match (self, noted) {
            (Self::Own(attached), _) => attached.stamp(noted),
            (Self::Shared(_), Noted::DeviceTime) => Err(io::Error::other("a broker has it")),
            (Self::Shared(membership), _) => membership.ask(Request::Stamp(noted == Noted::Time)),
        }
    }

    pub(crate) fn clock_sample(&mut self) -> io::Result<ClockSample> {
        match self {
            Self::Own(attached) => attached.clock_sample(),
            Self::Shared(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn resume(&mut self) -> io::Result<()> {
        match self {
            Self::Own(attached) => attached.resume(),
            Self::Shared(_) => Ok(()),
        }
    }

    /// The broker decides when its program rests.
    pub(crate) fn rest(&mut self) {
        if let Self::Own(attached) = self {
            attached.rest();
        }
    }

    pub(crate) fn is_resting(&self) -> bool {
        matches!(self, Self::Own(attached) if attached.is_resting())
    }

    pub(crate) fn is_taken_away(&self) -> bool {
        match self {
            Self::Own(attached) => attached.is_taken_away(),
            Self::Shared(membership) => membership.is_over(),
        }
    }

    pub(crate) fn give_back(&mut self) {
        match self {
            Self::Own(attached) => attached.give_back(),
            // Without a broker nothing is steered here.
            Self::Shared(membership) => _ = membership.ask(Request::GiveBack),
        }
    }

    /// Gives the interface up, for others to have. `false`: they have it anyway.
    pub(crate) fn close(&mut self) -> bool {
        match self {
            Self::Own(attached) => {
                attached.close();
                true
            }
            Self::Shared(_) => false,
        }
    }
}

impl FlowMaps {
    /// Redirects what reaches a port, at its address or at any of the interface.
    pub(crate) fn add(&self, (protocol, local): Port) -> Result<(), BpfError> {
        if local.ip().is_unspecified() {
            return self.add_wildcard(local.port(), local.is_ipv6(), protocol as u8);
        }
        self.add_port(local, protocol as u8)
    }

    /// Takes that back.
    pub(crate) fn remove(&self, (protocol, local): Port) -> Result<(), BpfError> {
        if local.ip().is_unspecified() {
            return self.remove_wildcard(local.port(), local.is_ipv6(), protocol as u8);
        }
        taken_out(self.remove_port(local, protocol as u8))
    }
}

/// One that was not there is as good.
pub(crate) fn taken_out(result: Result<(), BpfError>) -> Result<(), BpfError> {
    result.or_else(|error| match error.errno() {
        Some(libc::ENOENT) => Ok(()),
        _ => Err(error),
    })
}
