//! What the kernel knows of a socket's memberships in multicast groups.

use std::net::Ipv4Addr;

use libc::c_int;

use super::check;

/// Whose datagrams a member of a group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupFilter {
    /// Everybody's.
    None,
    /// Those of some sources.
    Some,
}

/// `MCAST_MSFILTER`
const MCAST_MSFILTER: c_int = 48;
/// `MCAST_EXCLUDE`
const MCAST_EXCLUDE: u32 = 0;

/// `struct group_filter` without sources.
#[repr(C)]
struct Filter {
    interface: u32,
    group: libc::sockaddr_storage,
    mode: u32,
    source_count: u32,
}

/// How a socket is a member of a group on an interface; `None`: it is not.
pub(crate) fn group_filter(fd: c_int, group: Ipv4Addr, link_index: u32) -> Option<GroupFilter> {
    // SAFETY: zeros are a valid value of each member.
    let mut filter: Filter = unsafe { std::mem::zeroed() };
    filter.interface = link_index;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(group).to_be(),
        },
        sin_zero: [0; 8],
    };
    let room = (&raw mut filter.group).cast::<libc::sockaddr_in>();
    // SAFETY: the storage has room for every kind of address, and is aligned for each.
    unsafe { room.write(address) };
    let mut len = size_of::<Filter>() as libc::socklen_t;
    // SAFETY: the kernel reads and writes at most `len` bytes of `filter`.
    check(unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            libc::IPPROTO_IP,
            MCAST_MSFILTER,
            &raw mut filter,
            &raw mut len,
        )
    })
    .ok()?;
    let takes_all = filter.mode == MCAST_EXCLUDE && filter.source_count == 0;
    Some(if takes_all {
        GroupFilter::None
    } else {
        GroupFilter::Some
    })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_kernel_knows_on_which_interface_a_socket_is_a_member() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let group = Ipv4Addr::new(239, 255, 77, 1);
        let filter = |group, link_index| group_filter(socket.as_raw_fd(), group, link_index);
        assert_eq!(filter(group, 1), None);
        // Whoever tests may have no multicast on this interface.
        if socket
            .join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)
            .is_err()
        {
            return;
        }
        assert_eq!(filter(group, 1), Some(GroupFilter::None));
        assert_eq!(filter(group, 2), None);
        assert_eq!(filter(Ipv4Addr::new(239, 255, 77, 2), 1), None);
        socket
            .leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST)
            .unwrap();
        assert_eq!(filter(group, 1), None);
    }
}
