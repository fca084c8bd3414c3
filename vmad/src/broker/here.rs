//! What an interface's thread asks of its network namespace.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::OnceLock;

use crate::raw::Transmitter;
use dev_core::LinkSpec;
use dev_xdp::shared::{Facts, System};
use netconf::{Netconf, TcpSockets};

/// What the kernel says of an interface.
pub(super) fn look(netconf: &Netconf, index: u32) -> Option<(LinkSpec, Facts)> {
    let link = netconf.link(index)?;
    let spec = netconf.spec(link);
    let addresses = netconf.usable_addresses(link).collect();
    Some((
        spec.clone(),
        Facts {
            mac: spec.mac,
            addresses,
        },
    ))
}

/// The namespace of the calling thread.
pub(super) struct Here<'a> {
    pub(super) netconf: &'a mut Netconf,
    pub(super) index: u32,
    /// Opened when it is needed.
    pub(super) raw: &'a OnceLock<Option<Transmitter>>,
}

impl System for Here<'_> {
    fn look(&mut self) -> Option<Facts> {
        let _ = self.netconf.process_events();
        look(self.netconf, self.index).map(|(_, facts)| facts)
    }

    fn end_connection(&mut self, local: SocketAddr, peer: SocketAddr) {
        // If it is there still the connection is refused.
        let _ = TcpSockets::open().and_then(|mut it| it.end(local, peer, self.index));
    }

    fn receive(&self, packet: &[u8], to: IpAddr) -> bool {
        let to = match to {
            IpAddr::V4(_) => SocketAddr::new(to, 0),
            // The scope of other addresses does not count.
            IpAddr::V6(to) => SocketAddrV6::new(to, 0, 0, self.index).into(),
        };
        let raw = self.raw.get_or_init(|| Transmitter::open().ok()).as_ref();
        raw.is_some_and(|raw| raw.send_packet(packet, to).is_ok())
    }

    fn has_connection(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let found = TcpSockets::open().and_then(|mut it| it.find(local, peer));
        found.is_ok_and(|it| it.is_some_and(|it| !it.listening))
    }
}
