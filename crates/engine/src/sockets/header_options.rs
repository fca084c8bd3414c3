//! What a socket's options say of the IP headers of what it sends.

use std::net::{IpAddr, SocketAddr};

use dev_core::Protocol;
use libc::c_int;
use links::flow_label::flow_label;

/// Of packets of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderOptions {
    /// `IP_TTL`, or `IPV6_UNICAST_HOPS`; `None`: what the route or the interface says.
    hop_limit: Option<u8>,
    /// `IP_TOS`, or `IPV6_TCLASS`
    pub(crate) tos: u8,
    /// `IP_MTU_DISCOVER`; nobody on the way fragments packets of IPv6.
    mtu_discover: Option<c_int>,
    /// `IPV6_AUTOFLOWLABEL`; `None`: what the host says.
    flow_label: Option<bool>,
}

const DEFAULT_HOPS: u8 = 64;

/// Whether packets have flow labels by themselves (include/uapi/linux/in6.h).
pub(crate) const IPV6_AUTOFLOWLABEL: c_int = 70;

impl HeaderOptions {
    /// Those of IPv6 packets of a socket on which nothing was set.
    pub(crate) const DEFAULT_V6: Self = Self {
        hop_limit: None,
        tos: 0,
        mtu_discover: None,
        flow_label: None,
    };

    /// Asks the kernel's socket for those of packets to a destination.
    pub(crate) fn read(fd: c_int, destination: IpAddr) -> Option<Self> {
        match destination {
            IpAddr::V4(_) => Self::read_v4(fd),
            IpAddr::V6(_) => Self::read_v6(fd),
        }
    }

    fn read_v4(fd: c_int) -> Option<Self> {
        let option = |name| sys::option_int(fd, libc::IPPROTO_IP, name).ok();
        Some(Self {
            hop_limit: Some(u8::try_from(option(libc::IP_TTL)?).unwrap_or(DEFAULT_HOPS)),
            tos: u8::try_from(option(libc::IP_TOS)?).unwrap_or(0),
            mtu_discover: Some(option(libc::IP_MTU_DISCOVER)?),
            flow_label: None,
        })
    }

    /// A socket on which no hop limit was set tells that of its route, if it has one, or the host's
    /// (`do_ipv6_getsockopt`, net/ipv6/ipv6_sockglue.c).
    fn read_v6(fd: c_int) -> Option<Self> {
        let option = |name| sys::option_int(fd, libc::IPPROTO_IPV6, name).ok();
        let hops = u8::try_from(option(libc::IPV6_UNICAST_HOPS)?).ok();
        Some(Self {
            hop_limit: hops.filter(|hops| *hops != hops_of_host()),
            tos: u8::try_from(option(libc::IPV6_TCLASS)?).unwrap_or(0),
            mtu_discover: None,
            flow_label: Some(option(IPV6_AUTOFLOWLABEL)? != 0),
        })
    }

    /// The flow label of packets from one end to the other; 0 for those of IPv4.
    pub(crate) fn flow_label(self, protocol: Protocol, ends: (SocketAddr, SocketAddr)) -> u32 {
        match ends.1 {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(_) => flow_label(self.flow_label, protocol, ends),
        }
    }

    /// The hop limit of packets over a route that has this one for sockets without their own.
    pub(crate) fn hop_limit(self, of_route: u8) -> u8 {
        self.hop_limit.unwrap_or(of_route)
    }

    /// Whether packets have the bit "don't fragment" (`ip_dont_fragment`, `__ip_make_skb`).
    pub(crate) fn dont_fragment(self, mtu_locked: bool) -> bool {
        match self.mtu_discover {
            Some(libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE) => true,
            Some(libc::IP_PMTUDISC_WANT) => !mtu_locked,
            _ => false,
        }
    }

    /// Whether what is larger than a packet may be fragmented on its way, also if the device cuts
    /// it.
    pub(crate) fn may_fragment_large(self) -> bool {
        self.mtu_discover == Some(libc::IP_PMTUDISC_WANT)
    }
}

/// `net.ipv6.conf.all.hop_limit`
fn hops_of_host() -> u8 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/hop_limit");
    let hops = text.ok().and_then(|text| text.trim().parse().ok());
    hops.unwrap_or(DEFAULT_HOPS)
}
