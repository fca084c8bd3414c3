//! Where a packet goes first: the route that the kernel chooses, and the neighbour's address.

use std::net::{IpAddr, SocketAddr};

use dev_core::Protocol;
use netconf::RouteKind::{Blackhole, Prohibit, Unreachable};
use netconf::{IpsecPolicies, RouteKind, RouteQuery, TransportFlow};

use crate::family::{link_of, scope_of};
use crate::netconf_network::NetconfNetwork;
use crate::netconf_network::settings::{conf, hop_limit_of};
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
        let (destination, source) = (key.destination, key.source);
        let mut inner = self.lock();
        if inner.ipsec.as_ref().is_some_and(IpsecPolicies::any) {
            return NextHop::Kernel(Reason::Ipsec).into();
        }
        let mut query = RouteQuery::to(destination);
        query.source = source;
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
        let Ok(route) = inner.netconf.route(&query) else {
            // The kernel's own send returns the error.
            return NextHop::Kernel(Reason::Route).into();
        };
        match route.kind {
            RouteKind::Unicast if destination.is_multicast() && route.gateway.is_some() => {
                return NextHop::Kernel(Reason::Multicast).into();
            }
            RouteKind::Unicast => {}
            RouteKind::Broadcast => return NextHop::Kernel(Reason::NotUnicast).into(),
            RouteKind::Multicast if route.gateway.is_none() => {}
            _ => return NextHop::Kernel(Reason::Route).into(),
        }
        let link = inner.netconf.link(route.output_interface);
        let Some(link) = link.filter(|link| inner.netconf.obstacle(link).is_none()) else {
            return NextHop::Kernel(Reason::Route).into();
        };
        if destination.is_ipv6() && link.big_tcp {
            return NextHop::Kernel(Reason::BigTcp).into();
        }
        let (link_index, link_mtu, link_name) = (link.index, link.mtu, link.name.clone());
        let Some(source) = source.or(route.preferred_source) else {
            return NextHop::Kernel(Reason::Route).into();
        };
        // Of IPv6 the kernel does not look whether it is this host's.
        let is_own = |it: &netconf::Address| it.address == source && !it.tentative;
        if source.is_ipv4() != destination.is_ipv4()
            || source.is_ipv6() && !inner.netconf.addresses().iter().any(is_own)
        {
            return NextHop::Kernel(Reason::Route).into();
        }
        let hop_limit = match destination {
            IpAddr::V4(_) => 0,
            // The file is that of the thread's namespace.
            IpAddr::V6(_) if !self.is_here() => return NextHop::Kernel(Reason::Route).into(),
            IpAddr::V6(_) => route
                .hop_limit
                .filter(|limit| *limit > 0)
                .unwrap_or_else(|| hop_limit_of(&link_name)),
        };
        let mtu = route.mtu.map_or(link_mtu, |mtu| mtu.min(link_mtu));
        // For IPv6 it says nothing whether a route is for groups.
        let is_to_group = destination.is_multicast()
            && (destination.is_ipv6() || route.kind == RouteKind::Multicast);
        if is_to_group {
            let version = if destination.is_ipv4() {
                "ipv4"
            } else {
                "ipv6"
            };
            // Who routes to groups has the kernel give it what the host itself sends, too.
            if !self.is_here() || conf(version, &link_name, "mc_forwarding") != 0 {
                return NextHop::Kernel(Reason::Multicast).into();
            }
            return NextHop::Link {
                link_index,
                mac: group_mac(destination),
                source,
                hop_limit,
                mtu,
                mtu_locked: route.mtu_locked,
            }
            .into();
        }
        let next_hop = route.gateway.unwrap_or(destination);
        let used = (link_index, next_hop);
        let metrics = RouteMetrics {
            hop_limit: route.hop_limit.is_some(),
            of_streams: route.has_stream_metrics,
        };
        let mac = inner
            .netconf
            .neighbour(link_index, next_hop)
            .filter(|it| it.usable());
        let Some(mac) = mac.and_then(|neighbour| neighbour.mac) else {
            return Resolution {
                next_hop: NextHop::Kernel(Reason::Neighbour),
                neighbour: Some(used),
                metrics,
            };
        };
        if inner.used_neighbours.len() < USED_NEIGHBOURS_MAX
            && !inner.used_neighbours.contains(&used)
        {
            inner.used_neighbours.push(used);
        }
        Resolution {
            next_hop: NextHop::Link {
                link_index,
                mac,
                source,
                hop_limit,
                mtu,
                mtu_locked: route.mtu_locked,
            },
            neighbour: Some(used),
            metrics,
        }
    }
}

/// The Ethernet address of a group (RFC 1112 section 6.4, RFC 2464 section 7).
fn group_mac(group: IpAddr) -> [u8; 6] {
    match group {
        IpAddr::V4(group) => {
            let [_, a, b, c] = group.octets();
            [0x01, 0x00, 0x5e, a & 0x7f, b, c]
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_group_has_its_lower_bits() {
        let mac = |group: &str| group_mac(group.parse().unwrap());
        assert_eq!(mac("239.129.2.3"), [0x01, 0x00, 0x5e, 1, 2, 3]);
        assert_eq!(mac("ff02::1:ff03:405"), [0x33, 0x33, 0xff, 3, 4, 5]);
    }
}
