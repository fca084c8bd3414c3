//! How datagrams reach an address: by which ring and with which headers, or through the kernel, and
//! why.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use dev_core::Protocol;
use links::family::{Versions, scope_of, stays_in_host};
use links::interface::sending::RingLease;
use links::network::{FlowPorts, NextHop, NextHopKey};
use links::next_hops::SharedNextHop;
use links::reason::Reason;
use links::rings::RingUser;
use vma_config::rules::ProcessRules;
use wire::{EthernetAddresses, UdpTemplate};

use crate::sockets::header_options::HeaderOptions;
use crate::sockets::host::Host;
use crate::sockets::offload::{self, NotOffloaded};
use crate::sockets::stack::Stack;
use crate::udp::destination::{GroupOptions, KnownHeaders};
use crate::udp::send_options::{Overrides, SendOptions};

/// How datagrams reach an address.
#[derive(Debug)]
pub(in crate::udp) struct Destination<S: Stack> {
    /// What the way depends on, if it is more than the address and the socket.
    next_hop: Option<Arc<SharedNextHop>>,
    pub(in crate::udp) way: Way<S>,
}

#[derive(Debug)]
pub(in crate::udp) enum Way<S: Stack> {
    Link(Link<S>),
    /// By the socket's queue.
    Paced(Link<S>),
    Kernel(Reason),
}

/// By an interface of ours.
#[derive(Debug)]
pub(in crate::udp) struct Link<S: Stack> {
    pub(in crate::udp) sender: RingLease<S>,
    pub(in crate::udp) template: Box<UdpTemplate>,
    /// Largest payload that is sent as it is: the rest needs a look, for it is more than a packet
    /// has room for, or than `UDP_SEGMENT`.
    pub(in crate::udp) payload_len_max: usize,
    /// Largest payload that needs no fragmentation.
    pub(in crate::udp) packet_payload_max: usize,
    /// `UDP_SEGMENT` of the socket, or 0.
    pub(in crate::udp) segment_len: u16,
    /// What is larger than one packet may be fragmented on its way, also if the device cuts it.
    pub(in crate::udp) may_fragment_large: bool,
}

impl<S: Stack> Destination<S> {
    /// Whether it is still known where the datagrams go.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        self.next_hop.as_ref().is_none_or(|hop| hop.is_current())
    }

    /// Datagrams do not fit: the kernel may know of a larger path MTU by now, and tells of none.
    #[cold]
    pub(in crate::udp) fn expire(&self) {
        if let Some(next_hop) = &self.next_hop {
            next_hop.expire();
        }
    }

    /// Asks the network, if no other socket has. May take a few system calls; no lock may be held.
    /// Reads the options if they are not known.
    pub(in crate::udp) fn resolve(
        host: &Host<S>,
        fd: libc::c_int,
        asked: &Asked<'_>,
        headers: &mut KnownHeaders,
    ) -> Self {
        let mut next_hop = None;
        let address = asked.address;
        let rule = asked
            .rules
            .and_then(|rules| offload::sender_rule(rules, address));
        let way = match (rule, asked.options.kernels) {
            (Some(_), _) => Way::Kernel(Reason::Rule),
            (None, Some(option)) => {
                log::debug!("fd {fd}: {option} is an option with which the kernel sends");
                Way::Kernel(Reason::Option)
            }
            (None, None) => {
                resolve_way(host, fd, asked, headers, &mut next_hop).unwrap_or_else(Way::Kernel)
            }
        };
        if let Way::Kernel(reason) = &way {
            let refusal = NotOffloaded {
                reason: *reason,
                rule,
            };
            log::debug!("fd {fd}: datagrams to {address} go through the kernel: {refusal}");
            host.count_reason(*reason);
        }
        Self { next_hop, way }
    }
}

/// What a destination depends on.
#[derive(Clone, Copy, Debug)]
pub(in crate::udp) struct Asked<'a> {
    pub(in crate::udp) local: SocketAddr,
    /// The versions of IP that the socket carries.
    pub(in crate::udp) versions: Versions,
    pub(in crate::udp) address: SocketAddr,
    pub(in crate::udp) rules: Option<&'a ProcessRules>,
    pub(in crate::udp) options: SendOptions,
    /// `IP_MULTICAST_IF`
    pub(in crate::udp) group_interface: Option<u32>,
    /// `IPV6_MTU`
    pub(in crate::udp) packet_len_max: u32,
    pub(in crate::udp) overrides: Overrides,
    /// Whose ring it leaves by.
    pub(in crate::udp) user: RingUser,
}

fn resolve_way<S: Stack>(
    host: &Host<S>,
    fd: libc::c_int,
    asked: &Asked<'_>,
    headers: &mut KnownHeaders,
    next_hop: &mut Option<Arc<SharedNextHop>>,
) -> Result<Way<S>, Reason> {
    let Asked {
        local,
        address,
        options,
        overrides,
        ..
    } = *asked;
    judge(asked)?;
    let destination = address.ip();
    let is_v6 = destination.is_ipv6();
    let headers = headers.towards(fd, destination).ok_or(Reason::Option)?;
    let group = match destination.is_multicast() {
        true => Some(GroupOptions::read(fd, destination).ok_or(Reason::Option)?),
        false => None,
    };
    // What is bound to a group sends as if it were bound to nothing.
    let bound = Some(overrides.source.unwrap_or_else(|| local.ip()))
        .filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
    if bound.is_some_and(|ip| ip.is_ipv6() != is_v6) {
        return Err(Reason::Route);
    }
    let tos = overrides.tos.unwrap_or(headers.tos);
    let device = match overrides.device {
        0 => options.device,
        device => device,
    };
    let output_interface = match destination {
        IpAddr::V4(_) => group.and(asked.group_interface),
        IpAddr::V6(_) => interface_v6(address, device, group)?,
    };
    let key = NextHopKey {
        destination,
        source: bound.or_else(|| group.and_then(|group| group.source).map(IpAddr::V4)),
        tos,
        output_interface,
        flow: Some(FlowPorts {
            protocol: Protocol::Udp,
            local: local.port(),
            peer: address.port(),
        }),
    };
    let shared = next_hop.insert(host.next_hop(key));
    if shared.found.metrics.hop_limit && group.is_none() && overrides.ttl.is_none() {
        // `IP_TTL` does not say whether the program has set it.
        return Err(Reason::RouteMetric);
    }
    let wanted = Wanted {
        headers,
        group,
        tos,
        device,
        source: key.source,
    };
    way_by(host, asked, &wanted, shared.found.next_hop)
}

/// Whether datagrams may go past the kernel, as far as the addresses say it.
fn judge(asked: &Asked<'_>) -> Result<(), Reason> {
    let destination = asked.address.ip();
    if destination == Ipv4Addr::BROADCAST {
        return Err(Reason::NotUnicast);
    }
    if destination.is_unspecified() || destination.is_loopback() || asked.address.port() == 0 {
        return Err(Reason::Route);
    }
    if asked.local.port() == 0 {
        return Err(Reason::NotBound);
    }
    if stays_in_host(destination) {
        return Err(Reason::Multicast);
    }
    if !asked.versions.carry(destination) {
        return Err(Reason::Route);
    }
    let is_other_version = |of_v6| of_v6 != destination.is_ipv6();
    if asked.overrides.is_v6.is_some_and(is_other_version) {
        // The kernel ignores some of them.
        return Err(Reason::Message);
    }
    Ok(())
}

/// What the socket and the message say of the way.
struct Wanted {
    headers: HeaderOptions,
    group: Option<GroupOptions>,
    tos: u8,
    /// Index of the interface that it is bound to, or 0.
    device: u32,
    source: Option<IpAddr>,
}

/// The way by a next hop.
fn way_by<S: Stack>(
    host: &Host<S>,
    asked: &Asked<'_>,
    wanted: &Wanted,
    next_hop: NextHop,
) -> Result<Way<S>, Reason> {
    let (link_index, mac, source, hop_limit, mtu, mtu_locked) = match next_hop {
        NextHop::Kernel(reason) => return Err(reason),
        NextHop::Link {
            link_index,
            mac,
            source,
            hop_limit,
            mtu,
            mtu_locked,
        } => (link_index, mac, source, hop_limit, mtu, mtu_locked),
    };
    let (address, destination) = (asked.address, asked.address.ip());
    // In this order in `__ip_make_skb`.
    let of_socket = match wanted.group {
        Some(group) => group.ttl,
        None => wanted.headers.hop_limit(hop_limit),
    };
    let ttl = asked.overrides.ttl.unwrap_or(of_socket);
    if let Some(options) = wanted.group {
        if ttl == 0 {
            // Of these the kernel sends none, if the host is a member of the group.
            return Err(Reason::Multicast);
        }
        if options.is_looped {
            host.no_member_has(link_index, destination)?;
        }
    }
    if wanted.device != 0 && wanted.device != link_index {
        // The kernel looks for a route by this interface only.
        return Err(Reason::Route);
    }
    let interface = host.links.open(link_index)?;
    let source = SocketAddr::new(wanted.source.unwrap_or(source), asked.local.port());
    let eth = EthernetAddresses {
        source: interface.mac(),
        destination: mac,
    };
    let dont_fragment = wanted.headers.dont_fragment(mtu_locked);
    let label = wanted.headers.flow_label(Protocol::Udp, (source, address));
    let template = UdpTemplate::new(eth, source, address, ttl, wanted.tos, dont_fragment)
        .with_flow_label(label);
    let mtu = match asked.packet_len_max {
        limit if destination.is_ipv6() && limit != 0 => mtu.min(limit),
        _ => mtu,
    };
    let packet_payload_max = (mtu as usize).saturating_sub(headers_len(destination));
    let segment_len = asked.options.segment_len;
    let payload_len_max = match usize::from(segment_len) {
        0 => packet_payload_max,
        len => packet_payload_max.min(len),
    };
    let link = Link {
        sender: interface.lease(asked.user, source.ip()),
        template: Box::new(template),
        payload_len_max,
        packet_payload_max,
        segment_len,
        may_fragment_large: wanted.headers.may_fragment_large(),
    };
    Ok(match asked.options.is_paced() {
        true => Way::Paced(link),
        false => Way::Link(link),
    })
}

/// The interface that datagrams of IPv6 leave by, if it is not the route that decides
/// (`udpv6_sendmsg`, net/ipv6/udp.c). `device`: that of the socket or of the message, or 0.
fn interface_v6(
    address: SocketAddr,
    device: u32,
    group: Option<GroupOptions>,
) -> Result<Option<u32>, Reason> {
    let scope = scope_of(address);
    if scope != 0 && device != 0 && scope != device {
        // An error.
        return Err(Reason::Route);
    }
    let of_group = group.map_or(0, |group| group.interface);
    let chosen = [scope, device, of_group].into_iter();
    Ok(chosen.into_iter().find(|index| *index != 0))
}

/// IP and UDP headers, in bytes.
const fn headers_len(destination: IpAddr) -> usize {
    match destination {
        IpAddr::V4(_) => 28,
        IpAddr::V6(_) => 48,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(local: &str, address: &str, v6_overrides: Option<bool>) -> Result<(), Reason> {
        judge(&Asked {
            local: local.parse().unwrap(),
            versions: Versions {
                v4: !local.starts_with("[2001"),
                v6: local.starts_with('['),
            },
            address: address.parse().unwrap(),
            rules: None,
            options: SendOptions::default(),
            group_interface: None,
            packet_len_max: 0,
            overrides: Overrides {
                is_v6: v6_overrides,
                ..Overrides::default()
            },
            user: RingUser::default(),
        })
    }

    #[test]
    fn addresses_say_what_is_the_kernels() {
        let any = "0.0.0.0:7";
        for (local, address, overrides, expected) in [
            (any, "10.0.0.1:9", None, Ok(())),
            (any, "255.255.255.255:9", None, Err(Reason::NotUnicast)),
            (any, "0.0.0.0:9", None, Err(Reason::Route)),
            (any, "127.0.0.1:9", None, Err(Reason::Route)),
            (any, "10.0.0.1:0", None, Err(Reason::Route)),
            ("0.0.0.0:0", "10.0.0.1:9", None, Err(Reason::NotBound)),
            ("[::]:7", "[ff01::1]:9", None, Err(Reason::Multicast)),
            (any, "[2001:db8::1]:9", None, Err(Reason::Route)),
            ("[2001:db8::2]:7", "10.0.0.1:9", None, Err(Reason::Route)),
            ("[::]:7", "10.0.0.1:9", Some(false), Ok(())),
            ("[::]:7", "10.0.0.1:9", Some(true), Err(Reason::Message)),
        ] {
            assert_eq!(
                judged(local, address, overrides),
                expected,
                "{local} {address}"
            );
        }
    }
}
