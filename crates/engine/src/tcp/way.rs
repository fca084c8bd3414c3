//! The way to a connection's peer: an interface, and the headers of what goes out of it.

use std::net::SocketAddrV4;
use std::sync::Arc;

use dev_core::Protocol;
use libc::c_int;
use wire::EthernetAddresses;
use wire::tcp::Template;

use crate::sockets::host::Host;
use crate::sockets::interface::{Interface, RingLease};
use crate::sockets::network::{FlowPorts, NextHop, NextHopKey, RouteMetrics};
use crate::sockets::next_hops::SharedNextHop;
use crate::sockets::reason::Reason;
use crate::sockets::rings::RingUser;
use crate::sockets::stack::Stack;
use crate::sys;

/// What the socket's options say of its packets' headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderOptions {
    ttl: u8,
    tos: u8,
    /// `IP_MTU_DISCOVER`
    mtu_discover: c_int,
}

impl HeaderOptions {
    pub(super) fn read(fd: c_int) -> Option<Self> {
        let option = |name| sys::option_int(fd, libc::IPPROTO_IP, name).ok();
        Some(Self {
            ttl: u8::try_from(option(libc::IP_TTL)?).unwrap_or(64),
            tos: u8::try_from(option(libc::IP_TOS)?).unwrap_or(0),
            mtu_discover: option(libc::IP_MTU_DISCOVER)?,
        })
    }

    /// The headers of segments from one end to the other.
    pub(super) fn template(
        self,
        eth: EthernetAddresses,
        local: SocketAddrV4,
        peer: SocketAddrV4,
    ) -> Template {
        let dont_fragment = self.dont_fragment(false);
        Template::new(eth, local, peer, self.ttl, self.tos, dont_fragment)
    }

    /// As the kernel has it for a stream (`ip_dont_fragment`).
    fn dont_fragment(self, mtu_locked: bool) -> bool {
        match self.mtu_discover {
            libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE => true,
            libc::IP_PMTUDISC_WANT => !mtu_locked,
            _ => false,
        }
    }
}

/// How segments reach the peer.
pub(super) struct Way<S: Stack> {
    pub(super) sender: RingLease<S>,
    pub(super) template: Template,
    /// The largest packet that may be sent and received.
    pub(super) mtu: u16,
    /// `None`: it is that by which the peer's SYN came.
    next_hop: Option<Arc<SharedNextHop>>,
}

impl<S: Stack> Way<S> {
    /// Asks the network. May take a few system calls, and open an interface; no lock may be held.
    pub(super) fn find(
        host: &Host<S>,
        local: SocketAddrV4,
        peer: SocketAddrV4,
        headers: HeaderOptions,
        user: RingUser,
    ) -> Result<Self, Reason> {
        let shared = host.next_hop(NextHopKey {
            destination: *peer.ip(),
            source: Some(*local.ip()),
            tos: headers.tos,
            output_interface: None,
            flow: Some(FlowPorts {
                protocol: Protocol::Tcp,
                local: local.port(),
                peer: peer.port(),
            }),
        });
        if shared.found.metrics != RouteMetrics::default() {
            return Err(Reason::RouteMetric);
        }
        let NextHop::Link {
            link_index,
            mac,
            mtu,
            mtu_locked,
            ..
        } = shared.found.next_hop
        else {
            if let (NextHop::Kernel(Reason::Neighbour), Some((link, address))) =
                (shared.found.next_hop, shared.found.neighbour)
            {
                host.network().ask_for_neighbour(link, address);
            }
            return Err(match shared.found.next_hop {
                NextHop::Kernel(reason) => reason,
                NextHop::Link { .. } => Reason::Route,
            });
        };
        let interface = host.links.open_for_flows(link_index)?;
        let eth = EthernetAddresses {
            source: interface.mac(),
            destination: mac,
        };
        let dont_fragment = headers.dont_fragment(mtu_locked);
        let mtu = mtu.min(interface.mtu_max());
        Ok(Self {
            sender: interface.lease(user, *local.ip()),
            template: Template::new(eth, local, peer, headers.ttl, headers.tos, dont_fragment),
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            next_hop: Some(shared),
        })
    }

    /// Back to where a SYN came from: `mac` is who sent it on the link.
    pub(super) fn back(
        interface: &'static Interface<S>,
        mac: [u8; 6],
        local: SocketAddrV4,
        peer: SocketAddrV4,
        headers: HeaderOptions,
        user: RingUser,
    ) -> Self {
        let eth = EthernetAddresses {
            source: interface.mac(),
            destination: mac,
        };
        let mtu = interface.spec().mtu.min(interface.mtu_max());
        let dont_fragment = headers.dont_fragment(false);
        Self {
            sender: interface.lease(user, *local.ip()),
            template: Template::new(eth, local, peer, headers.ttl, headers.tos, dont_fragment),
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            next_hop: None,
        }
    }

    /// Whether it is the one that the network's configuration says, and still is.
    pub(super) fn is_found(&self) -> bool {
        self.next_hop.is_some() && self.is_current()
    }

    /// Whether it is still known to lead to the peer.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        let is_current = |hop: &Arc<SharedNextHop>| hop.is_current();
        self.next_hop.as_ref().is_none_or(is_current) && !self.sender.interface.is_lost()
    }
}
