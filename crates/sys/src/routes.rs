//! What the kernel's routes say of this host's addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;

use libc::c_int;

use crate::{Sockaddr, check, local_address, owned};

/// A datagram socket that nothing is sent by.
fn scratch() -> Option<std::os::fd::OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_socket, libc::AF_INET, kind, 0) }).ok()?;
    // SAFETY: the kernel has just made it.
    Some(unsafe { owned(fd) })
}

/// The source address of datagrams to another host.
pub fn source_towards(address: Ipv4Addr) -> Option<Ipv4Addr> {
    let socket = scratch()?;
    let fd: c_int = socket.as_raw_fd();
    // Any port: nothing is sent.
    let address = Sockaddr::from(SocketAddr::from((address, 9)));
    let (start, len) = (address.as_bytes().as_ptr(), address.as_bytes().len());
    // SAFETY: the kernel reads `len` bytes of `address`.
    check(unsafe { libc::syscall(libc::SYS_connect, fd, start, len) }).ok()?;
    match local_address(fd).ok()??.ip() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// The first address of an interface.
pub fn first_address(link_index: u32) -> Option<Ipv4Addr> {
    let socket = scratch()?;
    let fd = socket.as_raw_fd();
    // SAFETY: all-zero is a value of this struct of integers and arrays.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = link_index.cast_signed();
    for call in [libc::SIOCGIFNAME, libc::SIOCGIFADDR] {
        // SAFETY: the kernel reads and writes one ifreq.
        check(unsafe { libc::syscall(libc::SYS_ioctl, fd, call, &raw mut request) }).ok()?;
    }
    // SAFETY: the kernel has written a socket address there, and any bytes are one.
    let address = unsafe { request.ifr_ifru.ifru_addr };
    let [_, _, a, b, c, d, ..] = address.sa_data.map(i8::cast_unsigned);
    (c_int::from(address.sa_family) == libc::AF_INET).then(|| Ipv4Addr::new(a, b, c, d))
}
