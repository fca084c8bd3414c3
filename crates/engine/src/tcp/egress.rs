//! The way to a connection's peer: an interface, and the headers of what goes out of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use links::interface::Interface;
use links::interface::sending::RingLease;
use links::network::{FlowPorts, NextHop, NextHopKey, RouteMetrics};
use links::next_hops::SharedNextHop;
use links::reason::Reason;
use links::rings::RingUser;

use ::tcp::Path;
use dev_core::Protocol;
use libc::c_int;
use wire::EthernetAddresses;
use wire::tcp::Template;

use crate::sockets::header_options::HeaderOptions;
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;

/// What the socket's options say of its packets' headers, of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Headers {
    v4: HeaderOptions,
    v6: HeaderOptions,
}

impl Headers {
    /// Asks the kernel's socket, about IPv6 only if the program may have `set` something there.
    pub(super) fn read(fd: c_int, set: &[(c_int, c_int)]) -> Option<Self> {
        let is_set = set.iter().any(|(level, _)| *level == libc::IPPROTO_IPV6);
        Some(Self {
            v4: HeaderOptions::read(fd, IpAddr::V4(Ipv4Addr::UNSPECIFIED))?,
            v6: match is_set {
                true => HeaderOptions::read(fd, IpAddr::V6(Ipv6Addr::UNSPECIFIED))?,
                false => HeaderOptions::DEFAULT_V6,
            },
        })
    }

    pub(super) fn towards(self, peer: IpAddr) -> HeaderOptions {
        match peer {
            IpAddr::V4(_) => self.v4,
            IpAddr::V6(_) => self.v6,
        }
    }

    /// The headers of segments from one end to the other. `hop_limit`: of the route or the
    /// interface.
    pub(super) fn template(
        self,
        eth: EthernetAddresses,
        (local, peer): (SocketAddr, SocketAddr),
        hop_limit: u8,
        mtu_locked: bool,
    ) -> Template {
        let of_version = self.towards(peer.ip());
        let dont_fragment = of_version.dont_fragment(mtu_locked);
        let ttl = of_version.hop_limit(hop_limit);
        let label = of_version.flow_label(Protocol::Tcp, (local, peer));
        Template::new(eth, local, peer, ttl, of_version.tos, dont_fragment).with_flow_label(label)
    }
}

/// A path of packets of at most `mtu` bytes to a peer.
pub(super) fn path_to(peer: IpAddr, mtu: u16) -> Path {
    match peer {
        IpAddr::V4(_) => Path::ipv4(mtu),
        IpAddr::V6(_) => Path::ipv6(mtu),
    }
}

/// How segments reach the peer.
pub(super) struct Egress<S: Stack> {
    pub(super) sender: RingLease<S>,
    pub(super) template: Template,
    /// The largest packet that may be sent and received.
    pub(super) mtu: u16,
    /// `None`: it is that by which the peer's SYN came.
    next_hop: Option<Arc<SharedNextHop>>,
}

impl<S: Stack> Egress<S> {
    /// Asks the network. `device`: the interface that it has to go by, or 0. May take a few system
    /// calls, and open an interface; no lock may be held.
    pub(super) fn find(
        host: &Host<S>,
        (local, peer): (SocketAddr, SocketAddr),
        device: u32,
        headers: Headers,
        user: RingUser,
    ) -> Result<Self, Reason> {
        let shared = host.next_hop(NextHopKey {
            destination: peer.ip(),
            source: Some(local.ip()),
            tos: headers.towards(peer.ip()).tos,
            output_interface: (device != 0).then_some(device),
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
            hop_limit,
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
        Ok(Self {
            sender: interface.lease(user, local.ip()),
            template: headers.template(eth, (local, peer), hop_limit, mtu_locked),
            mtu: interface.stream_mtu(mtu),
            next_hop: Some(shared),
        })
    }

    /// Back to where a SYN came from: `mac` is who sent it on the link, `hop_limit` the interface's
    /// for IPv6.
    pub(super) fn back(
        interface: &'static Interface<S>,
        hop_limit: u8,
        mac: [u8; 6],
        (local, peer): (SocketAddr, SocketAddr),
        headers: Headers,
        user: RingUser,
    ) -> Self {
        let eth = EthernetAddresses {
            source: interface.mac(),
            destination: mac,
        };
        Self {
            sender: interface.lease(user, local.ip()),
            template: headers.template(eth, (local, peer), hop_limit, false),
            mtu: interface.stream_mtu(interface.spec().mtu),
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
