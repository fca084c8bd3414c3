//! What the engine asks of the kernel's network configuration. Slow path only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;
use std::time::Duration;
use std::{fmt, io};

use dev_core::{LinkSpec, Protocol};

use crate::reason::Reason;

/// An interface and what decides whether it can be accelerated.
#[derive(Clone, Debug)]
pub struct InterfaceFacts {
    /// Name, index, hardware address, MTU, driver.
    pub spec: LinkSpec,
    /// Its addresses that packets can come to.
    pub addresses: Vec<IpAddr>,
    /// Administratively up.
    pub up: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// Why no back-end can take it over, in a few words: it is no Ethernet interface, or a bridge,
    /// or part of one. Empty: one can, perhaps.
    pub obstacle: String,
}

impl InterfaceFacts {
    /// Ethernet, of a kind that a back-end can take over, and not part of a bond or bridge.
    pub fn is_eligible(&self) -> bool {
        self.obstacle.is_empty()
    }

    /// The same, and up, and not the loopback interface.
    pub fn is_usable(&self) -> bool {
        self.up && !self.loopback && self.is_eligible()
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Out of an interface, to a neighbour whose hardware address is known.
    Link {
        /// Interface index.
        link_index: u32,
        /// Hardware address of the next hop.
        mac: [u8; 6],
        /// Source address that the route prefers.
        source: IpAddr,
        /// The hop limit for unicast that the route or the interface has; 0 for IPv4, where sockets
        /// have it.
        hop_limit: u8,
        /// Largest IP packet in bytes.
        mtu: u32,
        /// Path MTU discovery is off for the route: packets may be fragmented on their way.
        mtu_locked: bool,
    },
    /// Through the kernel.
    Kernel(Reason),
}

/// What a datagram says of where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHopKey {
    /// Its destination.
    pub destination: IpAddr,
    /// The source address that the socket demands.
    pub source: Option<IpAddr>,
    /// The type of service byte.
    pub tos: u8,
    /// The index of the interface that the socket demands.
    pub output_interface: Option<u32>,
    /// Its protocol and ports. They count only where [`Network::routes_by_flow`].
    pub flow: Option<FlowPorts>,
}

/// What the transport header says of a packet, for its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowPorts {
    /// UDP or TCP.
    pub protocol: Protocol,
    /// The port of the socket; 0 before it has one.
    pub local: u16,
    /// The port of the destination.
    pub peer: u16,
}

/// A next hop, and what it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Where datagrams go.
    pub next_hop: NextHop,
    /// The neighbour (link index, address) whose hardware address was looked up.
    pub neighbour: Option<(u32, IpAddr)>,
    /// What the route says of packets beyond their way.
    pub metrics: RouteMetrics,
}

/// Metrics of a route that only the kernel heeds (`ip-route(8)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteMetrics {
    /// `hoplimit`: the time to live of packets whose socket does not say otherwise.
    pub hop_limit: bool,
    /// Some that are for TCP connections, such as `advmss` and `initcwnd`.
    pub of_streams: bool,
}

impl From<NextHop> for Resolution {
    fn from(next_hop: NextHop) -> Self {
        Self {
            next_hop,
            neighbour: None,
            metrics: RouteMetrics::default(),
        }
    }
}

/// What has changed in the network's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkChange {
    /// Links, addresses or IPsec policies have changed, not only routes and neighbours.
    pub interfaces: bool,
    /// Any destination may have another route.
    pub all_routes: bool,
    /// Routes (address, prefix length) that have changed.
    pub routes: Vec<(IpAddr, u8)>,
    /// Neighbours (link index, address) that have another hardware address, or one now, or none any
    /// more.
    pub neighbours: Vec<(u32, IpAddr)>,
}

impl NetworkChange {
    /// Every route, and perhaps the links and addresses.
    pub fn everything(interfaces: bool) -> Self {
        Self {
            interfaces,
            all_routes: true,
            ..Self::default()
        }
    }

    /// Whether what was found out about a destination may be wrong now.
    pub fn concerns(&self, destination: IpAddr, found: &Resolution) -> bool {
        self.interfaces
            || self.all_routes
            || found
                .neighbour
                .is_some_and(|neighbour| self.neighbours.contains(&neighbour))
            || self
                .routes
                .iter()
                .any(|route| is_within(destination, *route))
    }
}

fn is_within(address: IpAddr, (network, prefix_len): (IpAddr, u8)) -> bool {
    // The first bits of either first.
    let bits = |address| match address {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    };
    let differ = bits(address) ^ bits(network);
    let host_bits = 128_u32.saturating_sub(prefix_len.into());
    address.is_ipv4() == network.is_ipv4() && differ.checked_shr(host_bits).unwrap_or(0) == 0
}

/// A UDP socket of the namespace, or a TCP socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortUser {
    /// Its address, unspecified for all.
    pub local: SocketAddr,
    /// Its peer, if it is connected.
    pub peer: Option<SocketAddr>,
    /// Its inode number.
    pub inode: u64,
}

/// A TCP connection of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelConnection {
    /// This host's end, as packets have it.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// `SO_COOKIE` of its socket.
    pub cookie: u64,
    /// It waits for late packets, and is forgotten after this time (TIME-WAIT, and FIN-WAIT-2 that
    /// is nobody's).
    pub waits: Option<Duration>,
}

/// The kernel's TCP connections: which there are, and which of them end.
pub trait KernelConnections: fmt::Debug + Send + Sync {
    /// Becomes readable when [`KernelConnections::take_ended`] has something to tell.
    fn events_fd(&self) -> RawFd;

    /// From here on the kernel tells of sockets that end, or not any more. That costs it some
    /// microseconds for every TCP socket.
    ///
    /// # Errors
    /// The kernel does not tell.
    fn follow(&self, does_follow: bool) -> io::Result<()>;

    /// Hands the cookies of those that have ended to `ended`, without waiting. Returns whether
    /// others were lost.
    ///
    /// # Errors
    /// The kernel does not tell any more.
    fn take_ended(&self, ended: &mut dyn FnMut(u64)) -> io::Result<bool>;

    /// The connection between these ends whose segments come in on an interface, if the kernel has
    /// it.
    ///
    /// # Errors
    /// The kernel does not say.
    fn find(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        link: u32,
    ) -> io::Result<Option<KernelConnection>>;

    /// All connections whose end here has this port and whose handshake is over. The kernel walks
    /// its whole table.
    ///
    /// # Errors
    /// The kernel does not say.
    fn at_port(&self, port: u16) -> io::Result<Vec<KernelConnection>>;
}

/// The kernel's network configuration.
pub trait Network: fmt::Debug + Send + Sync {
    /// Whether a socket belongs to this network's namespace.
    fn has_socket(&self, fd: RawFd) -> bool {
        let _ = fd;
        true
    }

    /// Whether the calling thread is in this network's namespace.
    fn is_here(&self) -> bool {
        true
    }

    /// The UDP sockets of every process, or those with this port. `None`: the kernel does not say.
    fn port_users(&self, port: Option<u16>) -> Option<Vec<PortUser>> {
        let _ = port;
        Some(Vec::new())
    }

    /// The TCP sockets of every process that listen, or those with this port. `None`: the kernel
    /// does not say.
    fn listeners(&self, port: Option<u16>) -> Option<Vec<PortUser>> {
        let _ = port;
        Some(Vec::new())
    }

    /// Has the kernel end what it has of a TCP connection whose segments come in on an interface,
    /// in whatever state and whoever's it is. A listener stays. Returns whether there was one.
    ///
    /// # Errors
    /// The kernel cannot (CONFIG_INET_DIAG_DESTROY), or the process may not (CAP_NET_ADMIN).
    fn end_connection(&self, local: SocketAddr, peer: SocketAddr, link: u32) -> io::Result<bool> {
        let _ = (local, peer, link);
        Ok(false)
    }

    /// Whether the kernel has a TCP connection.
    ///
    /// # Errors
    /// The kernel does not say (CONFIG_INET_TCP_DIAG).
    fn has_connection(&self, local: SocketAddr, peer: SocketAddr) -> io::Result<bool> {
        let _ = (local, peer);
        Ok(false)
    }

    /// The kernel's TCP connections, in the namespace of the calling thread.
    ///
    /// # Errors
    /// Netlink cannot be used.
    fn kernel_connections(&self) -> io::Result<Box<dyn KernelConnections>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What the kernel would apply to packets of an interface, and does not to those that pass by
    /// it; in a few words each.
    fn passed_by(&self, link_index: u32) -> Vec<String> {
        let _ = link_index;
        Vec::new()
    }

    /// Whether IPsec policies are in force, which only the kernel applies.
    fn has_ipsec(&self) -> bool {
        false
    }

    /// Source addresses that the kernel refuses in IPv4 packets that come in on an interface: this
    /// host's own, and with reverse path filtering those of broadcasts.
    fn refused_sources(&self, link_index: u32) -> Vec<Ipv4Addr> {
        let _ = link_index;
        let interfaces = self.interfaces();
        interfaces
            .into_iter()
            .flat_map(|interface| interface.addresses)
            .filter_map(|address| match address {
                IpAddr::V4(address) => Some(address),
                IpAddr::V6(_) => None,
            })
            .collect()
    }

    /// The hop limit of IPv6 packets that leave by an interface, if neither the route nor the
    /// socket has one.
    fn hop_limit(&self, link_index: u32) -> u8 {
        let _ = link_index;
        64
    }

    /// Whether the kernel knows a way from one end of a connection, which must be this host's, to
    /// the other.
    fn has_route(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let _ = (local, peer);
        true
    }

    /// Has the kernel find out a neighbour's hardware address. It tells of it as of any change.
    fn ask_for_neighbour(&self, link_index: u32, address: IpAddr) {
        let _ = (link_index, address);
    }

    /// All interfaces.
    fn interfaces(&self) -> Vec<InterfaceFacts>;

    /// The number of the XDP program that is attached to an interface now.
    fn xdp_program(&self, link_index: u32) -> Option<u32> {
        let _ = link_index;
        None
    }

    /// What has changed since the last call, without waiting; `None`: nothing.
    fn take_changes(&self) -> Option<NetworkChange>;

    /// Whether the ways of packets to one destination may differ by protocol and ports, as of the
    /// last [`Network::take_changes`].
    fn routes_by_flow(&self) -> bool {
        false
    }

    /// The kernel's routing decision and neighbour for a destination. A multicast group needs no
    /// neighbour.
    fn next_hop(&self, key: &NextHopKey) -> Resolution;

    /// Whether any socket of the host is a member of a multicast group on an interface, as of the
    /// last [`Network::take_member_changes`]. `None`: the kernel does not say.
    fn has_members(&self, link_index: u32, group: IpAddr) -> Option<bool> {
        let _ = (link_index, group);
        None
    }

    /// Groups of which [`Network::has_members`] may have another answer since the last call, as
    /// routes. Does not wait.
    fn take_member_changes(&self) -> Option<NetworkChange> {
        None
    }
}

/// A network that does not change, for tests and benches without a kernel network.
#[derive(Clone, Debug)]
pub struct FixedNetwork {
    /// The answer to [`Network::interfaces`].
    pub interfaces: Vec<InterfaceFacts>,
    /// The answer to [`Network::next_hop`].
    pub next_hop: NextHop,
}

impl Network for FixedNetwork {
    fn interfaces(&self) -> Vec<InterfaceFacts> {
        self.interfaces.clone()
    }

    fn take_changes(&self) -> Option<NetworkChange> {
        None
    }

    fn next_hop(&self, _key: &NextHopKey) -> Resolution {
        self.next_hop.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_concerns_what_it_may_make_wrong() {
        let destination: IpAddr = "192.0.2.7".parse().unwrap();
        let gateway = |link_index| (link_index, "10.0.0.9".parse().unwrap());
        let found = Resolution {
            neighbour: Some(gateway(3)),
            ..NextHop::Kernel(Reason::Neighbour).into()
        };
        let concerns = |change: NetworkChange| change.concerns(destination, &found);
        assert!(!concerns(NetworkChange::default()));
        assert!(concerns(NetworkChange::everything(false)));
        for (route, expected) in [
            (("192.0.2.0", 24), true),
            (("192.0.2.7", 32), true),
            (("0.0.0.0", 0), true),
            (("192.0.2.6", 32), false),
            (("192.0.3.0", 24), false),
            (("128.0.0.0", 1), true),
            (("::", 0), false),
        ] {
            let routes = vec![(route.0.parse().unwrap(), route.1)];
            let change = NetworkChange {
                routes,
                ..NetworkChange::default()
            };
            assert_eq!(concerns(change), expected, "{route:?}");
        }
        let six: IpAddr = "2001:db8::7".parse().unwrap();
        for (network, prefix_len, expected) in [
            ("2001:db8::", 64, true),
            ("2001:db8::7", 128, true),
            ("::", 0, true),
            ("2001:db8:0:1::", 64, false),
            ("2001:db8::6", 128, false),
            ("0.0.0.0", 0, false),
        ] {
            let route = (network.parse().unwrap(), prefix_len);
            assert_eq!(is_within(six, route), expected, "{network}");
        }
        for (link_index, expected) in [(3, true), (4, false)] {
            let change = NetworkChange {
                neighbours: vec![gateway(link_index)],
                ..NetworkChange::default()
            };
            assert_eq!(concerns(change), expected);
        }
    }
}
