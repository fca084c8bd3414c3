//! What the kernel knows of memberships in multicast groups.

use std::io;
use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use dev_core::SourceFilter;
use libc::c_int;

use super::check;

/// `MCAST_MSFILTER`
const MCAST_MSFILTER: c_int = 48;
/// `MCAST_EXCLUDE`
const MCAST_EXCLUDE: u32 = 0;

/// `struct group_filter`, and what it has in common with `struct group_req` and `struct
/// group_source_req`.
#[repr(C)]
struct Filter {
    interface: u32,
    group: libc::sockaddr_storage,
    mode: u32,
    source_count: u32,
    sources: [libc::sockaddr_storage; 0],
}

/// Where such a structure has the address of the group, of either version, in bytes.
pub const GROUP_OFFSET: usize = offset_of!(Filter, group) + offset_of!(libc::sockaddr_in, sin_addr);
pub const V6_GROUP_OFFSET: usize =
    offset_of!(Filter, group) + offset_of!(libc::sockaddr_in6, sin6_addr);

/// The same places in words of 32 bits.
const GROUP: usize = offset_of!(Filter, group) / 4;
const MODE: usize = offset_of!(Filter, mode) / 4;
const COUNT: usize = offset_of!(Filter, source_count) / 4;
const SOURCES: usize = offset_of!(Filter, sources) / 4;
const SOURCE: usize = size_of::<libc::sockaddr_storage>() / 4;
/// Of a socket address.
const ADDRESS: usize = offset_of!(libc::sockaddr_in, sin_addr) / 4;
const V6_ADDRESS: usize = offset_of!(libc::sockaddr_in6, sin6_addr) / 4;

/// Sources that a filter is first asked for; more take another system call.
const SOURCES_ASKED_FOR: usize = 4;

/// From whom a socket gets the datagrams of a group that come in on an interface; `None`: it is not
/// a member there.
pub fn group_filter(fd: c_int, group: IpAddr, link_index: u32) -> Option<SourceFilter> {
    let mut room = SOURCES_ASKED_FOR;
    loop {
        let filter = ask(fd, group, link_index, room)?;
        let count = *filter.get(COUNT)? as usize;
        if count > room {
            room = count;
            continue;
        }
        let sources = filter.get(SOURCES..)?.chunks_exact(SOURCE).take(count);
        let sources = sources
            .filter_map(|source| address(source, group))
            .collect();
        return Some(match *filter.get(MODE)? {
            MCAST_EXCLUDE => SourceFilter::Exclude(sources),
            _ => SourceFilter::Include(sources),
        });
    }
}

/// The address that is in a socket address of the group's family.
fn address(sockaddr: &[u32], group: IpAddr) -> Option<IpAddr> {
    match group {
        IpAddr::V4(_) => Some(sockaddr.get(ADDRESS)?.to_ne_bytes().into()),
        IpAddr::V6(_) => {
            let mut octets = [0; 16];
            let words = sockaddr.get(V6_ADDRESS..)?.first_chunk::<4>()?;
            for (to, word) in octets.chunks_exact_mut(4).zip(words) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            Some(octets.into())
        }
    }
}

/// `struct group_filter`, as words.
fn ask(fd: c_int, group: IpAddr, link_index: u32, room: usize) -> Option<Vec<u32>> {
    let mut words = vec![0_u32; SOURCES + room * SOURCE];
    let (level, family, place, octets) = match group {
        IpAddr::V4(ip) => (
            libc::IPPROTO_IP,
            libc::AF_INET,
            ADDRESS,
            ip.octets().to_vec(),
        ),
        IpAddr::V6(ip) => (
            libc::IPPROTO_IPV6,
            libc::AF_INET6,
            V6_ADDRESS,
            ip.octets().to_vec(),
        ),
    };
    let [family_low, family_high] = (family as libc::sa_family_t).to_ne_bytes();
    for (place, value) in [
        (0, link_index),
        (GROUP, u32::from_ne_bytes([family_low, family_high, 0, 0])),
        (COUNT, u32::try_from(room).ok()?),
    ] {
        *words.get_mut(place)? = value;
    }
    let address = words.get_mut(GROUP + place..)?.iter_mut();
    for (word, octets) in address.zip(octets.chunks_exact(4)) {
        *word = u32::from_ne_bytes(octets.try_into().ok()?);
    }
    let mut len = libc::socklen_t::try_from(size_of_val(&*words)).ok()?;
    // SAFETY: the kernel reads and writes at most `len` bytes of `words`.
    check(unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            level,
            MCAST_MSFILTER,
            words.as_mut_ptr(),
            &raw mut len,
        )
    })
    .ok()?;
    Some(words)
}

/// Has a netlink socket receive the notifications of a multicast group of netlink.
pub fn subscribe(socket: BorrowedFd<'_>, group: u32) -> io::Result<()> {
    change_membership(socket, libc::NETLINK_ADD_MEMBERSHIP, group)
}

/// From here on it receives none of them.
pub fn unsubscribe(socket: BorrowedFd<'_>, group: u32) -> io::Result<()> {
    change_membership(socket, libc::NETLINK_DROP_MEMBERSHIP, group)
}

fn change_membership(socket: BorrowedFd<'_>, change: c_int, group: u32) -> io::Result<()> {
    // SAFETY: the kernel reads `group`, and no more than its size.
    check(unsafe {
        libc::syscall(
            libc::SYS_setsockopt,
            socket.as_raw_fd(),
            libc::SOL_NETLINK,
            change,
            &raw const group,
            size_of::<u32>(),
        )
    })
    .map(drop)
    .map_err(|errno| io::Error::from_raw_os_error(errno.0))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_kernel_knows_on_which_interface_a_socket_is_a_member() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let group = Ipv4Addr::new(239, 255, 77, 1);
        let filter = |group: Ipv4Addr, link| group_filter(socket.as_raw_fd(), group.into(), link);
        assert_eq!(filter(group, 1), None);
        // Whoever tests may have no multicast on this interface.
        if socket
            .join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)
            .is_err()
        {
            return;
        }
        assert_eq!(filter(group, 1), Some(SourceFilter::none()));
        assert_eq!(filter(group, 2), None);
        assert_eq!(filter(Ipv4Addr::new(239, 255, 77, 2), 1), None);
        socket
            .leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST)
            .unwrap();
        assert_eq!(filter(group, 1), None);
    }
    #[test]
    fn the_same_of_ipv6() {
        let Ok(socket) = UdpSocket::bind("[::1]:0") else {
            // The machine has no IPv6.
            return;
        };
        let group: Ipv6Addr = "ff05::4d:1".parse().unwrap();
        let filter = |link| group_filter(socket.as_raw_fd(), group.into(), link);
        assert_eq!(filter(1), None);
        if socket.join_multicast_v6(&group, 1).is_err() {
            return;
        }
        assert_eq!(filter(1), Some(SourceFilter::none()));
        assert_eq!(filter(2), None);
        socket.leave_multicast_v6(&group, 1).unwrap();
        assert_eq!(filter(1), None);
    }
}
