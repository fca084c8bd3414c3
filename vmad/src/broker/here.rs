//! What an interface's thread asks of its network namespace.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::OnceLock;

use dev_core::LinkSpec;
use dev_xdp::shared::{Facts, System};
use netconf::{Netconf, TcpSockets};
use socket2::{Domain, Protocol, Socket, Type};

/// What the kernel says of an interface.
pub(super) fn look(netconf: &Netconf, index: u32) -> Option<(LinkSpec, Facts)> {
    let link = netconf.link(index)?;
    let spec = LinkSpec {
        index,
        name: link.name.clone(),
        mac: link.mac.unwrap_or_default(),
        mtu: link.mtu,
    };
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
    pub(super) raw: &'a Raw,
}

/// Sockets for whole IP packets, each opened when it is needed.
#[derive(Debug, Default)]
pub(super) struct Raw {
    v4: OnceLock<Option<Socket>>,
    v6: OnceLock<Option<Socket>>,
}

impl Raw {
    fn send(&self, packet: &[u8], index: u32) -> bool {
        let Some((to, is_v6)) = destination(packet, index) else {
            return false;
        };
        let socket = match is_v6 {
            true => self.v6.get_or_init(|| open(Domain::IPV6).ok()),
            false => self.v4.get_or_init(|| open(Domain::IPV4).ok()),
        };
        let socket = socket.as_ref();
        socket.is_some_and(|it| it.send_to(packet, &to.into()).is_ok())
    }
}

fn open(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(IPPROTO_RAW)))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

const IPPROTO_RAW: i32 = 255;

/// Where an IP packet goes, and whether it is one of IPv6.
fn destination(packet: &[u8], index: u32) -> Option<(SocketAddr, bool)> {
    match packet.first()? >> 4 {
        4 => {
            let to: IpAddr = (*packet.get(16..)?.first_chunk::<4>()?).into();
            Some((SocketAddr::new(to, 0), false))
        }
        6 => {
            let to = (*packet.get(24..)?.first_chunk::<16>()?).into();
            // The scope of other addresses does not count.
            Some((SocketAddrV6::new(to, 0, 0, index).into(), true))
        }
        _ => None,
    }
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

    fn receive(&self, packet: &[u8]) -> bool {
        self.raw.send(packet, self.index)
    }

    fn has_connection(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let found = TcpSockets::open().and_then(|mut it| it.find(local, peer));
        found.is_ok_and(|it| it.is_some_and(|it| !it.listening))
    }
}
