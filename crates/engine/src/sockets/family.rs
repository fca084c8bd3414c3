//! The family of a socket: in which form its addresses are the program's. Inside the engine there are IPv4 addresses only; a socket
//! of `AF_INET6` that carries IPv4 ("dual stack") shows them mapped, `::ffff:a.b.c.d`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::c_int;

use crate::sys::{self, Errno};

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

    pub(crate) const fn domain(self) -> c_int {
        match self {
            Self::Inet => libc::AF_INET,
            Self::Inet6 => libc::AF_INET6,
        }
    }

    /// An address in the form that such sockets have it in.
    #[inline]
    pub fn form(self, address: SocketAddrV4) -> SocketAddr {
        match self {
            Self::Inet => address.into(),
            Self::Inet6 => {
                let ip = address.ip().to_ipv6_mapped();
                SocketAddrV6::new(ip, address.port(), 0, 0).into()
            }
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

/// An address as the engine has it: IPv4 if it is mapped.
#[inline]
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(six) => match six.ip().to_ipv4_mapped() {
            Some(ip) => SocketAddrV4::new(ip, six.port()).into(),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// The addresses of a socket of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// As an operator reads it.
    pub(crate) local: SocketAddr,
    pub(crate) peer: Option<SocketAddr>,
    /// It is for IPv6 alone: bound or connected to such an address, or to any with `IPV6_V6ONLY`.
    pub(crate) is_ipv6: bool,
}

impl Addresses {
    /// Asks the kernel. `None`: it is of neither family.
    pub(crate) fn of(fd: c_int) -> Result<Option<Self>, Errno> {
        let Some(local) = sys::local_address(fd)?.map(canonical) else {
            return Ok(None);
        };
        let peer = sys::peer_address(fd)?.map(canonical);
        let is_six = |address: &SocketAddr| address.is_ipv6();
        let is_any = is_six(&local) && local.ip().is_unspecified();
        let has_v6only = || sys::option_int(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) != Ok(0);
        let is_ipv6 = peer.as_ref().is_some_and(is_six)
            || is_six(&local) && (!is_any || local.port() != 0 && has_v6only());
        Ok(Some(Self {
            local,
            peer,
            is_ipv6,
        }))
    }

    /// Its own address among those of IPv4, unspecified for all. `None`: it is for IPv6 alone.
    pub(crate) fn local_ipv4(&self) -> Option<SocketAddrV4> {
        (!self.is_ipv6).then(|| match self.local.ip() {
            IpAddr::V4(ip) => SocketAddrV4::new(ip, self.local.port()),
            IpAddr::V6(_) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, self.local.port()),
        })
    }

    /// Its peer, if that is one over IPv4.
    pub(crate) fn peer_ipv4(&self) -> Option<SocketAddrV4> {
        match self.peer {
            Some(SocketAddr::V4(peer)) => Some(peer),
            _ => None,
        }
    }
}

/// The address that a socket is bound to, if it carries IPv4.
pub(crate) fn local_ipv4(fd: c_int) -> Option<SocketAddrV4> {
    Addresses::of(fd).ok()??.local_ipv4()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn addresses_have_two_forms() {
        let four: SocketAddrV4 = "10.0.0.1:80".parse().unwrap();
        assert_eq!(Family::Inet.form(four), four.into());
        let mapped = Family::Inet6.form(four);
        assert_eq!(mapped.to_string(), "[::ffff:10.0.0.1]:80");
        assert_eq!(canonical(mapped), four.into());
        for other in ["[::]:80", "[::1]:80", "[2001:db8::1]:80", "[::10.0.0.1]:80"] {
            let other = other.parse().unwrap();
            assert_eq!(canonical(other), other);
        }
    }

    #[test]
    fn a_socket_says_what_it_carries() {
        let of = |fd: &dyn AsRawFd| Addresses::of(fd.as_raw_fd()).unwrap().unwrap();
        let four = UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = of(&four).local_ipv4().unwrap();
        assert_eq!(SocketAddr::from(local), four.local_addr().unwrap());
        let Ok(any) = UdpSocket::bind("[::]:0") else {
            // The machine has no IPv6.
            return;
        };
        let only = std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only");
        if only.unwrap().trim() == "0" {
            let addresses = of(&any);
            assert_eq!(addresses.local, any.local_addr().unwrap());
            assert!(addresses.local_ipv4().unwrap().ip().is_unspecified());
        }
        let mapped = UdpSocket::bind("[::ffff:127.0.0.1]:0").unwrap();
        mapped.connect(Family::Inet6.form(local)).unwrap();
        assert_eq!(of(&mapped).peer_ipv4(), Some(local));
        assert_eq!(of(&mapped).local_ipv4().unwrap().ip(), &Ipv4Addr::LOCALHOST);
        // std's listeners are of one family each.
        let six = TcpListener::bind("[::1]:0").unwrap();
        assert_eq!(of(&six).local_ipv4(), None);
        any.connect(six.local_addr().unwrap()).unwrap();
        assert!(of(&any).is_ipv6 && of(&any).peer_ipv4().is_none());
    }
}
