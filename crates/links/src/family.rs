//! The family of a socket: in which form its addresses are the program's. Inside the engine an
//! address has the version of the packets that carry it; a socket of `AF_INET6` that carries IPv4
//! ("dual stack") shows such addresses mapped, `::ffff:a.b.c.d`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::c_int;
use sys::Errno;

/// The family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `AF_INET`
    Inet,
    /// `AF_INET6`
    Inet6,
}

impl Family {
    /// That of an argument of `socket(2)`. `None`: no socket of the internet's.
    pub const fn of_domain(domain: c_int) -> Option<Self> {
        match domain {
            libc::AF_INET => Some(Self::Inet),
            libc::AF_INET6 => Some(Self::Inet6),
            _ => None,
        }
    }

    pub const fn domain(self) -> c_int {
        match self {
            Self::Inet => libc::AF_INET,
            Self::Inet6 => libc::AF_INET6,
        }
    }

    /// An address in the form that such sockets have it in.
    #[inline]
    pub fn form(self, address: impl Into<SocketAddr>) -> SocketAddr {
        match (self, address.into()) {
            (Self::Inet6, SocketAddr::V4(address)) => {
                let ip = address.ip().to_ipv6_mapped();
                SocketAddrV6::new(ip, address.port(), 0, 0).into()
            }
            (_, address) => address,
        }
    }

    /// Whether a stream of this family takes the address for one that it can connect to.
    pub const fn is_of(self, address: &SocketAddr) -> bool {
        match self {
            Self::Inet => address.is_ipv4(),
            Self::Inet6 => address.is_ipv6(),
        }
    }
}

/// An address as the engine has it: IPv4 if it is mapped; without a flow label, and with a scope
/// only if it means nothing without.
#[inline]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(six) => canonical_v6(six),
        SocketAddr::V4(_) => address,
    }
}

fn canonical_v6(address: SocketAddrV6) -> SocketAddr {
    let (ip, port) = (address.ip(), address.port());
    if let Some(ip) = ip.to_ipv4_mapped() {
        return SocketAddrV4::new(ip, port).into();
    }
    let scope = if has_scope(ip) { address.scope_id() } else { 0 };
    SocketAddrV6::new(*ip, port, 0, scope).into()
}

/// Whether packets to an address do not leave their host, and are dropped if they come from
/// elsewhere: groups of the interface-local scope of IPv6 and of the reserved one below it (RFC
/// 4291 section 2.7).
pub fn stays_in_host(ip: IpAddr) -> bool {
    const INTERFACE_LOCAL: u8 = 1;
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(ip) => ip.is_multicast() && ip.octets()[1] & 0x0f <= INTERFACE_LOCAL,
    }
}

/// Whether an address says where it leads only together with an interface
/// (`__ipv6_addr_needs_scope_id`, include/net/ipv6.h).
fn has_scope(ip: &Ipv6Addr) -> bool {
    let is_narrow_group = ip.is_multicast() && matches!(ip.octets()[1] & 0x0f, 1 | 2);
    ip.is_unicast_link_local() || is_narrow_group
}

/// An address in a packet that came in on an interface, as programs see it: with the interface as
/// its scope if it has one.
#[inline]
pub fn scoped(address: SocketAddr, link_index: u32) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(six) => scoped_v6(six, link_index),
    }
}

#[inline(never)]
fn scoped_v6(address: SocketAddrV6, link_index: u32) -> SocketAddr {
    let scope = if has_scope(address.ip()) {
        link_index
    } else {
        0
    };
    SocketAddrV6::new(*address.ip(), address.port(), 0, scope).into()
}

/// Index of the interface that an address names; 0: none.
pub fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(six) if has_scope(six.ip()) => six.scope_id(),
        _ => 0,
    }
}

/// Index of the interface that a connection between two addresses belongs to, as one of them is
/// link-local; 0: none. The kernel's socket is bound to it.
pub fn link_of(local: SocketAddr, peer: SocketAddr) -> u32 {
    match scope_of(peer) {
        0 => scope_of(local),
        scope => scope,
    }
}

/// The versions of IP that a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub v4: bool,
    pub v6: bool,
}

impl Versions {
    const V4: Self = Self {
        v4: true,
        v6: false,
    };
    const V6: Self = Self {
        v4: false,
        v6: true,
    };
    pub const BOTH: Self = Self { v4: true, v6: true };

    const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Whether two sockets have one of them in common.
    pub const fn overlap(self, other: Self) -> bool {
        self.v4 && other.v4 || self.v6 && other.v6
    }

    /// Whether one of them is that.
    pub const fn has(self, is_v6: bool) -> bool {
        if is_v6 { self.v6 } else { self.v4 }
    }

    /// Those of either.
    pub const fn and(self, other: Self) -> Self {
        Self {
            v4: self.v4 || other.v4,
            v6: self.v6 || other.v6,
        }
    }

    /// Whether packets from and to the address are among them.
    pub const fn carry(self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(_) => self.v4,
            IpAddr::V6(_) => self.v6,
        }
    }
}

/// The addresses of a socket of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub local: SocketAddr,
    pub peer: Option<SocketAddr>,
    pub versions: Versions,
}

impl Addresses {
    /// Asks the kernel. `None`: it is of neither family.
    pub fn of(fd: c_int) -> Result<Option<Self>, Errno> {
        let Some(local) = sys::local_address(fd)?.map(canonical) else {
            return Ok(None);
        };
        let peer = sys::peer_address(fd)?.map(canonical);
        let is_v6only = || sys::option_int(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) != Ok(0);
        let versions = match (peer, local.ip()) {
            (Some(peer), _) => Versions::of(peer.ip()),
            (None, ip @ IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => {
                // That of a socket without an address may change.
                if local.port() != 0 && is_v6only() {
                    Versions::of(ip)
                } else {
                    Versions::BOTH
                }
            }
            (None, ip) => Versions::of(ip),
        };
        Ok(Some(Self {
            local,
            peer,
            versions,
        }))
    }
}

/// The address that a socket is bound to.
pub fn local_address(fd: c_int) -> Option<SocketAddr> {
    sys::local_address(fd).ok()?.map(canonical)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn addresses_have_two_forms() {
        let four: SocketAddrV4 = "10.0.0.1:80".parse().unwrap();
        assert_eq!(Family::Inet.form(four), four.into());
        let mapped = Family::Inet6.form(four);
        assert_eq!(mapped.to_string(), "[::ffff:10.0.0.1]:80");
        assert_eq!(canonical(mapped), four.into());
        for (other, expected) in [
            ("[::]:80", "[::]:80"),
            ("[::1]:80", "[::1]:80"),
            ("[2001:db8::1%3]:80", "[2001:db8::1]:80"),
            ("[::10.0.0.1]:80", "[::a00:1]:80"),
            ("[fe80::1%3]:80", "[fe80::1%3]:80"),
            ("[ff02::1%3]:80", "[ff02::1%3]:80"),
            ("[ff05::1%3]:80", "[ff05::1]:80"),
        ] {
            let other = other.parse().unwrap();
            assert_eq!(canonical(other).to_string(), expected);
            assert_eq!(Family::Inet6.form(other), other);
        }
    }

    #[test]
    fn a_connection_belongs_to_the_interface_of_either_end() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (local, peer, expected) in [
            ("[fe80::1%3]:80", "[fe80::2%3]:9", 3),
            ("[fd00::1]:80", "[fe80::2%4]:9", 4),
            ("[fe80::1%5]:80", "[fd00::2]:9", 5),
            // The scope of others says nothing.
            ("[fd00::1%6]:80", "[fd00::2%6]:9", 0),
            ("10.0.0.1:80", "10.0.0.2:9", 0),
        ] {
            assert_eq!(link_of(address(local), address(peer)), expected, "{local}");
        }
    }

    #[test]
    fn a_socket_says_what_it_carries() {
        let of = |fd: &dyn AsRawFd| Addresses::of(fd.as_raw_fd()).unwrap().unwrap();
        let four = UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = of(&four).local;
        assert_eq!(local, four.local_addr().unwrap());
        let Ok(any) = UdpSocket::bind("[::]:0") else {
            // The machine has no IPv6.
            return;
        };
        let only = std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only");
        if only.unwrap().trim() == "0" {
            let addresses = of(&any);
            assert_eq!(addresses.local, any.local_addr().unwrap());
            assert_eq!(addresses.versions, Versions::BOTH);
        }
        let mapped = UdpSocket::bind("[::ffff:127.0.0.1]:0").unwrap();
        mapped.connect(Family::Inet6.form(local)).unwrap();
        assert_eq!(of(&mapped).peer, Some(local));
        assert_eq!(of(&mapped).versions, Versions::V4);
        assert_eq!(of(&mapped).local.ip(), Ipv4Addr::LOCALHOST);
        // std's listeners are of one family each.
        let six = TcpListener::bind("[::1]:0").unwrap();
        assert_eq!(of(&six).versions, Versions::V6);
        any.connect(six.local_addr().unwrap()).unwrap();
        assert_eq!(of(&any).versions, Versions::V6);
    }
}
