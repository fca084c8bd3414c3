//! Connections that a process has not accepted, and that others may.

use dev_core::{Admission, ReceivingHost};

use super::*;
use crate::bpf::admission::{LoopbackAdmission, Vouch};
use crate::shared::admission::{decode, is_between, packets_in};
use crate::table::Port;

/// The program that this takes, and since when nobody has needed it.
#[derive(Debug, Default)]
pub(super) struct Admitting {
    vouch: Option<Vouch>,
    program: Option<(LoopbackAdmission, Instant)>,
}

/// How long the program stays.
const KEPT: Duration = Duration::from_secs(1);

impl Admitting {
    fn program(&mut self) -> io::Result<&LoopbackAdmission> {
        let vouch = match self.vouch {
            Some(vouch) => vouch,
            None => *self.vouch.insert(Vouch::find()?),
        };
        let program = match self.program.take() {
            Some((program, _)) => program,
            None => LoopbackAdmission::begin(vouch)?,
        };
        let (program, _) = self.program.insert((program, Instant::now()));
        Ok(program)
    }

    pub(super) fn tend(&mut self, now: Instant) {
        self.program.take_if(|(_, used)| now > *used + KEPT);
    }
}

/// The kernel, for one connection.
struct Kernel<'a> {
    system: &'a dyn System,
    ends: (SocketAddr, SocketAddr),
}

impl ReceivingHost for Kernel<'_> {
    fn receive(&self, packet: &[u8]) -> bool {
        self.system.receive(packet, self.ends.0.ip())
    }

    fn has_connection(&self) -> Option<bool> {
        let (local, peer) = self.ends;
        let is_near = matches!(local.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local());
        is_near.then(|| self.system.has_connection(local, peer))
    }
}

impl Host {
    /// Puts a connection into the queue of the kernel's socket that listens at a port which the
    /// process has together with others.
    pub(super) fn admit_connection(
        &mut self,
        place: u8,
        port: Port,
        peer: SocketAddr,
        (along, agreed): (Option<&OwnedFd>, &[u8]),
        system: &mut dyn System,
    ) -> io::Result<()> {
        let bad = || io::Error::from_raw_os_error(libc::EINVAL);
        let agreed = decode(agreed).ok_or_else(bad)?;
        let packets = along.and_then(packets_in).ok_or_else(bad)?;
        let local = port.1;
        let are_good = packets.iter().all(|it| is_between(it, local, peer));
        if packets.is_empty() || !are_good || !self.has_or_had(place, port, peer) {
            return Err(bad());
        }
        system.end_connection(local, peer);
        let program = self.admission.program()?;
        let kernel = Kernel {
            system,
            ends: (local, peer),
        };
        let admitted = program.admit(local, peer, &agreed, &packets, &kernel);
        if admitted.is_ok() {
            // Its segments are the kernel's from here on.
            self.forget_connection(place, port, peer);
        }
        admitted
    }

    /// Whether a connection is a process's, by the SYN or by a flow.
    fn has_or_had(&self, place: u8, port: Port, peer: SocketAddr) -> bool {
        self.is_born_to(place, port, peer) || self.ledger.has_flow(place, (port, peer))
    }
}
