//! Where a packet goes first: the route that the kernel chooses, and the neighbour's address.

use std::net::{IpAddr, SocketAddr};

use dev_core::Protocol;
use netconf::RouteKind::{Blackhole, Prohibit, Unreachable};
use netconf::{IpsecPolicies, RouteKind, RouteQuery, TransportFlow};
use wire::ethernet::group_address;

use crate::family::{link_of, scope_of};
use crate::netconf_network::settings::{conf, hop_limit_of};
use crate::netconf_network::{Inner, NetconfNetwork};
use crate::network::{Network, NextHop, NextHopKey, Resolution, RouteMetrics};
use crate::reason::Reason;

/// Neighbours in use that are remembered; more are not kept verified beyond what the kernel does by
/// itself.
const USED_NEIGHBOURS_MAX: usize = 4096;

const IPPROTO_TCP: u8 = libc::IPPROTO_TCP as u8;
const IPPROTO_UDP: u8 = libc::IPPROTO_UDP as u8;

impl NetconfNetwork {
    /// See [`Network::has_route`].
    pub(super) fn knows_route(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let inner = self.lock();
        let link = link_of(local, peer);
        let mut query = RouteQuery::to(peer.ip());
        query.source = Some(local.ip());
        query.output_interface = (link != 0).then_some(link);
        let leads_on = |kind| !matches!(kind, Blackhole | Unreachable | Prohibit);
        let is_known = inner
            .netconf
            .route(&query)
            .is_ok_and(|it| leads_on(it.kind));
        let mut addresses = inner.netconf.addresses().iter();
        let link = scope_of(local);
        is_known
            && addresses.any(|it| it.address == local.ip() && (link == 0 || it.link_index == link))
    }

    /// See [`Network::next_hop`].
    pub(super) fn find_next_hop(&self, key: &NextHopKey) -> Resolution {
        let mut inner = self.lock();
        let (path, gateway) = match self.find_path(&inner, key) {
            Ok(found) => found,
            Err(reason) => return NextHop::Kernel(reason).into(),
        };
        let Some(gateway) = gateway else {
            return path.by(group_address(key.destination)).into();
        };
        let used = (path.link_index, gateway);
        let neighbour = inner.netconf.neighbour(path.link_index, gateway);
        let mac = neighbour.filter(|it| it.usable()).and_then(|it| it.mac);
        let is_known = inner.used_neighbours.contains(&used);
        if mac.is_some() && !is_known && inner.used_neighbours.len() < USED_NEIGHBOURS_MAX {
            inner.used_neighbours.push(used);
        }
        Resolution {
            next_hop: mac.map_or(NextHop::Kernel(Reason::Neighbour), |mac| path.by(mac)),
            neighbour: Some(used),
            metrics: path.metrics,
        }
    }

    /// The path that the kernel's tables have, and whose Ethernet address it leads to: nobody's, to
    /// a group. Or why the packet is the kernel's.
    fn find_path(&self, inner: &Inner, key: &NextHopKey) -> Result<(Path, Option<IpAddr>), Reason> {
        let destination = key.destination;
        if inner.ipsec.as_ref().is_some_and(IpsecPolicies::any) {
            return Err(Reason::Ipsec);
        }
        // The kernel's own send returns the error.
        let route = inner.netconf.route(&query_of(key));
        let route = route.map_err(|_| Reason::Route)?;
        let kinds = (route.kind, route.gateway.is_some());
        if let Some(reason) = kernels_kind(kinds, destination.is_multicast()) {
            return Err(reason);
        }
        let link = inner.netconf.link(route.output_interface);
        let link = link.filter(|link| inner.netconf.obstacle(link).is_none());
        let link = link.ok_or(Reason::Route)?;
        if destination.is_ipv6() && link.big_tcp {
            return Err(Reason::BigTcp);
        }
        let source = key.source.or(route.preferred_source).ok_or(Reason::Route)?;
        // Of IPv6 the kernel does not look whether it is this host's.
        let is_own = |it: &netconf::Address| it.address == source && !it.tentative;
        if source.is_ipv4() != destination.is_ipv4()
            || source.is_ipv6() && !inner.netconf.addresses().iter().any(is_own)
        {
            return Err(Reason::Route);
        }
        let hop_limit = match destination {
            IpAddr::V4(_) => 0,
            // The file is that of the thread's namespace.
            IpAddr::V6(_) if !self.is_here() => return Err(Reason::Route),
            IpAddr::V6(_) => route
                .hop_limit
                .filter(|limit| *limit > 0)
                .unwrap_or_else(|| hop_limit_of(&link.name)),
        };
        let path = Path {
            link_index: link.index,
            source,
            hop_limit,
            mtu: route.mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu)),
            mtu_locked: route.mtu_locked,
            metrics: RouteMetrics {
                hop_limit: route.hop_limit.is_some(),
                of_streams: route.has_stream_metrics,
            },
        };
        // For IPv6 it says nothing whether a route is for groups.
        let is_to_group = destination.is_multicast()
            && (destination.is_ipv6() || route.kind == RouteKind::Multicast);
        if !is_to_group {
            return Ok((path, Some(route.gateway.unwrap_or(destination))));
        }
        let version = if destination.is_ipv4() {
            "ipv4"
        } else {
            "ipv6"
        };
        // Who routes to groups has the kernel give it what the host itself sends, too.
        if !self.is_here() || conf(version, &link.name, "mc_forwarding") != 0 {
            return Err(Reason::Multicast);
        }
        Ok((path, None))
    }
}

/// A path to a destination, but for the Ethernet address.
struct Path {
    link_index: u32,
    source: IpAddr,
    hop_limit: u8,
    mtu: u32,
    mtu_locked: bool,
    metrics: RouteMetrics,
}

impl Path {
    fn by(&self, mac: [u8; 6]) -> NextHop {
        NextHop::Link {
            link_index: self.link_index,
            mac,
            source: self.source,
            hop_limit: self.hop_limit,
            mtu: self.mtu,
            mtu_locked: self.mtu_locked,
        }
    }
}

fn query_of(key: &NextHopKey) -> RouteQuery {
    let mut query = RouteQuery::to(key.destination);
    query.source = key.source;
    query.tos = key.tos;
    query.output_interface = key.output_interface;
    query.flow = key.flow.map(|flow| TransportFlow {
        protocol: match flow.protocol {
            Protocol::Tcp => IPPROTO_TCP,
            Protocol::Udp => IPPROTO_UDP,
        },
        source_port: flow.local,
        destination_port: flow.peer,
    });
    query
}

/// Why a route of this kind, which has a gateway or none, leaves packets to the kernel.
fn kernels_kind((kind, has_gateway): (RouteKind, bool), is_to_group: bool) -> Option<Reason> {
    match kind {
        RouteKind::Unicast if is_to_group && has_gateway => Some(Reason::Multicast),
        RouteKind::Unicast => None,
        RouteKind::Broadcast => Some(Reason::NotUnicast),
        RouteKind::Multicast if !has_gateway => None,
        _ => Some(Reason::Route),
    }
}
