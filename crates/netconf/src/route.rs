//! Route look-ups: the question and the kernel's answer.

use std::net::IpAddr;

use netlink_packet_core::DefaultNla;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteType, RouteVia,
};

/// What a packet would look like that asks for its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteQuery {
    /// Where the packet goes.
    pub destination: IpAddr,
    /// The source address, if the socket is bound to one; it must be this host's.
    pub source: Option<IpAddr>,
    /// The IPv4 type of service or IPv6 traffic class byte; the two ECN bits do not count.
    pub tos: u8,
    /// The firewall mark (SO_MARK), 0 for none.
    pub mark: u32,
    /// The interface that the socket is bound to (SO_BINDTODEVICE, IP_MULTICAST_IF, a scope id).
    pub output_interface: Option<u32>,
    /// The transport protocol (6, 17) with the ports of the two ends: policy rules and the choice
    /// among several next hops may depend on them ([`crate::Netconf::routes_by_flow`]). Without
    /// them the kernel answers as for UDP without ports.
    pub flow: Option<TransportFlow>,
}

/// What the transport header of a packet says that asks for its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransportFlow {
    /// The number of the protocol (IPPROTO_TCP, IPPROTO_UDP).
    pub protocol: u8,
    /// The port that it is sent from.
    pub source_port: u16,
    /// The port that it is sent to.
    pub destination_port: u16,
}

impl RouteQuery {
    /// The question of a socket without any option set.
    pub fn to(destination: IpAddr) -> Self {
        Self {
            destination,
            source: None,
            tos: 0,
            mark: 0,
            output_interface: None,
            flow: None,
        }
    }

    pub(crate) fn to_message(&self) -> RouteMessage {
        let (family, prefix_len) = match self.destination {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        message.header.destination_prefix_length = prefix_len;
        message.header.tos = self.tos & DSCP_MASK;
        message.header.flags = RouteFlags::LookupTable;
        message
            .attributes
            .push(RouteAttribute::Destination(self.destination.into()));
        if let Some(source) = self.source {
            message.header.source_prefix_length = prefix_len;
            message
                .attributes
                .push(RouteAttribute::Source(source.into()));
        }
        if self.mark != 0 {
            message.attributes.push(RouteAttribute::Mark(self.mark));
        }
        if let Some(index) = self.output_interface {
            message.attributes.push(RouteAttribute::Oif(index));
        }
        if let Some(flow) = self.flow {
            let port = |kind, port: u16| {
                RouteAttribute::Other(DefaultNla::new(kind, port.to_be_bytes().to_vec()))
            };
            message.attributes.extend([
                RouteAttribute::IpProto(flow.protocol),
                port(RTA_SPORT, flow.source_port),
                port(RTA_DPORT, flow.destination_port),
            ]);
        }
        message
    }
}

/// The way of a packet, as the kernel would send it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// What happens to the packet.
    pub kind: RouteKind,
    /// The interface it leaves by; the loopback interface for [`RouteKind::Local`].
    pub output_interface: u32,
    /// The next hop, which may be IPv6 for an IPv4 destination (RFC 5549); `None` if the
    /// destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The source address that the kernel would choose (or the one asked for).
    pub preferred_source: Option<IpAddr>,
    /// An MTU that differs from the interface's, by configuration or path MTU discovery. In bytes.
    pub mtu: Option<u32>,
    /// The MTU is locked: path MTU discovery is off, and packets may be fragmented on their way.
    pub mtu_locked: bool,
    /// The hop limit or time to live of the route, if it has one.
    pub hop_limit: Option<u8>,
    /// The route says something of TCP connections (`ip-route(8)`: window, rtt, rttvar, rto_min,
    /// ssthresh, cwnd, initcwnd, initrwnd, features, quickack, congctl, reordering, advmss,
    /// fastopen_no_cookie).
    pub has_stream_metrics: bool,
}

/// What a route does with a packet (RTN_* in linux/rtnetlink.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RouteKind {
    /// Sent to one host.
    Unicast,
    /// Delivered on this host.
    Local,
    /// Sent to all hosts of a link.
    Broadcast,
    /// Sent to one of many hosts.
    Anycast,
    /// Sent to a group.
    Multicast,
    /// Dropped silently.
    Blackhole,
    /// Refused as unreachable.
    Unreachable,
    /// Refused by policy.
    Prohibit,
    /// A kind of which nothing more is known; the number is the kernel's.
    Other(u8),
}

impl Route {
    /// The error says what is missing.
    pub(crate) fn from_message(message: &RouteMessage) -> Result<Self, &'static str> {
        let mut output_interface = None;
        let mut gateway = None;
        let mut preferred_source = None;
        let mut mtu = None;
        let mut mtu_locked = false;
        let mut hop_limit = None;
        let mut has_stream_metrics = false;
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Oif(index) => output_interface = Some(*index),
                RouteAttribute::Gateway(address) => gateway = ip_address(address),
                RouteAttribute::Via(RouteVia::Inet(address)) => gateway = Some((*address).into()),
                RouteAttribute::Via(RouteVia::Inet6(address)) => gateway = Some((*address).into()),
                RouteAttribute::PrefSource(address) => preferred_source = ip_address(address),
                RouteAttribute::Metrics(metrics) => {
                    mtu = mtu_of(metrics);
                    mtu_locked = locks_mtu(metrics);
                    hop_limit = hop_limit_of(metrics);
                    has_stream_metrics = metrics.iter().any(is_of_streams);
                }
                _ => {}
            }
        }
        Ok(Self {
            kind: RouteKind::from_wire(message.header.kind),
            output_interface: output_interface.ok_or("no output interface")?,
            gateway,
            preferred_source,
            mtu,
            mtu_locked,
            hop_limit,
            has_stream_metrics,
        })
    }
}

impl RouteKind {
    fn from_wire(kind: RouteType) -> Self {
        match kind {
            RouteType::Unicast => Self::Unicast,
            RouteType::Local => Self::Local,
            RouteType::Broadcast => Self::Broadcast,
            RouteType::Anycast => Self::Anycast,
            RouteType::Multicast => Self::Multicast,
            RouteType::BlackHole => Self::Blackhole,
            RouteType::Unreachable => Self::Unreachable,
            RouteType::Prohibit => Self::Prohibit,
            other => Self::Other(other.into()),
        }
    }
}

fn ip_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn mtu_of(metrics: &[RouteMetric]) -> Option<u32> {
    metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu_bytes) => Some(*mtu_bytes),
        _ => None,
    })
}

fn hop_limit_of(metrics: &[RouteMetric]) -> Option<u8> {
    let hop_limit = metrics.iter().find_map(|metric| match metric {
        RouteMetric::Hoplimit(hop_limit) => Some(*hop_limit),
        _ => None,
    })?;
    // Zero stands for the default.
    u8::try_from(hop_limit).ok().filter(|limit| *limit > 0)
}

fn is_of_streams(metric: &RouteMetric) -> bool {
    !matches!(
        metric,
        RouteMetric::Mtu(_) | RouteMetric::Lock(_) | RouteMetric::Hoplimit(_)
    )
}

fn locks_mtu(metrics: &[RouteMetric]) -> bool {
    metrics
        .iter()
        .any(|metric| matches!(metric, RouteMetric::Lock(locked) if locked & 1 << RTAX_MTU != 0))
}

/// The destination (address, prefix length) of a route in a table; `None` if it is of neither
/// family.
pub(crate) fn destination(message: &RouteMessage) -> Option<(IpAddr, u8)> {
    let named = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(address) => Some(ip_address(address)),
            _ => None,
        });
    let default = match message.header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let address = named.unwrap_or(Some(default))?;
    Some((address, message.header.destination_prefix_length))
}

/// `linux/rtnetlink.h`
const RTAX_MTU: u32 = 2;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;

/// The upper six bits of the type of service byte; the lower two are ECN (RFC 3168).
const DSCP_MASK: u8 = 0xfc;
